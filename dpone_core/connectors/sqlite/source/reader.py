"""Reads SQLite as Arrow once: declared types, storage classes checked by SQLite, strict parsing.

The first batch of a stream holds sentinel values only (`reading`) and is dropped here. When a value stops the query, a
second query finds the column that broke its declaration.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from typing import Final

import pyarrow as pa

from dpone_core.connectors._arrow.cast import StrictCast
from dpone_core.connectors._sql.extract import cursor_column, only_statement
from dpone_core.connectors._sql.schema_rules import check_columns, foreign_error
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.sqlite.database import BATCH_ROWS, Database
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import bind_tokens
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.ports.source import ExtractRequest

from .reading import SENTINEL_ROWS, Relation, reading_of
from .selection import CURSOR_KINDS, ENGINE, Selection, relation, selection
from .types import comparison_expression, declared_type, observed_type
from .values import convert

_DESCRIBE_VIEW: Final = "__dpone__describe"
_OUT_OF_RANGE: Final = "source_value_out_of_range"


class SqliteSource:
    """SourcePort over one database file; describe reads no rows unless a column declares no type."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self, request: ExtractRequest) -> TableSchema:
        declared = self._declared_columns(request)
        if not declared:
            raise ConnectorError("the source table does not exist", code="source_object_not_found")
        types = self._observe_types(
            request, [name for name, declaration, _ in declared if declared_type(declaration) is None]
        )
        return TableSchema(
            columns=tuple(
                Column(name=name, type=declared_type(declaration) or types[name], nullable=nullable)
                for name, declaration, nullable in declared
            )
        )

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> SqliteStream:
        check_columns(schema)
        known = Relation.of(self._database, request)
        return SqliteStream(self._database, selection(request, schema), schema, known)

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        schema = self.describe(request)
        cursor = cursor_column(schema, column, CURSOR_KINDS, ENGINE)
        chosen = selection(request, schema)
        rows = self._database.rows(
            f"SELECT max({comparison_expression(cursor, quote_ansi(column))}) {chosen.text}", chosen.parameters
        )
        value = rows[0][0]
        if value is None:
            return None
        if cursor.type.kind is ColumnKind.TIMESTAMP:
            return iso_moment(cursor, str(value))
        return str(value)

    def _declared_columns(self, request: ExtractRequest) -> list[tuple[str, str, bool]]:
        """(name, declared type, nullable) of each result column; empty for an absent table."""
        if request.table is not None:
            return self._table_columns(request.table.name, request.table.schema or "main")
        if request.query is None:
            raise ConnectorError("SQLite reads a table or a query", code="source_request_invalid")
        bound = bind_tokens(request.query, request.token_values, lambda _: "NULL")
        query = only_statement(bound.text, backslash_escapes=False)
        self._database.run(f'DROP VIEW IF EXISTS temp."{_DESCRIBE_VIEW}"')
        self._database.run(f'CREATE TEMP VIEW "{_DESCRIBE_VIEW}" AS SELECT * FROM (\n{query}\n)')
        try:
            return self._table_columns(_DESCRIBE_VIEW, "temp")
        finally:
            self._database.run(f'DROP VIEW IF EXISTS temp."{_DESCRIBE_VIEW}"')

    def _table_columns(self, table: str, schema: str) -> list[tuple[str, str, bool]]:
        rows = self._database.rows(
            "SELECT name, coalesce(type, ''), \"notnull\", pk, hidden FROM pragma_table_xinfo(?, ?)", (table, schema)
        )
        visible = [row for row in rows if row[4] in (0, 2, 3)]
        keys = [row for row in visible if row[3]]
        rowid = keys[0][0] if len(keys) == 1 and str(keys[0][1]).upper() == "INTEGER" else None
        return [(str(row[0]), str(row[1]), not row[2] and row[0] != rowid) for row in visible]

    def _observe_types(self, request: ExtractRequest, names: list[str]) -> dict[str, ColumnType]:
        if not names:
            return {}
        base = relation(request)
        counts = [
            f"coalesce(max(typeof({quote_ansi(name)}) = '{kind}'), 0)" for name in names for kind in _STORAGE_CLASSES
        ]
        row = self._database.rows(f"SELECT {', '.join(counts)} FROM {base.text}", base.parameters)[0]
        width = len(_STORAGE_CLASSES)
        return {
            name: observed_type(
                frozenset(
                    kind for kind, seen in zip(_STORAGE_CLASSES, row[i * width : (i + 1) * width], strict=True) if seen
                )
            )
            for i, name in enumerate(names)
        }


