"""Reads ClickHouse as Arrow, embedded or over HTTP: one streaming result, cast exactly; an incomplete result is an
error."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, Final

import pyarrow as pa

from dpone_core.connectors._arrow.cast import StrictCast, limit_batch_rows
from dpone_core.connectors._sql.extract import NamedSelection, apply_window, cursor_column, only_statement
from dpone_core.connectors._sql.read_only import would_write_error
from dpone_core.connectors._sql.schema_rules import check_columns, foreign_error
from dpone_core.connectors._sql.text import quote_backtick
from dpone_core.connectors.clickhouse.ddl import qualify
from dpone_core.connectors.clickhouse.session import WRITES, Session, engine_code
from dpone_core.errors import ConnectorError, ETLExecutionError
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import bind_tokens
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import ExtractRequest

from .blocks import OpenBlocks
from .types import (
    CURSOR_KINDS,
    bound_expression,
    iso_text,
    maximum_expression,
    misfit_condition,
    reading_expression,
    source_column,
)

_ENGINE: Final = "ClickHouse"
_LOG: Final = logging.getLogger("dpone")
_OUT_OF_RANGE: Final = "source_value_out_of_range"


class ClickHouseSource:
    """SourcePort over one session; `blocks` opens streaming results."""

    def __init__(self, session: Session, blocks: OpenBlocks) -> None:
        self._session = session
        self.blocks = blocks

    def describe(self, request: ExtractRequest) -> TableSchema:
        if request.table is None:
            base = self.relation(request)
            rows = self.rows(f"DESCRIBE TABLE {base.text}", base.parameters)
            described = [(str(row[0]), str(row[1]), "") for row in rows]
        else:
            table = self._session.resolve(request.table)
            rows = self.rows(_COLUMNS, {"database": table.schema or "", "name": table.name})
            described = [(str(name), str(text), str(comment)) for name, text, comment in rows]
        if not described:
            raise ConnectorError("the source table does not exist", code="source_object_not_found")
        return TableSchema(columns=tuple(source_column(*row) for row in described))

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> ClickHouseStream:
        check_columns(schema)
        if request.table is not None:
            self._warn_of_row_versions(self._session.resolve(request.table))
        table = None if request.window is not None or request.table is None else self._session.resolve(request.table)
        return ClickHouseStream(self, self.selection(request, schema), schema, whole_table=table)

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        schema = self.describe(request)
        cursor = _cursor_column(schema, column)
        chosen = self.selection(request, schema)
        value = self.rows(f"SELECT {maximum_expression(cursor)} {chosen.text}", chosen.parameters)[0][0]
        return None if value is None else iso_text(cursor, str(value))

    def rows(self, sql: str, parameters: Mapping[str, str]) -> Sequence[Sequence[Any]]:
        """All rows of a small query, read in one piece."""
        try:
            return self._session.rows(sql, parameters)
        except ConnectorError as error:
            raise _translate_error(error.__cause__ or error) from error.__cause__

    def _warn_of_row_versions(self, table: TableName) -> None:
        """Logs a warning for a table whose engine merges rows of a key later: all stored rows are read and counted
        (CH-27)."""
        rows = self.rows(_MERGING_ENGINE, {"database": table.schema or "", "name": table.name})
        if rows:
            _LOG.warning(
                "clickhouse source: a %s is read without FINAL, every version of a row; a query can ask for FINAL",
                rows[0][0],
            )

    def relation(self, request: ExtractRequest) -> NamedSelection:
        """The SQL after FROM: the table, or the query as a subquery with its tokens bound."""
        if request.table is not None:
            return NamedSelection(text=qualify(self._session.resolve(request.table)))
        if request.query is None:
            raise ConnectorError("ClickHouse reads a table or a query", code="source_request_invalid")
        bound = bind_tokens(request.query, request.token_values, lambda ordinal: f"{{dpone_p{ordinal}:String}}")
        parameters = {f"dpone_p{ordinal}": value for ordinal, value in enumerate(bound.parameters)}
        return NamedSelection(text=f"(\n{only_statement(bound.text, backslash_escapes=True)}\n)", parameters=parameters)

    def selection(self, request: ExtractRequest, schema: TableSchema) -> NamedSelection:
        base = self.relation(request)
        if request.window is None:
            return NamedSelection(text=f"FROM {base.text} AS dpone_source", parameters=base.parameters)
        column = _cursor_column(schema, request.window.column)
        return apply_window(
            base, request.window, column, quoted=quote_backtick(column.name), bound=partial(bound_expression, column)
        )


class ClickHouseStream:
    """Reads a selection once. `close` from another thread takes effect at the next batch."""

    def __init__(
        self, source: ClickHouseSource, chosen: NamedSelection, schema: TableSchema, *, whole_table: TableName | None
    ) -> None:
        self.schema = schema
        self._whole_table = whole_table
        self._source = source
        self._chosen = chosen
        self._cast = StrictCast(schema, code=_OUT_OF_RANGE)
        self._closed = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        names = list(self.schema.names)
        values = ", ".join(
            f"{reading_expression(column)} AS {quote_backtick(f'dpone_c{index}')}"
            for index, column in enumerate(self.schema.columns)
        )
        sql = f"SELECT {values} {self._chosen.text}"
        with closing(self._read(sql)) as read:
            for batch in limit_batch_rows(read):
                if self._closed:
                    return
                columns = [_as_instants(c, v) for c, v in zip(self.schema.columns, batch.columns, strict=True)]
                yield self._cast(pa.RecordBatch.from_arrays(columns, names=names))

    def close(self) -> None:
        self._closed = True

    def expected_rows(self) -> int | None:
        """The row count that the table's engine keeps; known of a whole table only."""
        table = self._whole_table
        if table is None:
            return None
        rows = self._source.rows(_TOTAL_ROWS, {"database": table.schema or "", "name": table.name})
        return int(rows[0][0]) if rows and rows[0][0] is not None else None

    def _read(self, sql: str) -> Generator[pa.RecordBatch]:
        """Yields batches. Every driver error leaves as one ConnectorError, also one in the middle of a result."""
        try:
            yield from self._source.blocks(sql, self._chosen.parameters)
        except GeneratorExit:
            raise
        except Exception as error:  # the drivers raise their own hierarchies, Arrow's, urllib3's and IndexError
            raise self._misfit_error() or _translate_error(error) from error

    def _misfit_error(self) -> ConnectorError | None:
        checked = [(column, condition) for column in self.schema.columns if (condition := misfit_condition(column))]
        if not checked:
            return None
        checks = ", ".join(f"countIf({condition})" for _, condition in checked)
        with suppress(ETLExecutionError):  # the read has failed already; this only tries to say where
            row = self._source.rows(f"SELECT {checks} {self._chosen.text}", self._chosen.parameters)[0]
            for (column, _), broken in zip(checked, row, strict=True):
                if broken:
                    return ConnectorError(
                        f"column {column.name!r}: a value of {column.type.native} does not fit {column.type}",
                        code=_OUT_OF_RANGE,
                    )
        return None


