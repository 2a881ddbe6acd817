"""What every SQL sink asks of an existing control table before it writes to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dpone_core.errors import ConnectorError
from dpone_core.ports.control import ControlColumn, ControlTable


def require_compatible(
    table: ControlTable, found: Mapping[str, str], type_text: Callable[[ControlColumn], str]
) -> tuple[ControlColumn, ...]:
    """Nullable columns an older table lacks, to be added; `control_table_incompatible` for any other difference.

    `found` maps the existing columns to their types; columns of a newer dpone are left alone.
    """
    missing = tuple(column for column in table.columns if column.name not in found)
    for column in missing:
        if not column.nullable:
            raise ConnectorError(
                f"control table {table.name!r} has no column {column.name!r}", code="control_table_incompatible"
            )
    for column in table.columns:
        existing = found.get(column.name)
        if existing is not None and existing != type_text(column):
            raise ConnectorError(
                f"control table {table.name!r}: column {column.name!r} has another type than this version writes",
                code="control_table_incompatible",
            )
    return missing
