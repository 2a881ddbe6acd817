"""Sources and sinks of the route matrix: each makes the same rows, changes them, and reads a target back exactly."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from tests.connectors.unixodbc import require_unixodbc
from tests.live.servers import CLICKHOUSE, MSSQL, address, scratch_mysql, scratch_postgres

Row = tuple[Any, ...]
COLUMNS: Final = ("id", "name", "amount", "day", "moment", "score", "updated_at")
_AT: Final = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
FIRST: Final[tuple[Row, ...]] = (
    (1, "é😀", Decimal("12345678901.5678"), date(1999, 12, 31), _AT, 0.1, 10),
    (2, "", Decimal("-0.0001"), date(2026, 2, 28), _AT, -1e300, 20),
    (3, None, None, None, _AT, None, 30),
)
CHANGED: Final[Row] = (1, "changed", Decimal("9.9999"), date(2000, 2, 29), _AT, 2.5, 50)
ADDED: Final[Row] = (4, "added", Decimal("0.0000"), date(2026, 3, 1), _AT, 0.0, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """`section` is the manifest's source; `write` replaces all rows of it."""

    section: dict[str, Any]
    uri: str | None
    write: Callable[[Sequence[Row]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """`rows` are those of the target, by all columns in order; `section` lacks its strategy."""

    section: dict[str, Any]
    uri: str
    rows: Callable[[], list[Row]]


@contextmanager
def sqlite_source(directory: Path) -> Iterator[Source]:
    path = directory / "origin.sqlite"

    def write(rows: Sequence[Row]) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("DROP TABLE IF EXISTS orders")
            database.execute(
                "CREATE TABLE orders (id INTEGER NOT NULL, name TEXT, amount DECIMAL(18,4), day DATE,"
                " moment TIMESTAMPTZ NOT NULL, score DOUBLE, updated_at INTEGER NOT NULL)"
            )
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)", [_text_values(row) for row in rows])

    yield Source(section=_table("sqlite", None), uri=f"sqlite:///{path}", write=write)


@contextmanager
def duckdb_source(directory: Path) -> Iterator[Source]:
    path = directory / "origin.duckdb"

    def write(rows: Sequence[Row]) -> None:
        with duckdb.connect(str(path)) as database:
            database.execute("SET timezone = 'UTC'")
            database.execute(
                "CREATE OR REPLACE TABLE orders (id BIGINT NOT NULL, name VARCHAR, amount DECIMAL(18,4), day DATE,"
                " moment TIMESTAMPTZ NOT NULL, score DOUBLE, updated_at BIGINT NOT NULL)"
            )
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)", [list(row) for row in rows])

    yield Source(section=_table("duckdb", "main"), uri=f"duckdb:///{path}", write=write)


@contextmanager
def parquet_source(directory: Path) -> Iterator[Source]:
    path = directory / "origin.parquet"
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("name", pa.string()),
            pa.field("amount", pa.decimal128(18, 4)),
            pa.field("day", pa.date32()),
            pa.field("moment", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("score", pa.float64()),
            pa.field("updated_at", pa.int64(), nullable=False),
        ]
    )

    def write(rows: Sequence[Row]) -> None:
        columns = [
            pa.array(values, type=field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), path)

    section = {"type": "files", "options": {"path": str(path), "format": "parquet"}}
    yield Source(section=section, uri=None, write=write)


@contextmanager
def postgres_source(directory: Path) -> Iterator[Source]:
    with scratch_postgres() as uri:

        def write(rows: Sequence[Row]) -> None:
            with psycopg.connect(uri, autocommit=True) as server:
                server.execute("DROP TABLE IF EXISTS orders")
                server.execute(
                    "CREATE TABLE orders (id int8 NOT NULL, name text, amount numeric(18,4), day date,"
                    " moment timestamptz NOT NULL, score float8, updated_at int8 NOT NULL)"
                )
                server.cursor().executemany("INSERT INTO orders VALUES (%s, %s, %s, %s, %s, %s, %s)", rows)

        yield Source(section=_table("postgres", "public"), uri=uri, write=write)