def _cursor_column(schema: TableSchema, name: str) -> Column:
    column = cursor_column(schema, name, CURSOR_KINDS, _ENGINE)
    if column.type.kind is ColumnKind.STRING and column.type.native != "String":
        raise ConnectorError(
            f"the cursor column {name!r} is {column.type.native}, which cannot be a cursor on ClickHouse",
            code="source_column_unsupported",
        )
    return column


def _as_instants(column: Column, values: pa.Array) -> pa.Array:
    """Wall clocks as the UTC instants they are stored as."""
    if column.type.kind is ColumnKind.TIMESTAMP:
        return values.cast(pa.timestamp(values.type.unit))
    return values


def _translate_error(error: BaseException) -> ETLExecutionError:
    if engine_code(error) is None:
        return foreign_error(error, "the source stopped before its answer was whole", "source_unreachable")
    if engine_code(error) == WRITES:
        return would_write_error(_ENGINE)
    return foreign_error(error, "ClickHouse refused the query of the source", "source_query_refused")


_TOTAL_ROWS: Final = "SELECT total_rows FROM system.tables WHERE database = {database:String} AND name = {name:String}"
_MERGING_ENGINE: Final = (
    "SELECT engine FROM system.tables WHERE database = {database:String} AND name = {name:String}"
    " AND match(engine, '[a-z]MergeTree$') AND engine NOT IN ('ReplicatedMergeTree', 'SharedMergeTree')"
)
_COLUMNS: Final = (
    "SELECT name, type, comment FROM system.columns WHERE database = {database:String} AND table = {name:String}"
    " AND default_kind NOT IN ('ALIAS', 'MATERIALIZED', 'EPHEMERAL') ORDER BY position"
)
