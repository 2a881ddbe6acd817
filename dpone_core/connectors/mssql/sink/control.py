"""Control tables on SQL Server: one row per key under a primary key, changed under key-range locks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dpone_core.connectors._sql.control_rows import report_busy, require_compatible, retry_lost_change
from dpone_core.connectors.mssql.catalog import table_columns
from dpone_core.connectors.mssql.text import quote_name
from dpone_core.errors import ConnectionLostError
from dpone_core.model.load_config import TableName
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlRow, ControlTable, ControlValue

from .catalog import qualify, resolve, target_table
from .database import Ask, Database, is_lock_timeout
from .publish import ROW_LOCK, lock_publications
from .staging import ensure_schema

_KEY_TEXT: Final = "nvarchar(400)"
_EXACT: Final = "COLLATE Latin1_General_100_BIN2"
_TYPES: Final = {
    ControlColumnKind.TEXT: "nvarchar(max)",
    ControlColumnKind.INTEGER: "bigint",
    ControlColumnKind.TIMESTAMP: "datetimeoffset(6)",
}
_REFUSED: Final = "control_table_refused"


class MssqlControlTables:
    """ControlTables of one database. Writes are durable; an upsert whose answer is lost is repeated."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ensure(self, table: ControlTable) -> None:
        name = _name(table)
        if self._missing(table, self._database.rows) == ():
            return
        ensure_schema(self._database, table.schema)
        with self._database.transaction(code=_REFUSED, message="SQL Server refused a control table") as ask:
            lock_publications(ask, name, self._database.lock_timeout_milliseconds)
            missing = self._missing(table, ask)
            if missing is None:
                columns = ", ".join(_definition(table, column) for column in table.columns)
                key = ", ".join(map(quote_name, table.key))
                ask(f"CREATE TABLE {qualify(name)} ({columns}, PRIMARY KEY ({key}))", ())
            for column in missing or ():
                ask(f"ALTER TABLE {qualify(name)} ADD {_definition(table, column)}", ())

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
        """Replaces the row of the same key, unless the stored version is newer."""
        with self._database.transaction(code=_REFUSED, message="SQL Server refused a control row") as ask:
            for row in rows:
                key = {name: row.get(name) for name in table.key}
                sql, parameters = _select(table, key, ROW_LOCK)
                found = ask(sql, parameters)
                if not found:
                    _insert(ask, table, row)
                elif _version(_row(table, found[0]), table) <= _version(row, table):
                    _update(ask, table, row)

    def _compare_and_set(
        self, table: ControlTable, key: ControlRow, expected: ControlRow | None, new: ControlRow | None
    ) -> bool:
        with (
            report_busy(is_lock_timeout),
            self._database.transaction(code=_REFUSED, message="SQL Server refused a control row") as ask,
        ):
            sql, parameters = _select(table, key, ROW_LOCK)
            found = ask(sql, parameters)
            if not found:
                if expected is None and new is not None:
                    _insert(ask, table, new)
                return expected is None
            current = _row(table, found[0])
            if expected is None or any(current[column] != value for column, value in expected.items()):
                return False
            if new is None:
                conditions, values = _conditions(table, key)
                ask(f"DELETE FROM {qualify(_name(table))}{conditions}", values)
            else:
                _update(ask, table, new)
            return True

    def _missing(self, table: ControlTable, ask: Ask) -> tuple[ControlColumn, ...] | None:
        """Columns to be added to the existing table; None when there is none."""
        found = table_columns(ask, _name(table))
        if not found:
            return None
        return require_compatible(
            table, {column.name: column.type.native for column in found}, lambda column: _type_text(table, column)
        )


def _insert(ask: Ask, table: ControlTable, row: ControlRow) -> None:
    columns = ", ".join(quote_name(column.name) for column in table.columns)
    values = ", ".join(_mark(table, column) for column in table.columns)
    ask(
        f"INSERT INTO {qualify(_name(table))} ({columns}) VALUES ({values})",
        [_parameter(row.get(column.name)) for column in table.columns],
    )


def _update(ask: Ask, table: ControlTable, row: ControlRow) -> None:
    changed = [column for column in table.columns if column.name not in table.key]
    settings = ", ".join(f"{quote_name(column.name)} = {_mark(table, column)}" for column in changed)
    conditions, values = _conditions(table, {name: row.get(name) for name in table.key})
    ask(
        f"UPDATE {qualify(_name(table))} SET {settings}{conditions}",
        [*(_parameter(row.get(column.name)) for column in changed), *values],
    )


def _select(table: ControlTable, where: ControlRow, hint: str = "") -> tuple[str, list[ControlValue]]:
    columns = ", ".join(quote_name(column.name) for column in table.columns)
    conditions, values = _conditions(table, where)
    key = ", ".join(map(quote_name, table.key))
    return f"SELECT {columns} FROM {qualify(_name(table))}{hint}{conditions} ORDER BY {key}", values


def _conditions(table: ControlTable, where: ControlRow) -> tuple[str, list[ControlValue]]:
    kinds = {column.name: column for column in table.columns}
    parts: list[str] = []
    values: list[ControlValue] = []
    for name, value in where.items():
        if value is None:
            parts.append(f"{quote_name(name)} IS NULL")
        else:
            values.append(_parameter(value))
            parts.append(f"{quote_name(name)} = {_mark(table, kinds[name])}")
    return (f" WHERE {' AND '.join(parts)}" if parts else "", values)


def _mark(table: ControlTable, column: ControlColumn) -> str:
    """The parameter marker of a column, cast to the column's type: a bare NULL has no type."""
    return f"CAST(? AS {_type_text(table, column)})"


def _parameter(value: ControlValue) -> ControlValue:
    return value.astimezone(UTC).isoformat(timespec="microseconds") if isinstance(value, datetime) else value


def _row(table: ControlTable, row: tuple[Any, ...]) -> ControlRow:
    """A datetimeoffset comes as its text in UTC."""
    return {
        column.name: datetime.fromisoformat(item).astimezone(UTC)
        if column.kind is ControlColumnKind.TIMESTAMP and item is not None
        else item
        for column, item in zip(table.columns, row, strict=True)
    }


def _version(row: ControlRow, table: ControlTable) -> datetime:
    version = row[table.version_column]
    assert isinstance(version, datetime)
    return version


def _name(table: ControlTable) -> TableName:
    return resolve(TableName(schema=table.schema, name=table.name))


def _type_text(table: ControlTable, column: ControlColumn) -> str:
    is_key = column.name in table.key and column.kind is ControlColumnKind.TEXT
    return _KEY_TEXT if is_key else _TYPES[column.kind]


def _definition(table: ControlTable, column: ControlColumn) -> str:
    exact = f" {_EXACT}" if column.kind is ControlColumnKind.TEXT else ""
    null = "NULL" if column.nullable else "NOT NULL"
    return f"{quote_name(column.name)} {_type_text(table, column)}{exact} {null}"
