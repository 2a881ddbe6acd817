"""Control tables on PostgreSQL: one row per key under a primary key, changed under row locks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import psycopg

from dpone_core.connectors._sql.control_rows import report_busy, require_compatible, retry_lost_change
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.catalog import qualify
from dpone_core.connectors.postgres.database import Database
from dpone_core.errors import ConnectionLostError
from dpone_core.model.load_config import TableName
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlRow, ControlTable, ControlValue

from .catalog import resolve, target_table
from .publish import publication_lock
from .staging import ensure_schema

_TYPES: Final = {
    ControlColumnKind.TEXT: "text",
    ControlColumnKind.INTEGER: "bigint",
    ControlColumnKind.TIMESTAMP: "timestamp with time zone",
}
_REFUSED: Final = "control_table_refused"
_LOCK_SECONDS: Final = 20
Cursor = psycopg.RawCursor[tuple[Any, ...]]


class PostgresControlTables:
    """ControlTables of one database. Writes are durable; an upsert whose answer is lost is repeated."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ensure(self, table: ControlTable) -> None:
        name = _name(table)
        definitions = [
            f"{quote_ansi(column.name)} {_type_text(column)}{'' if column.nullable else ' NOT NULL'}"
            for column in table.columns
        ]
        key = ", ".join(map(quote_ansi, table.key))
        if self._missing(table) == ():
            return
        ensure_schema(self._database, table.schema)
        with self._database.transaction(code=_REFUSED, message="PostgreSQL refused a control table") as cursor:
            cursor.execute(b"SELECT pg_catalog.pg_advisory_xact_lock($1)", (publication_lock(name),))
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {qualify(name)} ({', '.join(definitions)}, PRIMARY KEY ({key}))".encode()
            )
            for column in self._missing(table) or ():
                cursor.execute(
                    f"ALTER TABLE {qualify(name)} ADD COLUMN IF NOT EXISTS"
                    f" {quote_ansi(column.name)} {_type_text(column)}".encode()
                )

    def upsert(self, table: ControlTable, rows: Sequence[ControlRow]) -> None:
        try:
            self._upsert(table, rows)
        except ConnectionLostError:
            self._upsert(table, rows)

    def read(self, table: ControlTable, where: ControlRow) -> tuple[ControlRow, ...]:
        if target_table(self._database.rows, _name(table)) is None:
            return ()
        sql, parameters = _select(table, where)
        return tuple(_row(table, row) for row in self._database.rows(sql, parameters))

    def compare_and_set(
        self, table: ControlTable, key: ControlRow, expected: ControlRow | None, new: ControlRow | None
    ) -> bool:
        return retry_lost_change(
            lambda: self._compare_and_set(table, key, expected, new),
            lambda: self.read(table, key),
            expected,
            new,
        )

    def _upsert(self, table: ControlTable, rows: Sequence[ControlRow]) -> None:
        with self._database.transaction(code=_REFUSED, message="PostgreSQL refused a control row") as cursor:
            for row in rows:
                _replace(cursor, table, row)

    def _compare_and_set(
        self, table: ControlTable, key: ControlRow, expected: ControlRow | None, new: ControlRow | None
    ) -> bool:
        name = qualify(_name(table))
        with (
            report_busy(lambda cause: isinstance(cause, psycopg.errors.LockNotAvailable)),
            self._database.transaction(
                code=_REFUSED, message="PostgreSQL refused a control row", lock_timeout_seconds=_LOCK_SECONDS
            ) as cursor,
        ):
            sql, parameters = _select(table, key)
            found = cursor.execute(f"{sql} FOR UPDATE".encode(), parameters or None).fetchone()
            if found is None:
                return expected is None and (new is None or _insert(cursor, table, new))
            current = _row(table, found)
            if expected is None or any(current[column] != value for column, value in expected.items()):
                return False
            if new is not None:
                _replace(cursor, table, new, if_older=False)
                return True
            conditions, values = _conditions(key)
            cursor.execute(f"DELETE FROM {name} AS stored{conditions}".encode(), values or None)
            return True

    def _missing(self, table: ControlTable) -> tuple[ControlColumn, ...] | None:
        """Columns to be added to the existing table; None when there is none."""
        found = target_table(self._database.rows, _name(table))
        if found is None:
            return None
        return require_compatible(table, {c.column.name: c.declared_type for c in found.columns}, _type_text)


def _insert(cursor: Cursor, table: ControlTable, row: ControlRow) -> bool:
    """Inserts the row; returns False when another process has already inserted one with this key."""
    sql, values = _insertion(table, row)
    cursor.execute(f"{sql} ON CONFLICT DO NOTHING".encode(), values)
    return cursor.rowcount == 1


def _replace(cursor: Cursor, table: ControlTable, row: ControlRow, *, if_older: bool = True) -> None:
    """Changes the row of the same key in place, so that a session which waits for its lock finds it again; `if_older`:
    unless the stored version is newer."""
    sql, values = _insertion(table, row)
    key = ", ".join(map(quote_ansi, table.key))
    version = quote_ansi(table.version_column)
    settings = ", ".join(f"{q} = excluded.{q}" for q in (quote_ansi(column.name) for column in table.columns))
    older = f" WHERE stored.{version} <= excluded.{version}" if if_older else ""
    cursor.execute(f"{sql} ON CONFLICT ({key}) DO UPDATE SET {settings}{older}".encode(), values)


def _insertion(table: ControlTable, row: ControlRow) -> tuple[str, list[ControlValue]]:
    columns = ", ".join(quote_ansi(column.name) for column in table.columns)
    marks = ", ".join(f"${place}::{_type_text(column)}" for place, column in enumerate(table.columns, 1))
    return (
        f"INSERT INTO {qualify(_name(table))} AS stored ({columns}) VALUES ({marks})",
        [row.get(column.name) for column in table.columns],
    )


def _select(table: ControlTable, where: ControlRow) -> tuple[str, list[ControlValue]]:
    columns = ", ".join(quote_ansi(column.name) for column in table.columns)
    conditions, values = _conditions(where)
    key = ", ".join(map(quote_ansi, table.key))
    return f"SELECT {columns} FROM {qualify(_name(table))} AS stored{conditions} ORDER BY {key}", values


def _conditions(where: ControlRow) -> tuple[str, list[ControlValue]]:
    """The WHERE clause and its parameters; NULL is no parameter, because it would have no type."""
    parts: list[str] = []
    values: list[ControlValue] = []
    for name, value in where.items():
        if value is None:
            parts.append(f"stored.{quote_ansi(name)} IS NULL")
        else:
            values.append(value)
            parts.append(f"stored.{quote_ansi(name)} = ${len(values)}")
    return (f" WHERE {' AND '.join(parts)}" if parts else "", values)


def _row(table: ControlTable, row: tuple[Any, ...]) -> ControlRow:
    return {
        column.name: item.astimezone(UTC) if isinstance(item, datetime) else item
        for column, item in zip(table.columns, row, strict=True)
    }


def _name(table: ControlTable) -> TableName:
    return resolve(TableName(schema=table.schema, name=table.name))


def _type_text(column: ControlColumn) -> str:
    return _TYPES[column.kind]
