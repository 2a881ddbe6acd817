"""Control tables on DuckDB: plain tables that one process changes in transactions, one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import duckdb

from dpone_core.connectors._sql.control_rows import require_compatible
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.duckdb.catalog import comment_of
from dpone_core.connectors.duckdb.database import Database, qualify
from dpone_core.model.load_config import TableName
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlRow, ControlTable, ControlValue

_TYPES: Final = {
    ControlColumnKind.TEXT: "VARCHAR",
    ControlColumnKind.INTEGER: "BIGINT",
    ControlColumnKind.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_REFUSED: Final = "control_table_refused"


class DuckDbControlTables:
    """ControlTables of one DuckDB file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mutex = threading.Lock()

    def ensure(self, table: ControlTable) -> None:
        name = qualify(_name(table))
        definitions = ", ".join(
            f"{quote_ansi(column.name)} {_type_text(column)}{'' if column.nullable else ' NOT NULL'}"
            for column in table.columns
        )
        with (
            self._mutex,
            self._database.transaction(code=_REFUSED, message="DuckDB refused a control table") as cursor,
        ):
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_ansi(table.schema)}")
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {name} ({definitions})")
            rows = cursor.execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = current_database()"
                " AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)",
                [table.schema, table.name],
            ).fetchall()
            for column in require_compatible(table, {str(n): str(t) for n, t in rows}, _type_text):
                cursor.execute(f"ALTER TABLE {name} ADD COLUMN {quote_ansi(column.name)} {_type_text(column)}")

    def upsert(self, table: ControlTable, rows: Sequence[ControlRow]) -> None:
        with self._mutex, self._database.transaction(code=_REFUSED, message="DuckDB refused a control row") as cursor:
            for row in rows:
                _replace(cursor, table, row)

    def read(self, table: ControlTable, where: ControlRow) -> tuple[ControlRow, ...]:
        if comment_of(self._database.rows, _name(table)) is None:
            return ()
        selected = ", ".join(_select_expression(column) for column in table.columns)
        key = ", ".join(map(quote_ansi, table.key))
        conditions, parameters = _conditions(where)
        rows = self._database.rows(
            f"SELECT {selected} FROM (SELECT * FROM {qualify(_name(table))} QUALIFY row_number() OVER"
            f" (PARTITION BY {key} ORDER BY {quote_ansi(table.version_column)} DESC) = 1) AS stored{conditions}"
            f" ORDER BY {key}",
            parameters,
        )
        return tuple(
            {column.name: _value(column, item) for column, item in zip(table.columns, row, strict=True)} for row in rows
        )

    def compare_and_set(
        self, table: ControlTable, key: ControlRow, expected: ControlRow | None, new: ControlRow | None
    ) -> bool:
        with self._mutex, self._database.transaction(code=_REFUSED, message="DuckDB refused a control row") as cursor:
            found = self.read(table, key)
            current = found[0] if found else None
            if (current is None) != (expected is None):
                return False
            if current is not None and any(current[name] != value for name, value in (expected or {}).items()):
                return False
            conditions, parameters = _conditions(key)
            cursor.execute(f"DELETE FROM {qualify(_name(table))} AS stored{conditions}", list(parameters))
            if new is not None:
                _replace(cursor, table, new)
            return True


def _replace(cursor: duckdb.DuckDBPyConnection, table: ControlTable, row: ControlRow) -> None:
    """Deletes older versions of the row's key and inserts the row. A newer version stays, and `read` returns it."""
    conditions, parameters = _conditions({name: row.get(name) for name in table.key})
    version = row.get(table.version_column)
    name = qualify(_name(table))
    cursor.execute(
        f"DELETE FROM {name} AS stored{conditions} AND {quote_ansi(table.version_column)} <= ?", [*parameters, version]
    )
    columns = ", ".join(quote_ansi(column.name) for column in table.columns)
    marks = ", ".join("?" for _ in table.columns)
    cursor.execute(
        f"INSERT INTO {name} ({columns}) VALUES ({marks})", [row.get(column.name) for column in table.columns]
    )


def _name(table: ControlTable) -> TableName:
    return TableName(schema=table.schema, name=table.name)


def _type_text(column: ControlColumn) -> str:
    return _TYPES[column.kind]


def _select_expression(column: ControlColumn) -> str:
    quoted = f"stored.{quote_ansi(column.name)}"
    return f"epoch_us({quoted})" if column.kind is ControlColumnKind.TIMESTAMP else quoted


def _value(column: ControlColumn, item: Any) -> ControlValue:
    if item is None or column.kind is not ControlColumnKind.TIMESTAMP:
        return item  # type: ignore[no-any-return]
    return _EPOCH + timedelta(microseconds=int(item))


def _conditions(where: ControlRow) -> tuple[str, tuple[ControlValue, ...]]:
    parts = [f"stored.{quote_ansi(name)} IS NOT DISTINCT FROM ?" for name in where]
    return (f" WHERE {' AND '.join(parts)}" if parts else "", tuple(where.values()))