@contextmanager
def mysql_source(directory: Path) -> Iterator[Source]:
    import pymysql

    with scratch_mysql() as uri:
        parts = urlsplit(uri)

        def write(rows: Sequence[Row]) -> None:
            with closing(
                pymysql.connect(
                    host=parts.hostname or "",
                    port=parts.port or 3306,
                    user=unquote(parts.username or ""),
                    password=unquote(parts.password or ""),
                    database=parts.path[1:],
                    charset="utf8mb4",
                    autocommit=True,
                )
            ) as server:
                cursor = server.cursor()
                cursor.execute("SET time_zone = '+00:00'")
                cursor.execute("DROP TABLE IF EXISTS orders")
                cursor.execute(
                    "CREATE TABLE orders (id bigint NOT NULL, name varchar(50), amount decimal(18,4), day date,"
                    " moment timestamp(6) NOT NULL, score double, updated_at bigint NOT NULL)"
                )
                plain = [(*row[:4], row[4].replace(tzinfo=None), *row[5:]) for row in rows]
                cursor.executemany("INSERT INTO orders VALUES (%s, %s, %s, %s, %s, %s, %s)", plain)

        yield Source(section=_table("mysql", parts.path[1:]), uri=uri, write=write)


@contextmanager
def clickhouse_source(directory: Path) -> Iterator[Source]:
    with _clickhouse() as (uri, client, database):

        def write(rows: Sequence[Row]) -> None:
            client.command(f"DROP TABLE IF EXISTS {database}.orders")
            client.command(
                f"CREATE TABLE {database}.orders (id Int64, name Nullable(String), amount Nullable(Decimal(18, 4)),"
                " day Nullable(Date32), moment DateTime64(6, 'UTC'), score Nullable(Float64), updated_at Int64)"
                " ENGINE = MergeTree ORDER BY id"
            )
            client.insert(f"{database}.orders", [list(row) for row in rows], column_names=list(COLUMNS))

        yield Source(section=_table("clickhouse", database), uri=uri, write=write)


@contextmanager
def mssql_source(directory: Path) -> Iterator[Source]:
    uri = address(MSSQL)
    require_unixodbc()
    from dpone_core.connectors.mssql.address import address_of
    from dpone_core.connectors.mssql.driver import driver_path
    from dpone_core.connectors.mssql.odbc import pyodbc
    from dpone_core.model.connection import Connection

    name = f"orders_{uuid4().hex[:8]}"
    odbc = address_of(Connection(ref="origin", uri=uri, origin="environment")).odbc(driver_path())
    with closing(pyodbc.connect(odbc, autocommit=True)) as server:

        def write(rows: Sequence[Row]) -> None:
            server.execute(f"DROP TABLE IF EXISTS dbo.{name}")
            server.execute(
                f"CREATE TABLE dbo.{name} (id bigint NOT NULL, name nvarchar(50), amount decimal(18,4), day date,"
                " moment datetimeoffset(6) NOT NULL, score float, updated_at bigint NOT NULL)"
            )
            for row in rows:
                values = (*row[:4], row[4].isoformat(sep=" "), *row[5:])
                server.execute(f"INSERT INTO dbo.{name} VALUES (?, ?, ?, ?, ?, ?, ?)", values)

        try:
            yield Source(section=_table("mssql", "dbo", name), uri=uri, write=write)
        finally:
            server.execute(f"DROP TABLE IF EXISTS dbo.{name}")


@contextmanager
def embedded_clickhouse_sink(directory: Path) -> Iterator[Sink]:
    """Read back by a process of its own: one embedded engine a process."""
    import json
    import subprocess
    import sys

    path = directory / "warehouse"
    script = (
        "import clickhouse_connect, json, sys\n"
        "client = clickhouse_connect.get_client(interface='chdb', path=sys.argv[1])\n"
        "print(json.dumps([list(map(str, row)) for row in client.query(sys.argv[2]).result_rows]))"
    )

    def rows() -> list[Row]:
        done = subprocess.run(
            [sys.executable, "-c", script, str(path), _CLICKHOUSE_TEXT.format(table="raw.orders")],
            capture_output=True,
            text=True,
            check=True,
        )
        return [_of_text(row) for row in json.loads(done.stdout)]

    yield Sink(section=_target("clickhouse", "raw", keyed=True), uri=f"chdb:///{path}", rows=rows)


@contextmanager
def clickhouse_sink(directory: Path) -> Iterator[Sink]:
    with _clickhouse() as (uri, client, database):

        def rows() -> list[Row]:
            found = client.query(_CLICKHOUSE_TEXT.format(table=f"{database}.orders")).result_rows
            return [_of_text([str(value) for value in row]) for row in found]

        yield Sink(section=_target("clickhouse", database, keyed=True), uri=uri, rows=rows)


