"""pyodbc connections to one server, for catalogue, counts and hook scripts, and for the pyodbc reader of the child
process."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.errors import ConnectionLostError, ConnectorError, DponeError

from .address import Address
from .driver import driver_path, unixodbc_missing_error
from .odbc import pyodbc

_DATETIMEOFFSET: Final = -155
_LAYOUT: Final = struct.Struct("<hHHHHHIhh")
_LOGIN_SECONDS: Final = 15
_UNREACHABLE: Final = ("08", "28", "HYT", "IM")
_ABSENT: Final = "42S02"


def connect(connection_string: str) -> pyodbc.Connection:
    """Opens a session in autocommit mode. Raises the driver's own exceptions."""
    connection = pyodbc.connect(connection_string, autocommit=True, timeout=_LOGIN_SECONDS)
    connection.add_output_converter(_DATETIMEOFFSET, offset_text)
    return connection


def offset_text(raw: bytes) -> str:
    """The UTC instant of a datetimeoffset in ISO 8601 with all seven digits; pyodbc does not know
    this type (MSSQL-02)."""
    year, month, day, hour, minute, second, nanoseconds, hours, minutes = _LAYOUT.unpack(raw)
    moment = datetime(year, month, day, hour, minute, second) - timedelta(hours=hours, minutes=minutes)
    return f"{moment.isoformat()}.{nanoseconds // 100:07d}+00:00"


class Session:
    """One reading connection, opened on first use; one query at a time, from any thread."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.connection_string = address.odbc(driver_path())
        self._connection: pyodbc.Connection | None = None
        self._one_at_a_time = threading.Lock()

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of a small query."""
        with translate_errors(), self._one_at_a_time:
            if self._connection is None:
                self._connection = connect(self.connection_string)
            cursor = self._connection.cursor()
            try:
                cursor.execute(sql, *parameters)
                while cursor.description is None and cursor.nextset():
                    pass
                return [tuple(row) for row in cursor.fetchall()]
            finally:
                cursor.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def translate_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the driver's hierarchy and OSError
        raise reading_error(error) from error


def reading_error(error: BaseException) -> DponeError:
    state = sql_state(error)
    if "can't open lib" in str(error).lower():
        return unixodbc_missing_error()
    if state == _ABSENT:
        return ConnectorError("a table of the source does not exist", code="source_object_not_found")
    if state is None or state.startswith(_UNREACHABLE):
        message = "SQL Server did not answer or refused the login"
        return foreign_error(error, message, "source_unreachable", kind=ConnectionLostError)
    return foreign_error(error, "SQL Server refused the query of the source", "source_query_refused")


def sql_state(error: BaseException) -> str | None:
    if isinstance(error, pyodbc.Error) and error.args and isinstance(error.args[0], str):
        return error.args[0]
    return None
