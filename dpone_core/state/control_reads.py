"""Reads control tables; a table that another program made or changed is named."""

from __future__ import annotations

from dpone_core.errors import ConnectionLostError, ConnectorError
from dpone_core.ports.control import ControlRow, ControlTable, ControlTables


def read_control_rows(control: ControlTables, table: ControlTable, where: ControlRow) -> tuple[ControlRow, ...]:
    """The rows that match `where`; () for a table that does not exist.

    Raises ConnectorError `control_table_unreadable` that names the table and the columns it must have, unless the
    session was lost.
    """
    try:
        return control.read(table, where)
    except ConnectionLostError:
        raise
    except ConnectorError as error:
        columns = ", ".join(column.name for column in table.columns)
        raise ConnectorError(
            f"control table '{table.schema}.{table.name}' could not be read; its columns must be {columns}",
            code="control_table_unreadable",
            fix="compare its columns, give the role the right to read it, or rename a table that dpone did not make",
        ) from error
