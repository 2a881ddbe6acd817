"""Key ranges of a PostgreSQL selection, all under one exported snapshot (PG-04).

Text compares in the collation "C", which in a UTF-8 database is the order of code points.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import psycopg

from dpone_core.connectors._sql.schema_rules import check_columns
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.database import Database, abandon
from dpone_core.errors import ConnectorError
from dpone_core.model.partition import KeyBounds, KeyRange
from dpone_core.model.special_values import with_flags
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import ExtractRequest

from .reader import PostgresSource
from .selection import CURSOR_TYPES, Selection, cursor_text, setting
from .stream import PostgresStream

_TYPES: Final = {**CURSOR_TYPES, ColumnKind.UUID: "uuid"}


class PostgresRanges:
    """RangeSourcePort of one database."""

    def __init__(self, database: Database, source: PostgresSource) -> None:
        self._database = database
        self._source = source

    @contextmanager
    def snapshot(self) -> Iterator[str | None]:
        """Exports a snapshot from a session of its own until the block ends; the session has no idle timeout."""
        connection = self._database.new_connection()
        try:
            yield self._export_snapshot(connection)
        finally:
            abandon(connection)

    def key_bounds(self, request: ExtractRequest, schema: TableSchema, column: str, snapshot: str | None) -> KeyBounds:
        key = self._key(schema, column)
        _, chosen = self._source.select(request)
        ordered = (
            _sort_expression(key) if key.type.kind is not ColumnKind.UUID else f'{quote_ansi(column)}::text COLLATE "C"'
        )
        with self._database.snapshot(chosen.settings, snapshot, visible_rows=chosen.visible_rows) as cursor:
            row = cursor.execute(
                f"SELECT count(*), min({ordered})::text, max({ordered})::text {chosen.text}".encode()
            ).fetchone()
        rows, lower, upper = row or (0, None, None)
        return KeyBounds(lower=_text_of(key, lower), upper=_text_of(key, upper), rows=int(rows))

    def open_range(
        self, request: ExtractRequest, schema: TableSchema, column: str, bounds: KeyRange, snapshot: str | None
    ) -> PostgresStream:
        check_columns(schema)
        key = self._key(schema, column)
        _, chosen = self._source.select(request)
        read = with_flags(schema, request.special_values)
        return PostgresStream(self._database, _select_range(chosen, key, bounds), read, snapshot=snapshot)

    def _export_snapshot(self, connection: psycopg.Connection) -> str:
        try:
            connection.execute("SET idle_in_transaction_session_timeout = 0")
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            row = connection.execute("SELECT pg_catalog.pg_export_snapshot()").fetchone()
        except psycopg.Error as error:
            raise self._database.error(error, "PostgreSQL did not export a snapshot") from error
        assert row is not None  # a function call has one row
        return str(row[0])

    def _key(self, schema: TableSchema, column: str) -> Column:
        key = schema.find(column)
        if key is None:
            raise ConnectorError(
                f"the partitioning column {column!r} is not a column of the source", code="source_object_not_found"
            )
        if key.type.kind not in _TYPES or (key.type.kind is ColumnKind.STRING and not _is_unpadded(key)):
            raise ConnectorError(
                f"PostgreSQL cannot split column {column!r} of type {key.type.native} into key ranges",
                code="partition_key_unsupported",
                fix="choose an integer, decimal, date, timestamp, uuid or text column",
            )
        if key.type.kind is ColumnKind.STRING:
            ((encoding,),) = self._database.rows("SELECT current_setting('server_encoding')")
            if encoding != "UTF8":
                raise ConnectorError(
                    "a PostgreSQL database that is not UTF-8 does not order text by code point",
                    code="partition_key_unsupported",
                )
        return key


def _is_unpadded(key: Column) -> bool:
    return key.type.native == "text" or key.type.native.startswith("character varying")


def _sort_expression(key: Column) -> str:
    quoted = quote_ansi(key.name)
    return f'{quoted} COLLATE "C"' if key.type.kind is ColumnKind.STRING else quoted


def _text_of(key: Column, value: str | None) -> str | None:
    if value is None or key.type.kind is ColumnKind.UUID:
        return value
    return cursor_text(key, value)


def _select_range(chosen: Selection, key: Column, bounds: KeyRange) -> Selection:
    settings = list(chosen.settings)
    conditions = [f"{quote_ansi(key.name)} IS NULL"] if bounds.is_null_partition else []
    for operator, bound in ((">=", bounds.lower), ("<=" if bounds.include_upper else "<", bounds.upper)):
        if bound is not None:
            settings.append(_require_uuid(key, bound))
            conditions.append(f"{_sort_expression(key)} {operator} {setting(len(settings) - 1, _TYPES[key.type.kind])}")
    return chosen.narrow(conditions, tuple(settings))


def _require_uuid(key: Column, bound: str) -> str:
    if key.type.kind is not ColumnKind.UUID:
        return cursor_text(key, bound)
    try:
        return str(UUID(bound))
    except ValueError as error:
        raise ConnectorError(
            f"column {key.name!r}: a bound of the range is not a uuid", code="source_value_out_of_range"
        ) from error
