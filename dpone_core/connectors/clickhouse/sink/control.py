"""Control tables on ClickHouse: ReplacingMergeTree by the version column, read with FINAL.

compare_and_set is a critical section: in an embedded engine a lock of this process (the directory lock keeps other
processes out), on a server a `ServerMutex` as well. When the answer to a row is lost, the row is read back.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dpone_core.connectors._sql.control_rows import require_compatible
from dpone_core.connectors._sql.text import literal_backslash, quote_backtick
from dpone_core.connectors.clickhouse.catalog import facts_of
from dpone_core.connectors.clickhouse.ddl import Ddl, qualify
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlRow, ControlTable, ControlValue

from .mutex import ServerMutex

_TYPES: Final = {
    ControlColumnKind.TEXT: "String",
    ControlColumnKind.INTEGER: "Int64",
    ControlColumnKind.TIMESTAMP: "DateTime64(6, 'UTC')",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ClickHouseControlTables:
    """The control tables of one server or embedded engine."""

    def __init__(self, session: Session, mutex: ServerMutex | None = None) -> None:
        self._session = session
        self._process_mutex = threading.Lock()
        self._server_mutex = mutex if mutex is not None else ServerMutex(session)

    def ensure(self, table: ControlTable) -> None:
        name = _name(table)
        columns = ", ".join(f"{quote_backtick(column.name)} {_type_text(column)}" for column in table.columns)
        key = ", ".join(map(quote_backtick, table.key))
        for statement in (
            Ddl(None).create_database(table.schema),
            f"CREATE TABLE IF NOT EXISTS {qualify(name)} ({columns})"
            f" ENGINE = ReplacingMergeTree({quote_backtick(table.version_column)}) ORDER BY ({key})",
        ):
            self._session.command(
                statement, code="control_table_refused", message="ClickHouse refused to create a control table"
            )
        rows = self._session.rows(
            "SELECT name, type FROM system.columns WHERE database = {database:String} AND table = {name:String}",
            {"database": table.schema, "name": table.name},
        )
        found = {str(row[0]): str(row[1]) for row in rows}
        for column in require_compatible(table, found, _type_text):
            self._session.command(
                f"ALTER TABLE {qualify(name)} ADD COLUMN IF NOT EXISTS"
                f" {quote_backtick(column.name)} {_type_text(column)}",
                code="control_table_refused",
                message="ClickHouse refused to extend a control table",
            )

    def upsert(self, table: ControlTable, rows: Sequence[ControlRow]) -> None:
        if not rows:
            return
        names = [column.name for column in table.columns]
        lines = [json.dumps({name: _json_value(row.get(name)) for name in names}) for row in rows]
        try:
            self._session.insert_json(
                qualify(_name(table)), names, lines, message="ClickHouse did not take a control row"
            )
        except ConnectorError:
            if not all(self._is_visible(table, row) for row in rows):
                raise

    def read(self, table: ControlTable, where: ControlRow) -> tuple[ControlRow, ...]:
        if facts_of(self._session, _name(table)) is None:
            return ()
        selected = ", ".join(_select_expression(column) for column in table.columns)
        key = ", ".join(map(quote_backtick, table.key))
        rows = self._session.rows(
            f"SELECT {selected} FROM {qualify(_name(table))} AS stored FINAL{_where(table, where)} ORDER BY {key}"
        )
        return tuple(
            {column.name: _value(column, item) for column, item in zip(table.columns, row, strict=True)} for row in rows
        )

    def compare_and_set(
        self, table: ControlTable, key: ControlRow, expected: ControlRow | None, new: ControlRow | None
    ) -> bool:
        with self._enter_section(table, key):
            found = self.read(table, key)
            current = found[0] if found else None
            if (current is None) != (expected is None):
                return False
            if current is not None and any(current[name] != value for name, value in (expected or {}).items()):
                return False
            if new is not None:
                self.upsert(table, [_with_newer_version(table, current, new)])
            elif current is not None:
                self._delete(table, key)
            return True

    def _delete(self, table: ControlTable, key: ControlRow) -> None:
        try:
            self._session.command(
                f"ALTER TABLE {qualify(_name(table))} DELETE{_where(table, key)}",
                code="control_table_refused",
                message="ClickHouse refused to delete a control row",
            )
        except ConnectorError:
            if self.read(table, key):
                raise

    def _is_visible(self, table: ControlTable, row: ControlRow) -> bool:
        """Whether readers see exactly this version of the row."""
        found = self.read(table, {name: row.get(name) for name in table.key})
        return bool(found) and all(found[0][column.name] == row.get(column.name) for column in table.columns)

    @contextmanager
    def _enter_section(self, table: ControlTable, key: ControlRow) -> Iterator[None]:
        with self._process_mutex:
            if self._session.embedded:
                yield
                return
            subject = json.dumps([table.schema, table.name, key], default=str, sort_keys=True)
            with self._server_mutex.enter(table.schema, subject):
                yield


def _name(table: ControlTable) -> TableName:
    return TableName(schema=table.schema, name=table.name)


def _type_text(column: ControlColumn) -> str:
    text = _TYPES[column.kind]
    return f"Nullable({text})" if column.nullable else text


def _json_value(value: ControlValue) -> str | int | None:
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f") if isinstance(value, datetime) else value


def _select_expression(column: ControlColumn) -> str:
    quoted = f"stored.{quote_backtick(column.name)}"
    return f"toUnixTimestamp64Micro({quoted})" if column.kind is ControlColumnKind.TIMESTAMP else quoted


def _value(column: ControlColumn, item: Any) -> ControlValue:
    if item is None or column.kind is not ControlColumnKind.TIMESTAMP:
        return item  # type: ignore[no-any-return]
    return _EPOCH + timedelta(microseconds=int(item))


def _where(table: ControlTable, where: ControlRow) -> str:
    conditions = [f"{quote_backtick(name)} {_equals(value)}" for name, value in where.items()]
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _equals(value: ControlValue) -> str:
    if value is None:
        return "IS NULL"
    if isinstance(value, datetime):
        return f"= fromUnixTimestamp64Micro({(value - _EPOCH) // timedelta(microseconds=1)}, 'UTC')"
    return f"= {value}" if isinstance(value, int) else f"= {literal_backslash(value)}"


def _with_newer_version(table: ControlTable, current: ControlRow | None, new: ControlRow) -> ControlRow:
    """The row with a version greater than the current one's, even if two clocks agree or one runs behind. Raises
    ConnectorError `control_table_refused` for a row without a version."""
    version = new.get(table.version_column)
    before = current.get(table.version_column) if current else None
    if not isinstance(version, datetime):
        raise ConnectorError("a control row must have a value in its version column", code="control_table_refused")
    if isinstance(before, datetime) and version <= before:
        return {**new, table.version_column: before + timedelta(microseconds=1)}
    return new
