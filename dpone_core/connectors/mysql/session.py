"""pymysql connections to one server, for catalogue, counts and hook scripts, and for the pymysql reader of the child
process."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pymysql
from pymysql.cursors import Cursor

from dpone_core.connectors._sql.read_only import would_write_error
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.connectors.mysql.types import NativeType, native_of_field
from dpone_core.errors import ConnectionLostError, ConnectorError, ETLExecutionError

from .address import Address
from .text import text_literal

READING: Final = (
    "SET time_zone = '+00:00'",
    "SET SESSION net_write_timeout = 3600",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)
"""What every reading session starts with: instants in UTC, patience with a slow sink, one snapshot, no writes."""

_CONNECT_SECONDS: Final = 15
_END_SECONDS: Final = 3
READ_ONLY: Final = "SET SESSION TRANSACTION READ ONLY"
WRITES: Final = 1792
"""The number of a statement that would write in a read-only transaction."""

_ABSENT: Final = frozenset({1049, 1146, 1109})
_UNREACHABLE: Final = frozenset({1040, 1053, 1129, 1203, 1226, *range(2000, 3000)})
"""Limits, shutdown; 2000 to 2999 are the client's own."""
_LOGIN_REFUSED: Final = frozenset({1044, 1045, 1130, 1698, 1862})
_DENIED: Final = frozenset({1142, 1143})

_BYTES_PER_CHARACTER: Final = 4


def connect(
    address: Address, *, client_flag: int = 0, cursor: type[Cursor] = Cursor, seconds: int = _CONNECT_SECONDS
) -> pymysql.Connection[Any]:
    """Opens a session in autocommit mode. Raises the driver's own exceptions, and ConnectorError `source_unreachable`
    when the server does not offer the requested TLS."""
    connection = pymysql.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password.encode(),
        database=address.database,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=seconds,
        client_flag=client_flag,
        cursorclass=cursor,
        **_tls(address),
    )
    if address.tls != "off" and not connection._secure:
        connection.close()
        raise ConnectorError("the MySQL server offers no TLS", code="source_unreachable")
    return connection


def end_query(address: Address, mark: str) -> None:
    """Ends the query that this user runs under the comment `mark`. Errors are ignored: the query
    then ends by itself."""
    running = f"SELECT id FROM information_schema.processlist WHERE info LIKE {text_literal(mark + '%')}"
    with suppress(pymysql.MySQLError, OSError, ConnectorError):
        connection = connect(address, seconds=_END_SECONDS)
        try:
            with connection.cursor() as cursor:
                cursor.execute(running)
                for (identifier,) in cursor.fetchall():
                    cursor.execute(f"KILL {int(identifier)}")
        finally:
            connection.close()


def _tls(address: Address) -> dict[str, Any]:
    if address.tls == "off":
        return {"ssl_disabled": True}
    context = ssl.create_default_context(cafile=address.tls_ca)
    if address.tls == "required":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}


class Session:
    """One reading connection, opened on first use; every small query is its own snapshot."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection: pymysql.Connection[Any] | None = None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a small query."""
        with self._cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def fields(self, sql: str) -> list[tuple[str, NativeType]]:
        """Names and types of a result that has no rows."""
        with self._cursor() as cursor:
            cursor.execute(sql)
            result_fields = cursor._result.fields if cursor._result is not None else ()
            return [
                (
                    field.name,
                    native_of_field(
                        field.type_code,
                        length=field.length,
                        decimals=field.scale,
                        flags=field.flags,
                        charset=field.charsetnr,
                        width_per_character=_BYTES_PER_CHARACTER,
                    ),
                )
                for field in result_fields
            ]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        with translate_errors():
            if self._connection is None:
                self._connection = connect(self.address)
                with self._connection.cursor() as cursor:
                    cursor.execute(READING[0])
                    cursor.execute(READ_ONLY)
            with self._connection.cursor() as cursor:
                yield cursor


@contextmanager
def translate_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the driver's hierarchy, OSError, RuntimeError of a missing package
        raise reading_error(error) from error


def reading_error(error: BaseException) -> ETLExecutionError:
    number = engine_number(error)
    if number in _ABSENT:
        return ConnectorError("a table of the source does not exist", code="source_object_not_found")
    if number == WRITES:
        return would_write_error("MySQL")
    if isinstance(error, RuntimeError) and "cryptography" in str(error):
        return ConnectorError(
            "the server's way to check passwords needs the package cryptography",
            code="source_unreachable",
            fix="install cryptography, or use tls=verify",
        )
    if number in _LOGIN_REFUSED:
        return ConnectionLostError(
            "the MySQL server answers and refuses the login",
            code="source_unreachable",
            fix="check user, password, database and the host from which the user may come; the server's log says more",
        )
    if number in _DENIED:
        return ConnectorError(
            "MySQL refused the query of the source: the user lacks a privilege on a table or column it reads",
            code="source_query_refused",
            fix="grant SELECT on it, or use another user",
        )
    if number is None or number in _UNREACHABLE:
        message = "the MySQL server does not answer at the connection's address, or the connection was lost"
        return foreign_error(error, message, "source_unreachable", kind=ConnectionLostError)
    return foreign_error(error, "MySQL refused the query of the source", "source_query_refused")


def engine_number(error: BaseException) -> int | None:
    """The server's error number; None when the driver or the network failed."""
    if isinstance(error, pymysql.MySQLError) and error.args and isinstance(error.args[0], int):
        return error.args[0] or None
    return None