@contextmanager
def duckdb_sink(directory: Path) -> Iterator[Sink]:
    path = directory / "warehouse.duckdb"

    def rows() -> list[Row]:
        with duckdb.connect(str(path), read_only=True) as database:
            wall_clock = "* REPLACE (moment AT TIME ZONE 'UTC' AS moment)"
            found = database.execute(
                f"SELECT {', '.join(COLUMNS)} FROM (SELECT {wall_clock} FROM raw.orders)"
            ).fetchall()
        return [(*row[:4], row[4].replace(tzinfo=UTC), *row[5:]) for row in found]

    yield Sink(section=_target("duckdb", "raw"), uri=f"duckdb:///{path}", rows=rows)


@contextmanager
def postgres_sink(directory: Path) -> Iterator[Sink]:
    with scratch_postgres() as uri:

        def rows() -> list[Row]:
            with psycopg.connect(uri) as server:
                server.execute("SET TimeZone = 'UTC'")
                return server.execute(f"SELECT {', '.join(COLUMNS)} FROM raw.orders ORDER BY id").fetchall()

        yield Sink(section=_target("postgres", "raw"), uri=uri, rows=rows)


@contextmanager
def files_sink(directory: Path) -> Iterator[Sink]:
    path = directory / "lake"

    def rows() -> list[Row]:
        found = pa.concat_tables(pq.read_table(part) for part in sorted(path.rglob("*.parquet")))
        return [tuple(row[name] for name in COLUMNS) for row in found.sort_by("id").to_pylist()]

    yield Sink(section=_target("files", "raw"), uri=f"file:///{path}", rows=rows)


SOURCES: Final = {
    "sqlite": sqlite_source,
    "duckdb": duckdb_source,
    "parquet": parquet_source,
    "postgres": postgres_source,
    "mysql": mysql_source,
    "clickhouse": clickhouse_source,
    "mssql": mssql_source,
}
SINKS: Final = {
    "clickhouse_embedded": embedded_clickhouse_sink,
    "clickhouse": clickhouse_sink,
    "duckdb": duckdb_sink,
    "postgres": postgres_sink,
    "files": files_sink,
}
_CLICKHOUSE_TEXT: Final = (
    "SELECT toString(id), ifNull(name, '<null>'), ifNull(toString(amount), '<null>'), ifNull(toString(day), '<null>'),"
    " toString(moment, 'UTC'), ifNull(toString(score), '<null>'), toString(updated_at) FROM {table} ORDER BY id"
)


@contextmanager
def _clickhouse() -> Iterator[tuple[str, Any, str]]:
    import clickhouse_connect

    uri = address(CLICKHOUSE)
    parts = urlsplit(uri)
    database = f"dpone_test_{uuid4().hex[:8]}"
    client = clickhouse_connect.get_client(
        host=parts.hostname or "",
        port=parts.port or 8123,
        username=unquote(parts.username or "default"),
        password=unquote(parts.password or ""),
    )
    client.command(f"CREATE DATABASE {database}")
    try:
        yield uri, client, database
    finally:
        client.command(f"DROP DATABASE IF EXISTS {database}")
        client.close()


def _of_text(row: Sequence[str]) -> Row:
    def parsed(text: str, parse: Callable[[str], Any]) -> Any:
        return None if text == "<null>" else parse(text)

    identity, name, amount, day, at, score, updated_at = row
    return (
        int(identity),
        parsed(name, str),
        parsed(amount, Decimal),
        parsed(day, date.fromisoformat),
        datetime.fromisoformat(at).replace(tzinfo=UTC),
        parsed(score, float),
        int(updated_at),
    )


def _table(kind: str, schema: str | None, name: str = "orders") -> dict[str, Any]:
    table = {"name": name} if schema is None else {"schema": schema, "name": name}
    return {"type": kind, "connection_ref": "origin", "table": table}


def _target(kind: str, schema: str, *, keyed: bool = False) -> dict[str, Any]:
    governed: dict[str, Any] = {"load_governance": {"audit": {"state_schema": f"{schema}_state"}}}
    if keyed:
        governed["physical_design"] = {"order_by": ["id"]}
    return {
        "type": kind,
        "connection_ref": "warehouse",
        "table": {"schema": schema, "name": "orders"},
        "options": governed,
    }


def _text_values(row: Row) -> Row:
    identity, name, amount, day, at, score, updated_at = row
    return (
        identity,
        name,
        None if amount is None else str(amount),
        None if day is None else day.isoformat(),
        at.isoformat(sep=" "),
        score,
        updated_at,
    )