_STORAGE_CLASSES: Final = ("integer", "real", "text", "blob")


def iso_moment(cursor: Column, text: str) -> str:
    """A wall clock as ISO 8601 with microseconds; ConnectorError for any other text."""
    try:
        return datetime.fromisoformat(text).isoformat(timespec="microseconds")
    except ValueError as error:
        raise ConnectorError(
            f"column {cursor.name!r}: a value does not fit {cursor.type}", code=_OUT_OF_RANGE
        ) from error


class SqliteStream:
    """One pass over a selection. Closing while another thread iterates takes effect at its next batch."""

    def __init__(self, database: Database, chosen: Selection, schema: TableSchema, relation: Relation) -> None:
        self.schema = schema
        self._database = database
        self._chosen = chosen
        self._readings = tuple(reading_of(column, quote_ansi(column.name), relation) for column in schema.columns)
        self._cast = StrictCast(schema, code=_OUT_OF_RANGE)
        self._closed = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        named = zip(self._readings, self.schema.names, strict=True)
        first = ", ".join(f"{each.sentinel} AS {quote_ansi(name)}" for each, name in named)
        values = ", ".join(each.expression for each in self._readings)
        sql = f"SELECT {first} FROM {SENTINEL_ROWS} UNION ALL SELECT {values} {self._chosen.text}"
        with ExitStack() as stack:
            reader = stack.enter_context(self._database.reader(sql, self._chosen.parameters))
            self._skip_sentinels(reader)
            while not self._closed and (batch := self._next(reader)) is not None:
                yield self._cast_exactly(batch)

    def close(self) -> None:
        self._closed = True

    def _skip_sentinels(self, reader: pa.RecordBatchReader) -> None:
        """Drops the first batch. Raises ConnectorError `source_unreachable` when the driver chose other types than
        expected; no row has been read then."""
        batch = self._next(reader)
        found = tuple(str(field.type) for field in reader.schema)
        if batch is None or batch.num_rows != BATCH_ROWS or found != tuple(each.driver for each in self._readings):
            raise ConnectorError(
                "the SQLite driver did not read the columns in the expected types; no row was read",
                code="source_unreachable",
            )

    def _cast_exactly(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        for column, values in zip(self.schema.columns, batch.columns, strict=True):
            try:
                columns.append(convert(values, column))
            except (pa.ArrowException, ArithmeticError, ValueError) as error:
                raise ConnectorError(
                    f"column {column.name!r}: a value does not fit {column.type}", code=_OUT_OF_RANGE
                ) from error
        return self._cast(pa.RecordBatch.from_arrays(columns, names=batch.schema.names))

    def _next(self, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        try:
            return reader.read_next_batch()
        except StopIteration:
            return None
        except Exception as error:  # Arrow and driver errors of a running query
            lost = foreign_error(error, "the source stopped while it was read", "source_unreachable")
            raise self._misfit_error() or lost from error

    def _misfit_error(self) -> ConnectorError | None:
        column = self._misfit()
        if column is None:
            return None
        return ConnectorError(f"column {column.name!r}: a value is not stored as {column.type}", code=_OUT_OF_RANGE)

    def _misfit(self) -> Column | None:
        checks = ", ".join(f"max({each.misfit})" for each in self._readings)
        row = self._database.rows(f"SELECT {checks} {self._chosen.text}", self._chosen.parameters)[0]
        return next((column for column, broken in zip(self.schema.columns, row, strict=True) if broken), None)
