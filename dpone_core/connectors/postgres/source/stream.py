"""Streams a selection once by ADBC: a REPEATABLE READ READ ONLY transaction, bounded batches, exact values.

When a value stops the query, the reader counts in the same snapshot which columns hold values without an exact form.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Final

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from dpone_core.connectors._arrow.cast import StrictCast, limit_batch_rows
from dpone_core.connectors._sql.interruptible import interruptible
from dpone_core.connectors._sql.read_only import would_write_error
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.adbc_rows import fetch
from dpone_core.connectors.postgres.catalog import estimated_rows
from dpone_core.connectors.postgres.database import BEGIN_SNAPSHOT, Database, row_security, shared_snapshot
from dpone_core.connectors.postgres.errors import ENGINE, connect_error, is_lost, server_error, sqlstate_of
from dpone_core.connectors.postgres.types import decode, misfit_condition, reading_expression
from dpone_core.errors import ConnectionLostError, ConnectorError, ETLExecutionError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import ColumnKind, TableSchema

from .selection import Selection

BATCH_BYTES: Final = 4 * 1024 * 1024
_BATCH_SIZE: Final = "adbc.postgresql.batch_size_hint_bytes"
_OUT_OF_RANGE: Final = "source_value_out_of_range"
_SAVEPOINT: Final = "SAVEPOINT dpone_read"
_WAY_OUT: Final = (
    "correct the rows, declare what they become in source.options.special_values, or turn them to NULL in a query"
)
_STOPPED: Final = "PostgreSQL stopped the query of the source"


class PostgresStream:
    """BatchStream. `close` from another thread cancels the running query."""

    def __init__(
        self,
        database: Database,
        chosen: Selection,
        schema: TableSchema,
        *,
        code: str = _OUT_OF_RANGE,
        whole_table: TableName | None = None,
        snapshot: str | None = None,
    ) -> None:
        self.schema = schema
        self._database = database
        self._chosen = chosen
        self._code = code
        self._whole_table = whole_table
        self._snapshot = snapshot
        self._cast = StrictCast(schema, code=code)
        self._closed = False
        self._checks_text = False
        self._running: adbc.Cursor | None = None
        self._mutex = threading.Lock()

    def batches(self) -> Iterator[pa.RecordBatch]:
        values = ", ".join(
            f"{reading_expression(column, quote_ansi(column.name))} AS {quote_ansi(column.name)}"
            for column in self.schema.columns
        )
        with ExitStack() as stack:
            connection = stack.enter_context(closing(self._connect()))
            try:
                self._begin(connection)
                yield from self._read(connection, f"SELECT {values} {self._chosen.text}")
            except GeneratorExit:
                raise
            except Exception as error:  # the driver's hierarchy, Arrow's and OSError
                if self._closed:
                    return
                raise self._explain(connection, error) from error

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            if self._running is not None:
                self._running.adbc_cancel()

    def expected_rows(self) -> int | None:
        """The estimate of the last ANALYZE or VACUUM; known of a whole table only."""
        return None if self._whole_table is None else estimated_rows(self._database, self._whole_table)

    def _connect(self) -> adbc.Connection:
        try:
            return adbc.connect(self._database.uri, autocommit=True)
        except adbc.Error as error:
            raise connect_error(error, unreachable=self._database.side.unreachable) from error

    def _begin(self, connection: adbc.Connection) -> None:
        """Begins the transaction. The savepoint comes after the first query, which takes the snapshot that `_explain`
        returns to."""
        shared = () if self._snapshot is None else (shared_snapshot(self._snapshot),)
        security = row_security(visible_rows=self._chosen.visible_rows)
        for statement in (*self._database.settings, BEGIN_SNAPSHOT, *shared, security):
            fetch(connection, statement)
        ((encoding,),) = fetch(connection, "SELECT current_setting('server_encoding')")
        self._checks_text = encoding == "SQL_ASCII"
        for ordinal, value in enumerate(self._chosen.settings):
            fetch(connection, f"SELECT set_config('dpone.p{ordinal}', $1, true)", (value,))
        fetch(connection, _SAVEPOINT)

    def _read(self, connection: adbc.Connection, sql: str) -> Iterator[pa.RecordBatch]:
        with self._cursor(connection) as cursor:
            interruptible(lambda: cursor.execute(sql), cursor.adbc_cancel)
            with closing(cursor.fetch_record_batch()) as reader:
                for batch in limit_batch_rows(reader):
                    if self._closed:
                        return
                    yield self._cast_exactly(batch)

    def _cast_exactly(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [self._decode(index, values) for index, values in enumerate(batch.columns)]
        return self._cast(pa.RecordBatch.from_arrays(columns, names=list(self.schema.names)))

    def _decode(self, index: int, values: pa.Array) -> pa.Array:
        column = self.schema.columns[index]
        try:
            if self._checks_text and column.type.kind is ColumnKind.STRING:
                values.validate(full=True)
            return decode(column, values)
        except ValueError as error:
            raise ConnectorError(
                f"column {column.name!r}: a value does not fit {column.type}", code=self._code
            ) from error

    @contextmanager
    def _cursor(self, connection: adbc.Connection) -> Iterator[adbc.Cursor]:
        with closing(connection.cursor(adbc_stmt_kwargs={_BATCH_SIZE: str(BATCH_BYTES)})) as cursor:
            with self._mutex:
                self._running = cursor
            try:
                yield cursor
            finally:
                with self._mutex:
                    self._running = None

    def _explain(self, connection: adbc.Connection, error: Exception) -> ETLExecutionError:
        """The error that names the columns and counts of values without an exact form, counted in the snapshot of the
        stopped query; a lost session gives the original error."""
        refusal = server_error(
            error, _STOPPED, code=self._database.side.refused, unreachable=self._database.side.unreachable
        )
        try:
            fetch(connection, f"ROLLBACK TO {_SAVEPOINT}")
        except Exception:  # noqa: BLE001 - the driver's hierarchy and OSError
            if isinstance(error, ETLExecutionError) or (sqlstate_of(error) is not None and not is_lost(error)):
                return refusal
            return ConnectionLostError(f"{_STOPPED}: the connection was lost", code=self._database.side.unreachable)
        if "statement timeout" in str(error):
            return ConnectorError(
                f"{_STOPPED}: it reached its statement timeout",
                code=self._database.side.refused,
                fix="raise statement_timeout",
            )
        if "read-only transaction" in str(error):
            return would_write_error(ENGINE)
        if sqlstate_of(error) is not None:
            return refusal
        try:
            misfits = self._misfits(connection)
        except Exception as again:  # noqa: BLE001 - asked without COPY, PostgreSQL's answer has its SQLSTATE
            return (
                refusal
                if isinstance(error, ETLExecutionError)
                else server_error(
                    again, _STOPPED, code=self._database.side.refused, unreachable=self._database.side.unreachable
                )
            )
        if not misfits:
            return refusal
        listed = "; ".join(f"column {name!r}: {count} values have no {kind}" for name, kind, count in misfits)
        return ConnectorError(listed, code=self._code, fix=_WAY_OUT)

    def _misfits(self, connection: adbc.Connection) -> list[tuple[str, str, int]]:
        conditions = {
            column: condition
            for column in self.schema.columns
            if (condition := misfit_condition(column, quote_ansi(column.name))) is not None
        }
        if not conditions:
            return []
        counts = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in conditions.values())
        (row,) = fetch(connection, f"SELECT {counts} {self._chosen.text}")
        return [
            (column.name, str(column.type), int(count)) for column, count in zip(conditions, row, strict=True) if count
        ]
