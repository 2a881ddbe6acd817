"""Reading DuckDB as Arrow: one streaming result on a cursor of its own, at most one batch ahead of the reader."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import duckdb
import pyarrow as pa

from dpone_core.connectors._arrow.cast import MAX_BATCH_ROWS, StrictCast, limit_batch_rows
from dpone_core.connectors._sql.extract import NamedSelection, apply_window, cursor_column, only_statement, window_bound
from dpone_core.connectors._sql.read_only import would_write_error
from dpone_core.connectors._sql.schema_rules import check_columns, foreign_error
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.duckdb.database import BEGIN_READ_ONLY, qualify, resolve, would_write
from dpone_core.errors import ConnectorError, ETLExecutionError
from dpone_core.model.special_values import with_flags
from dpone_core.model.sql import bind_tokens
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import ExtractRequest

from .special_values import SPECIAL_VALUES
from .types import CURSOR_KINDS, misfit_condition, reading_expression, refuse_infinite, source_column

NewCursor = Callable[[], duckdb.DuckDBPyConnection]
_ENGINE: Final = "DuckDB"
_OUT_OF_RANGE: Final = "source_value_out_of_range"


class DuckDbSource:
    """SourcePort. Each call has a cursor of its own, so a stream may run in another thread."""

    def __init__(self, new_cursor: NewCursor) -> None:
        self._new_cursor = new_cursor

    def describe(self, request: ExtractRequest) -> TableSchema:
        return SPECIAL_VALUES.describe(self._describe_stored(request), request.special_values)

    def _describe_stored(self, request: ExtractRequest) -> TableSchema:
        base = relation(request)
        if request.table is None:
            types = self._result_columns(f"SELECT * FROM {base.text} LIMIT 0", base.parameters)
            return TableSchema(columns=tuple(source_column(name, text, nullable=True) for name, text in types))
        rows = self.rows(_COLUMNS, {"schema": resolve(request.table).schema or "", "name": request.table.name})
        if not rows:
            raise ConnectorError("the source table does not exist", code="source_object_not_found")
        return TableSchema(
            columns=tuple(source_column(str(name), str(text), nullable=bool(null)) for name, text, null in rows)
        )

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> DuckDbStream:
        check_columns(schema)
        whole = None if request.table is None or request.window is not None else relation(request).text
        read = with_flags(schema, request.special_values)
        return DuckDbStream(self, selection(request, schema), read, whole_table=whole)

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        schema = self.describe(request)
        cursor = _cursor_column(schema, column)
        chosen = selection(request, schema)
        value = self.rows(f"SELECT max({quote_ansi(column)})::VARCHAR {chosen.text}", chosen.parameters)[0][0]
        return None if value is None else window_bound(cursor, _iso(cursor, str(value)))

    def rows(self, sql: str, parameters: Mapping[str, str]) -> Sequence[tuple[Any, ...]]:
        """All rows of a small query."""
        with self._cursor() as cursor:
            return cursor.execute(sql, dict(parameters) or None).fetchall()

    def new_cursor(self) -> duckdb.DuckDBPyConnection:
        """A new cursor in a read-only transaction that never takes a Python variable for a table. Closing it ends the
        transaction."""
        cursor = self._new_cursor()
        cursor.execute("SET python_enable_replacements = false")
        cursor.execute(BEGIN_READ_ONLY)
        return cursor

    def _result_columns(self, sql: str, parameters: Mapping[str, str]) -> list[tuple[str, str]]:
        with self._cursor() as cursor:
            cursor.execute(sql, dict(parameters) or None)
            return [(str(column[0]), str(column[1])) for column in cursor.description or ()]

    def _cursor(self) -> _TranslatingCursor:
        return _TranslatingCursor(self.new_cursor)


class DuckDbStream:
    """Reads a selection once. `close` from another thread stops the query that a reading thread waits for."""

    def __init__(
        self, source: DuckDbSource, chosen: NamedSelection, schema: TableSchema, *, whole_table: str | None = None
    ) -> None:
        self.schema = schema
        self._whole_table = whole_table
        self._source = source
        self._chosen = chosen
        self._cast = StrictCast(schema, code=_OUT_OF_RANGE)
        self._closed = threading.Event()
        self._running: duckdb.DuckDBPyConnection | None = None
        self._mutex = threading.Lock()

    def batches(self) -> Iterator[pa.RecordBatch]:
        columns = self.schema.columns
        values = ", ".join(f"{reading_expression(column)} AS {quote_ansi(column.name)}" for column in columns)
        sql = f"SELECT {values} {self._chosen.text}"
        with _TranslatingCursor(self._source.new_cursor) as cursor, self._interruptible(cursor):
            reader = self._start_reader(cursor, sql)
            try:
                for batch in limit_batch_rows(self._read(reader)):
                    if self._closed.is_set():
                        return
                    for column, found in zip(columns, batch.columns, strict=True):
                        refuse_infinite(column, found)
                    yield self._cast(batch)
            finally:
                reader.close()

    def close(self) -> None:
        with self._mutex:
            self._closed.set()
            if self._running is not None:
                self._running.interrupt()

    def expected_rows(self) -> int | None:
        """The row count in DuckDB's metadata; known of a whole table only."""
        if self._whole_table is None:
            return None
        return int(self._source.rows(f"SELECT count(*) FROM {self._whole_table}", {})[0][0])

    @contextmanager
    def _interruptible(self, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
        with self._mutex:
            self._running = cursor
        try:
            yield
        finally:
            with self._mutex:
                self._running = None

    def _start_reader(self, cursor: duckdb.DuckDBPyConnection, sql: str) -> pa.RecordBatchReader:
        """Starts the query. DuckDB computes a first part at once, so a value without an exact form may raise here."""
        try:
            return cursor.sql(sql, params=dict(self._chosen.parameters) or None).to_arrow_reader(MAX_BATCH_ROWS)
        except duckdb.ConversionException as error:
            raise self._misfit_error() or error from error

    def _read(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while not self._closed.is_set():
            try:
                yield reader.read_next_batch()
            except StopIteration:
                return
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                if self._closed.is_set():
                    return
                lost = foreign_error(error, "the source stopped while it was read", "source_unreachable")
                raise self._misfit_error() or lost from error

    def _misfit_error(self) -> ConnectorError | None:
        checked = [(column, condition) for column in self.schema.columns if (condition := misfit_condition(column))]
        if not checked:
            return None
        checks = ", ".join(f"bool_or({condition})" for _, condition in checked)
        with suppress(ETLExecutionError):  # the read has failed already; this only tries to say where
            row = self._source.rows(f"SELECT {checks} {self._chosen.text}", self._chosen.parameters)[0]
            for (column, _), broken in zip(checked, row, strict=True):
                if broken:
                    return ConnectorError(
                        f"column {column.name!r}: a value of {column.type.native} has more than 38 digits",
                        code=_OUT_OF_RANGE,
                    )
        return None


class _TranslatingCursor:
    """A cursor for one block; a DuckDB error inside it leaves as ConnectorError."""

    def __init__(self, new_cursor: NewCursor) -> None:
        self._new_cursor = new_cursor
        self._cursor: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> duckdb.DuckDBPyConnection:
        self._cursor = self._new_cursor()
        return self._cursor

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._cursor is not None:
            self._cursor.close()
        if isinstance(error, duckdb.Error) and would_write(error):
            raise would_write_error(_ENGINE) from error
        if isinstance(error, duckdb.Error):
            raise foreign_error(error, "DuckDB refused the query of the source", "source_query_refused") from error


def relation(request: ExtractRequest) -> NamedSelection:
    """The SQL after FROM: the table, or the query as a subquery with its tokens bound."""
    if request.table is not None:
        return NamedSelection(text=qualify(resolve(request.table)))
    if request.query is None:
        raise ConnectorError("DuckDB reads a table or a query", code="source_request_invalid")
    bound = bind_tokens(request.query, request.token_values, lambda ordinal: f"$dpone_p{ordinal}")
    parameters = {f"dpone_p{ordinal}": value for ordinal, value in enumerate(bound.parameters)}
    return NamedSelection(text=f"(\n{only_statement(bound.text, backslash_escapes=False)}\n)", parameters=parameters)


def selection(request: ExtractRequest, schema: TableSchema) -> NamedSelection:
    stored = relation(request)
    base = replace(stored, text=SPECIAL_VALUES.relation(stored.text, schema, request.special_values))
    if request.window is None:
        return NamedSelection(text=f"FROM {base.text} AS dpone_source", parameters=base.parameters)
    column = _cursor_column(schema, request.window.column)
    return apply_window(
        base,
        request.window,
        column,
        quoted=quote_ansi(column.name),
        bound=lambda name: f"CAST(${name} AS {column.type.native})",
    )


def _cursor_column(schema: TableSchema, name: str) -> Column:
    column = cursor_column(schema, name, CURSOR_KINDS, _ENGINE)
    if column.type.kind is ColumnKind.STRING and column.type.native != "VARCHAR":
        raise ConnectorError(
            f"the cursor column {name!r} is {column.type.native}, which cannot be a cursor on DuckDB",
            code="source_column_unsupported",
        )
    return column


def _iso(column: Column, text: str) -> str:
    if column.type.kind not in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ):
        return text
    return text.replace(" ", "T").removesuffix("+00") + ("+00:00" if text.endswith("+00") else "")


_COLUMNS: Final = (
    "SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE database_name = current_database()"
    " AND lower(schema_name) = lower($schema) AND lower(table_name) = lower($name) ORDER BY column_index"
)
