"""pyodbc connections of the sink: one per thread, in autocommit, with explicit transactions under XACT_ABORT."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.connectors.mssql.address import Address
from dpone_core.connectors.mssql.driver import driver_path, unixodbc_missing_error
from dpone_core.connectors.mssql.odbc import pyodbc
from dpone_core.connectors.mssql.session import connect, sql_state
from dpone_core.errors import ConnectionLostError, ConnectorError, DponeError

Row = tuple[Any, ...]
Ask = Callable[[str, Sequence[object]], list[Row]]
"""Rows of a query with ?: on any connection, or inside the caller's transaction."""

_SETTINGS: Final = "SET XACT_ABORT ON; SET NOCOUNT ON; SET LOCK_TIMEOUT {milliseconds}"
_LOST: Final = ("08", "28", "HYT", "IM")
_NUMBER: Final = re.compile(r"\((\d+)\)")
_LOCK_TIMEOUT: Final = 1222
_REASONS: Final = {
    _LOCK_TIMEOUT: ("a lock was not granted in time", "run again when nothing else holds the table"),
    1205: ("it was chosen as the victim of a deadlock", "run again"),
    547: ("a constraint does not allow it", "look at the constraints and foreign keys of the target"),
    2601: ("a unique index does not allow it", "look at the unique indexes of the target"),
    2627: ("a key does not allow it", "look at the keys of the target"),
    229: ("the login lacks a permission", "grant it, or load with another login"),
    262: ("the login lacks a permission", "grant it, or load with another login"),
}


class Database:
    """Opens connections on first use. A lost connection is replaced at the next use, but never inside a transaction."""

    def __init__(self, address: Address, *, lock_timeout_seconds: float) -> None:
        self.address = address
        self.connection_string = address.odbc(driver_path())
        self.lock_timeout_milliseconds = max(int(lock_timeout_seconds * 1000), 1)
        self._local = threading.local()
        self._opened: list[pyodbc.Connection] = []
        self._mutex = threading.Lock()

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """All rows of a small query that changes nothing; asked once more when an idle connection was cut."""
        known = getattr(self._local, "connection", None)
        try:
            return self._run(sql, parameters)
        except pyodbc.Error as error:
            if known is None or not is_lost(error):
                raise self.error(error, "SQL Server did not answer a query") from error
        try:
            return self._run(sql, parameters)
        except pyodbc.Error as error:
            raise self.error(error, "SQL Server did not answer a query") from error

    def execute(self, sql: str, parameters: Sequence[object] = (), *, code: str, message: str) -> None:
        """Runs one statement, which is a transaction by itself. Raises ConnectorError `code`."""
        try:
            self._run(sql, parameters)
        except pyodbc.Error as error:
            raise self.error(error, message, code) from error

    @contextmanager
    def transaction(self, *, code: str, message: str) -> Iterator[Ask]:
        """Opens a transaction that commits at the end of the block and rolls back on any error. Raises
        ConnectionLostError when the session is lost at any statement; only then is the outcome of a COMMIT unknown."""
        self.rows("SELECT 1 AS one")
        try:
            self._run("BEGIN TRANSACTION")
            try:
                yield self._run
                self._run("COMMIT TRANSACTION")
            except BaseException:
                self._roll_back()
                raise
        except pyodbc.Error as error:
            raise self.error(error, message, code) from error

    @contextmanager
    def open_insert(self, inputs: Sequence[tuple[int, int, int]]) -> Iterator[Callable[[str, Sequence[object]], None]]:
        """A function that inserts by a prepared statement; `inputs` are the types of one row's parameters."""
        cursor = self.connection().cursor()
        try:

            def insert(sql: str, values: Sequence[object]) -> None:
                cursor.setinputsizes(list(inputs) * (len(values) // len(inputs)))
                cursor.execute(sql, values)

            yield insert
        finally:
            with suppress(pyodbc.Error):
                cursor.close()

    def connection(self) -> pyodbc.Connection:
        """This thread's connection."""
        found: pyodbc.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = connect(self.connection_string)
            found.execute(_SETTINGS.format(milliseconds=self.lock_timeout_milliseconds)).close()
            self._local.connection = found
            with self._mutex:
                self._opened.append(found)
        return found

    def error(self, error: pyodbc.Error, message: str, code: str = "sink_query_failed") -> DponeError:
        if "can't open lib" in str(error).lower():
            return unixodbc_missing_error()
        if is_lost(error):
            self._abandon()
            message = "SQL Server did not answer or refused the login"
            return foreign_error(error, message, "sink_unreachable", kind=ConnectionLostError)
        reason = _REASONS.get(number_of(error) or 0)
        if reason is not None:
            return ConnectorError(f"{message}: {reason[0]}", code=code, fix=reason[1])
        return foreign_error(error, message, code)

    def close(self) -> None:
        with self._mutex:
            for connection in self._opened:
                with suppress(pyodbc.Error):
                    connection.close()
            self._opened.clear()
        self._local = threading.local()

    def _run(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        try:
            cursor = self.connection().cursor()
            try:
                cursor.execute(sql, *parameters)
                found: list[Row] = []
                while True:
                    if cursor.description is not None:
                        found = [tuple(row) for row in cursor.fetchall()]
                    if not cursor.nextset():
                        return found
            finally:
                with suppress(pyodbc.Error):
                    cursor.close()
        except pyodbc.Error as error:
            if is_lost(error):
                self._abandon()
            raise

    def _roll_back(self) -> None:
        """Rolls back, or closes a connection that cannot: a rollback too. The first error is the one to report."""
        if getattr(self._local, "connection", None) is None:
            return
        try:
            self._run("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION")
        except pyodbc.Error:
            self._abandon()

    def _abandon(self) -> None:
        found: pyodbc.Connection | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if found is not None:
            with self._mutex:
                self._opened.remove(found)
            with suppress(pyodbc.Error):
                found.close()


def is_lost(error: pyodbc.Error) -> bool:
    """Whether the session is gone. A lock timeout has a timeout state too, and is not a lost session."""
    state = sql_state(error)
    return not is_lock_timeout(error) and (state is None or state.startswith(_LOST))


def is_lock_timeout(error: BaseException | None) -> bool:
    return isinstance(error, pyodbc.Error) and number_of(error) == _LOCK_TIMEOUT


def number_of(error: pyodbc.Error) -> int | None:
    """SQL Server's error number, which the driver writes at the end of its text; None when there is none."""
    found = _NUMBER.findall(str(error.args[1])) if len(error.args) > 1 else []
    return int(found[-1]) if found else None
