"""psycopg connections to one PostgreSQL database: one per thread, each with the same session settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from dpone_core.connectors._sql.text import literal_ansi
from dpone_core.errors import ETLExecutionError
from dpone_core.model.connection import Connection

from .address import SESSION_SETTINGS, libpq_uri
from .errors import ErrorCodes, connect_error, server_error

Row = tuple[Any, ...]
T = TypeVar("T")
_CANCEL_SECONDS: Final = 5.0
BEGIN_SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Database:
    """Opens connections on first use. A lost connection is replaced at the next use, but never inside a transaction."""

    def __init__(self, connection: Connection, side: ErrorCodes, *, settings: tuple[str, ...] = ()) -> None:
        self.uri = libpq_uri(connection)
        self.side = side
        self.settings = (*SESSION_SETTINGS, *settings)
        self._local = threading.local()
        self._opened: list[psycopg.Connection] = []
        self._mutex = threading.Lock()

    def connection(self) -> psycopg.Connection:
        """This thread's connection, in autocommit mode."""
        found: psycopg.Connection | None = getattr(self._local, "connection", None)
        if found is None or found.closed or found.info.transaction_status is TransactionStatus.ACTIVE:
            if found is not None:
                abandon(found)
            found = self.new_connection()
            self._local.connection = found
            with self._mutex:
                self._opened.append(found)
        return found

    def new_connection(self) -> psycopg.Connection:
        """A new connection, which the caller closes. The driver prepares no statements on its own."""
        try:
            connection = psycopg.connect(self.uri, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise connect_error(error, unreachable=self.side.unreachable) from error
        try:
            connection.execute("; ".join(self.settings))
        except psycopg.Error as error:
            connection.close()
            raise self.error(error, "PostgreSQL refused a session setting") from error
        return connection

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """All rows of a small query that changes nothing; parameters are $1, $2, ..."""
        text = sql.encode()
        return self.retry_when_lost(
            lambda connection: psycopg.RawCursor(connection).execute(text, parameters or None).fetchall()
        )

    def retry_when_lost(self, question: Callable[[psycopg.Connection], T]) -> T:
        """Runs a read-only question, and once more on a new connection if an idle connection turned out to be cut."""
        connection = self.connection()
        try:
            try:
                return question(connection)
            except psycopg.Error:
                if not connection.closed:
                    raise
                return question(self.connection())
        except psycopg.Error as error:
            raise self.error(error, "PostgreSQL did not answer a query") from error

    @contextmanager
    def snapshot(
        self, settings: Sequence[str] = (), exported: str | None = None, *, visible_rows: bool = False
    ) -> Iterator[psycopg.RawCursor[Row]]:
        """Opens a REPEATABLE READ READ ONLY transaction in which `settings` are readable as dpone.p0, dpone.p1, ...
        With `exported` it uses the snapshot that another session has exported under this name. Without `visible_rows` a
        policy that hides rows is an error."""
        self.rows("SELECT 1")
        connection = self.connection()
        try:
            cursor = psycopg.RawCursor(connection)
            cursor.execute(BEGIN_SNAPSHOT.encode())
            try:
                if exported is not None:
                    cursor.execute(shared_snapshot(exported).encode())
                cursor.execute(row_security(visible_rows=visible_rows).encode())
                for ordinal, value in enumerate(settings):
                    cursor.execute(b"SELECT set_config($1, $2, true)", (f"dpone.p{ordinal}", value))
                yield cursor
            finally:
                _roll_back(connection)
        except psycopg.Error as error:
            raise self.error(error, "PostgreSQL did not answer a query") from error

    @contextmanager
    def transaction(
        self, *, code: str, message: str, lock_timeout_seconds: float | None = None
    ) -> Iterator[psycopg.RawCursor[Row]]:
        """Opens a transaction that commits at the end of the block and rolls back on any error. Raises
        ConnectionLostError when the session is lost at any statement; only then is the outcome of a COMMIT unknown."""
        self.rows("SELECT 1")
        connection = self.connection()
        try:
            cursor = psycopg.RawCursor(connection)
            cursor.execute("BEGIN")
            try:
                if lock_timeout_seconds is not None:
                    milliseconds = str(max(int(lock_timeout_seconds * 1000), 1))
                    cursor.execute(b"SELECT set_config('lock_timeout', $1, true)", (milliseconds,))
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                _roll_back(connection)
                raise
        except psycopg.Error as error:
            raise self.error(error, message, code) from error

    @staticmethod
    def ask_in(cursor: psycopg.RawCursor[Row]) -> Callable[[str, Sequence[object]], list[Row]]:
        """A function that runs a query inside the transaction of `cursor`; a statement without rows returns an empty
        list."""

        def ask(sql: str, parameters: Sequence[object]) -> list[Row]:
            cursor.execute(sql.encode(), parameters or None)
            return cursor.fetchall() if cursor.description is not None else []

        return ask

    def error(self, error: Exception, message: str, code: str | None = None) -> ETLExecutionError:
        return server_error(error, message, code=code or self.side.refused, unreachable=self.side.unreachable)

    def close(self) -> None:
        with self._mutex:
            for connection in self._opened:
                abandon(connection)
            self._opened.clear()


def shared_snapshot(exported: str) -> str:
    """The statement that adopts a snapshot exported by another session; it must be the first of its transaction."""
    return f"SET TRANSACTION SNAPSHOT {literal_ansi(exported)}"


def row_security(*, visible_rows: bool) -> str:
    """The statement that decides, for its transaction, whether hidden rows are an error or left out."""
    return f"SET LOCAL row_security = {'on' if visible_rows else 'off'}"


def abandon(connection: psycopg.Connection) -> None:
    """Closes a connection. If a signal interrupted a running statement, the statement is cancelled on the server."""
    if connection.info.transaction_status is TransactionStatus.ACTIVE:
        with suppress(psycopg.Error):
            connection.cancel_safe(timeout=_CANCEL_SECONDS)
    connection.close()


def _roll_back(connection: psycopg.Connection) -> None:
    """Rolls back, or closes a connection that cannot, which rolls back too. The error that led here is the one to
    report."""
    try:
        if not connection.closed and connection.info.transaction_status is not TransactionStatus.ACTIVE:
            connection.execute("ROLLBACK")
            return
    except psycopg.Error:
        pass
    abandon(connection)
