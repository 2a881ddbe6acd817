"""Growing sources: each replaces all its rows by those of the model in one transaction, and is read by dpone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import duckdb

from tests.live.cutting_proxy import CuttingProxy, cutting_proxy
from tests.live.servers import scratch_mysql, scratch_postgres
from tests.soak.model import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """`section` is the manifest's; `proxy` is between dpone and the server; `has_children`: read by child processes."""

    section: dict[str, Any]
    uri: str
    write: Callable[[Sequence[Row]], None]
    proxy: CuttingProxy | None = None
    has_children: bool = False


@contextmanager
def sqlite_source(root: Path) -> Iterator[Source]:
    path = root / "shop.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, day DATE NOT NULL, value TEXT NOT NULL,"
            " updated_at INTEGER NOT NULL)"
        )

    def write(rows: Sequence[Row]) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("DELETE FROM orders")
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows)

    yield Source(section=_section("sqlite", None), uri=f"sqlite:///{path}", write=write)


@contextmanager
def duckdb_source(root: Path) -> Iterator[Source]:
    path = root / "shop.duckdb"
    columns = "id BIGINT NOT NULL, day DATE NOT NULL, value VARCHAR NOT NULL, updated_at BIGINT NOT NULL"

    def write(rows: Sequence[Row]) -> None:
        with duckdb.connect(str(path)) as database:
            database.execute("BEGIN")
            database.execute(f"CREATE OR REPLACE TABLE orders ({columns})")
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", [list(row) for row in rows])
            database.execute("COMMIT")

    yield Source(section=_section("duckdb", "main"), uri=f"duckdb:///{path}", write=write)


@contextmanager
def postgres_source(root: Path) -> Iterator[Source]:
    import psycopg

    with scratch_postgres() as uri, proxied(uri) as (through, proxy):
        with psycopg.connect(uri, autocommit=True) as server:
            server.execute(
                "CREATE TABLE orders (id int8 NOT NULL PRIMARY KEY, day date NOT NULL, value text NOT NULL,"
                " updated_at int8 NOT NULL)"
            )

        def write(rows: Sequence[Row]) -> None:
            with psycopg.connect(uri) as server:
                server.execute("DELETE FROM orders")
                server.cursor().executemany("INSERT INTO orders VALUES (%s, %s, %s, %s)", rows)

        yield Source(section=_section("postgres", "public"), uri=through, write=write, proxy=proxy)


@contextmanager
def mysql_source(root: Path) -> Iterator[Source]:
    import pymysql

    with scratch_mysql() as uri, proxied(uri) as (through, proxy):
        parts = urlsplit(uri)
        where = {"host": parts.hostname, "port": parts.port, "user": parts.username, "password": parts.password or ""}
        with closing(pymysql.connect(**where, database=parts.path[1:], autocommit=True)) as server:
            server.cursor().execute(
                "CREATE TABLE orders (id bigint NOT NULL PRIMARY KEY, day date NOT NULL, value varchar(50) NOT NULL,"
                " updated_at bigint NOT NULL)"
            )

        def write(rows: Sequence[Row]) -> None:
            with closing(pymysql.connect(**where, database=parts.path[1:])) as server:
                cursor = server.cursor()
                cursor.execute("DELETE FROM orders")
                cursor.executemany("INSERT INTO orders VALUES (%s, %s, %s, %s)", rows)
                server.commit()

        section = _section("mysql", parts.path[1:])
        yield Source(section=section, uri=through, write=write, proxy=proxy, has_children=True)


@contextmanager
def proxied(uri: str) -> Iterator[tuple[str, CuttingProxy]]:
    """The same URI through a proxy that can cut."""
    parts = urlsplit(uri)
    if parts.port is None:
        raise ValueError("the soak needs a URI with a port")
    with cutting_proxy(parts.hostname or "127.0.0.1", parts.port) as proxy:
        login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        yield parts._replace(netloc=f"{login}127.0.0.1:{proxy.port}").geturl(), proxy


def _section(kind: str, schema: str | None) -> dict[str, Any]:
    table = {"name": "orders"} if schema is None else {"schema": schema, "name": "orders"}
    return {"type": kind, "connection_ref": "shop", "table": table}


OpenSource = Callable[[Path], AbstractContextManager[Source]]
SOURCES: Final[dict[str, OpenSource]] = {
    "sqlite": sqlite_source,
    "duckdb": duckdb_source,
    "postgres": postgres_source,
    "mysql": mysql_source,
}
