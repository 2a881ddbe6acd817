"""One DuckDB file: a cursor for each thread, transactions as blocks, driver errors as ConnectorError."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import duckdb

from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.declared.duckdb import MEMORY_LIMIT_BYTES
from dpone_core.errors import ConnectorError, ETLExecutionError
from dpone_core.model.load_config import TableName

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_SCHEMA = "main"
BEGIN_READ_ONLY: Final = "BEGIN TRANSACTION READ ONLY"


class Database:
    """Opens the file when it is constructed. Unless it is read only, no other process can open it until `close`."""

    def __init__(self, path: str, *, read_only: bool = False, streaming_limit_bytes: int = MEMORY_LIMIT_BYTES) -> None:
        """`streaming_limit_bytes` limits memory except inside `full_memory`."""
        unreachable = "source_unreachable" if read_only else "sink_unreachable"
        self._streaming_limit_bytes = streaming_limit_bytes
        self._guard = threading.Lock()
        self._roomy = 0
        try:
            self._connection = duckdb.connect(
                path, read_only=read_only, config={"memory_limit": f"{MEMORY_LIMIT_BYTES}B"}
            )
            self._connection.execute("SET TimeZone = 'UTC'")
            self._connection.execute(f"SET memory_limit = '{streaming_limit_bytes}B'")
        except duckdb.IOException as error:
            if "lock" in str(error).lower():
                raise ConnectorError(
                    "the DuckDB file is in use by another process",
                    code="embedded_directory_locked",
                    fix="wait for the other process; DuckDB lets one process write or several read",
                ) from error
            raise foreign_error(error, "the DuckDB file could not be opened", unreachable) from error
        except duckdb.Error as error:
            raise foreign_error(error, "the DuckDB file could not be opened", unreachable) from error
        self._local = threading.local()

    @contextmanager
    def full_memory(self) -> Iterator[None]:
        """Allows the whole memory limit inside the block, for statements whose hash tables DuckDB does not spill to
        disk."""
        self._enter_or_leave(1)
        try:
            yield
        finally:
            self._enter_or_leave(-1)

    def _enter_or_leave(self, step: int) -> None:
        with self._guard:
            self._roomy += step
            limit = MEMORY_LIMIT_BYTES if self._roomy else self._streaming_limit_bytes
            with suppress(duckdb.Error):  # a limit that cannot be lowered now stays
                self._connection.execute(f"SET memory_limit = '{limit}B'")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        found: duckdb.DuckDBPyConnection | None = getattr(self._local, "cursor", None)
        if found is None:
            found = self.new_cursor()
            self._local.cursor = found
        return found

    def new_cursor(self) -> duckdb.DuckDBPyConnection:
        cursor = self._connection.cursor()
        cursor.execute("SET TimeZone = 'UTC'")
        return cursor

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return _execute(self.cursor(), sql, parameters).fetchall()
        except duckdb.Error as error:
            raise foreign_error(error, "DuckDB did not answer a query", "sink_query_failed") from error

    @contextmanager
    def register(self, name: str, reader: pa.RecordBatchReader) -> Iterator[None]:
        """Gives this thread's SQL an Arrow stream as table `name` until the block ends, also across a rollback."""
        cursor = self.cursor()
        cursor.register(name, reader)
        try:
            yield
        finally:
            with suppress(duckdb.Error):  # a cursor that was given up has forgotten it
                cursor.unregister(name)

    @contextmanager
    def transaction(self, *, code: str, message: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """Opens a transaction that commits at the end of the block and rolls back on any error. Blocks do not nest."""
        cursor = self.cursor()
        try:
            _execute(cursor, "BEGIN TRANSACTION")
            try:
                yield cursor
            except BaseException:
                self._roll_back(cursor)
                raise
            cursor.execute("COMMIT")
        except ETLExecutionError:
            raise
        except duckdb.Error as error:
            raise foreign_error(error, message, code) from error

    @staticmethod
    def ask_in(cursor: duckdb.DuckDBPyConnection) -> Callable[[str, Sequence[object]], list[tuple[Any, ...]]]:
        """A function that runs a query inside the transaction of `cursor`; driver errors pass unchanged."""
        return lambda sql, parameters: cursor.execute(sql, list(parameters)).fetchall()

    def _roll_back(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Rolls back. A signal that stopped one statement may stop the ROLLBACK too: the cursor is closed then, which
        rolls back, and this thread gets a new one."""
        try:
            _execute(cursor, "ROLLBACK")
        except duckdb.Error:
            cursor.close()
            self._local.cursor = None

    def close(self) -> None:
        self._connection.close()


def would_write(error: duckdb.Error) -> bool:
    """Whether a read-only transaction or a file opened read only has refused a change; DuckDB has no code for it."""
    return "read-only mode" in str(error)


def _execute(
    cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()
) -> duckdb.DuckDBPyConnection:
    """Executes a statement, and once more if an interruption that was meant for the statement before arrives now;
    nothing has been changed then."""
    try:
        return cursor.execute(sql, list(parameters))
    except duckdb.InterruptException:
        return cursor.execute(sql, list(parameters))


def resolve(table: TableName) -> TableName:
    return TableName(schema=table.schema or DEFAULT_SCHEMA, name=table.name)


def qualify(table: TableName) -> str:
    return f"{quote_ansi(table.schema or DEFAULT_SCHEMA)}.{quote_ansi(table.name)}"
