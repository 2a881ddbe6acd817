"""Where the servers of live tests are: an environment variable, else a container where Docker answers, else a local
server that answers, else UNVERIFIED.

An address that was given and does not answer is a failure of the test; only an absent one skips it, with the word
UNVERIFIED and the reason. Every user gets a scratch database of its own, dropped when it is done.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit
from uuid import uuid4

import pytest

from tests.live.compose import started

_ANSWER_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """`service` of docker-compose.yml, then `local`, is tried when `variable` is not set; no `local` = no usual one."""

    name: str
    service: str
    variable: str
    local: str | None
    port: int


POSTGRES: Final = Server(
    name="PostgreSQL",
    service="postgres",
    variable="DPONE_TEST_POSTGRES_URI",
    local="postgresql://postgres@127.0.0.1:5432/postgres",
    port=5432,
)
MYSQL: Final = Server(
    name="MySQL",
    service="mysql",
    variable="DPONE_TEST_MYSQL_URI",
    local="mysql://root@127.0.0.1:3306/mysql",
    port=3306,
)
MSSQL: Final = Server(name="SQL Server", service="mssql", variable="DPONE_TEST_MSSQL_URI", local=None, port=1433)
CLICKHOUSE: Final = Server(
    name="ClickHouse",
    service="clickhouse",
    variable="DPONE_TEST_CLICKHOUSE_URI",
    local="clickhouse://127.0.0.1:8123/default",
    port=8123,
)


def address(server: Server) -> str:
    """The URI to use; skips the test as UNVERIFIED when there is none."""
    found = os.environ.get(server.variable) or started(server.service)
    if found:
        return found
    if server.local is not None and _answers(server):
        return server.local
    pytest.skip(f"UNVERIFIED: no {server.name} answers; start Docker or set {server.variable} to its URI")


def _answers(server: Server) -> bool:
    host = urlsplit(server.local or "").hostname or "127.0.0.1"
    try:
        with socket.create_connection((host, server.port), timeout=_ANSWER_SECONDS):
            return True
    except OSError:
        return False


@contextmanager
def scratch_postgres() -> Iterator[str]:
    """The URI of an empty database that lives as long as the block; connections to it are ended with it."""
    import psycopg

    uri, name = address(POSTGRES), _scratch_name()
    with psycopg.connect(uri, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        try:
            yield with_database(uri, name)
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def scratch_mysql() -> Iterator[str]:
    """The URI of an empty utf8mb4 database that lives as long as the block."""
    import pymysql

    uri, name = address(MYSQL), _scratch_name()
    parts = urlsplit(uri)
    with closing(
        pymysql.connect(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or MYSQL.port,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            autocommit=True,
        )
    ) as server:
        cursor = server.cursor()
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        try:
            yield with_database(uri, name)
        finally:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def with_database(uri: str, name: str) -> str:
    parts: SplitResult = urlsplit(uri)
    return parts._replace(path=f"/{name}").geturl()


def _scratch_name() -> str:
    return f"dpone_test_{os.getpid()}_{uuid4().hex[:8]}"
