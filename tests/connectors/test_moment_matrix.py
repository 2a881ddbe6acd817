"""Every digit of a second, every time zone, beside NULL: a moment is the same in its source, in Arrow and in the sink.

Contract: VAL-03, VAL-04, VAL-05, VAL-06, VAL-17. PostgreSQL, MySQL (tested on MariaDB), SQL Server (a TDS double) and
ClickHouse into ClickHouse.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.connectors.clickhouse.open import open_source_and_sink
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.sink.staging import ClickHouseStaging
from dpone_core.connectors.mysql.open import open_source as open_mysql
from dpone_core.connectors.postgres.open import open_source as open_postgres
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.session import SinkPorts, SourcePorts
from dpone_core.ports.source import ExtractRequest
from dpone_core.testing.builders import INT64, stage_request
from dpone_core.testing.open_sink import fresh_table
from tests.connectors.mssql_servers import mssql_server
from tests.connectors.mysql_servers import connected
from tests.connectors.sessions import connection, mssql_source
from tests.live.servers import scratch_mysql, scratch_postgres

ZONES = ("UTC", "Asia/Tokyo", "America/St_Johns", "Asia/Kathmandu")
SECONDS = (datetime(1969, 12, 31, 23, 59, 58), datetime(2025, 1, 1, 12, 0), datetime(2026, 3, 29, 1, 30))
"""Wall clocks: below the epoch, an ordinary one, and one inside the hour that Europe leaves out."""
LATER = SECONDS[1:]
NANOSECONDS = 123_456_789


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SourcePorts, SinkPorts]]:
    uri = f"chdb:///{tmp_path_factory.mktemp('chdb') / 'warehouse'}"
    with open_source_and_sink(connection(uri), lock_timeout_seconds=0) as both:
        yield both


@pytest.fixture(scope="module")
def session(opened: tuple[SourcePorts, SinkPorts]) -> Session:
    assert isinstance(opened[1].staged, ClickHouseStaging)
    return opened[1].staged._session


@pytest.fixture(scope="module")
def sink(opened: tuple[SourcePorts, SinkPorts]) -> SinkPorts:
    return opened[1]


@contextmanager
def read(ports: SourcePorts, table: TableName) -> Iterator[tuple[ExtractRequest, Any, pa.Table]]:
    request = ExtractRequest(table=table)
    schema = ports.source.describe(request)
    batches = list(ports.source.open_stream(request, schema).batches())
    yield request, schema, pa.Table.from_batches(batches)


def nanoseconds(moment: datetime, digits: int, zone: tzinfo = UTC) -> int:
    """Of the wall clock in that zone since the epoch, with so many digits of NANOSECONDS behind its second."""
    seconds = (moment.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    return seconds * 10**9 + NANOSECONDS // 10 ** (9 - digits) * 10 ** (9 - digits)


def literal(moment: datetime, digits: int) -> str:
    fraction = f".{NANOSECONDS:09d}"[: digits + 1] if digits else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction}"


def in_arrow(column: pa.ChunkedArray) -> list[int | None]:
    """Nanoseconds since the epoch; exact for every unit, since nothing here lies outside their range."""
    return list(pc.cast(column, pa.timestamp("ns", column.type.tz)).cast(pa.int64()).to_pylist())


def in_clickhouse(session: Session, table: TableName, column: str) -> list[int | None]:
    shown = f"toString(toUnixTimestamp64Nano(toDateTime64({column}, 9, 'UTC')))"
    rows = session.rows(f"SELECT {shown} FROM {table.schema}.{table.name} ORDER BY n")
    return [None if row[0] is None else int(row[0]) for row in rows]


def arrives(
    session: Session, sink: SinkPorts, ports: SourcePorts, table: TableName, wanted: dict[str, list[int | None]]
) -> None:
    """Every column of moments holds these nanoseconds in Arrow, and in the target once it is loaded."""
    target = fresh_table()
    with read(ports, table) as (_, schema, rows):
        rows = rows.sort_by("n")
        assert {name: in_arrow(rows.column(name)) for name in wanted} == wanted
        request = stage_request(target, schema=schema)
        assert sink.staged is not None
        handle = sink.staged.stage(request, iter(rows.to_batches()))
        sink.staged.finalize(handle)
        sink.staged.cleanup(handle.ref)
    assert {name: in_clickhouse(session, target, name) for name in wanted} == wanted


@pytest.mark.parametrize("zone", ZONES)
def test_postgres_moments_arrive_with_every_digit(session: Session, sink: SinkPorts, zone: str) -> None:
    columns = {f"{kind}{digits}": (kind, digits) for kind in ("timestamp", "timestamptz") for digits in range(7)}
    with scratch_postgres() as uri:
        with psycopg.connect(uri, autocommit=True) as server:
            server.execute(f"SET TIME ZONE '{zone}'".encode())
            typed = ", ".join(f"{name} {kind}({digits})" for name, (kind, digits) in columns.items())
            server.execute(f"CREATE TABLE t (n int NOT NULL, {typed})".encode())
            for number, moment in enumerate(SECONDS):
                values = ", ".join(f"'{literal(moment, digits)}'" for _, digits in columns.values())
                server.execute(f"INSERT INTO t VALUES ({number}, {values})".encode())
            server.execute(f"INSERT INTO t (n) VALUES ({len(SECONDS)})".encode())
        wanted: dict[str, list[int | None]] = {
            name: [*(nanoseconds(m, digits, ZoneInfo(zone) if kind == "timestamptz" else UTC) for m in SECONDS), None]
            for name, (kind, digits) in columns.items()
        }
        with open_postgres(connection(uri)) as ports:
            arrives(session, sink, ports, TableName(schema="public", name="t"), wanted)


@pytest.mark.parametrize("reader", ["auto", "pymysql"])
@pytest.mark.parametrize(("zone", "minutes"), [("+00:00", 0), ("+09:00", 540), ("-03:30", -210), ("+05:45", 345)])
def test_mysql_moments_arrive_with_every_digit(
    session: Session, sink: SinkPorts, zone: str, minutes: int, reader: str
) -> None:
    columns = {f"{kind}{digits}": (kind, digits) for kind in ("datetime", "timestamp") for digits in range(7)}
    with scratch_mysql() as uri:
        with closing(connected(uri)) as server, server.cursor() as cursor:
            cursor.execute(f"SET time_zone = '{zone}'")
            typed = ", ".join(f"{name} {kind}({digits}) NULL" for name, (kind, digits) in columns.items())
            cursor.execute(f"CREATE TABLE t (n INT NOT NULL, {typed})")
            for number, moment in enumerate(LATER):
                values = ", ".join(f"'{literal(moment, digits)}'" for _, digits in columns.values())
                cursor.execute(f"INSERT INTO t VALUES ({number}, {values})")
            cursor.execute(f"INSERT INTO t (n) VALUES ({len(LATER)})")
        zones = {"timestamp": timezone(timedelta(minutes=minutes)), "datetime": UTC}
        wanted: dict[str, list[int | None]] = {
            name: [*(nanoseconds(moment, digits, zones[kind]) for moment in LATER), None]
            for name, (kind, digits) in columns.items()
        }
        with open_mysql(connection(f"{uri}?reader={reader}")) as ports:
            arrives(session, sink, ports, TableName(schema=None, name="t"), wanted)


@pytest.mark.parametrize("zone", ZONES)
def test_clickhouse_moments_arrive_with_every_digit(
    opened: tuple[SourcePorts, SinkPorts], session: Session, sink: SinkPorts, zone: str
) -> None:
    """Ten precisions, and DateTime, which has none."""
    table = fresh_table("moments")
    session.command(f"CREATE DATABASE IF NOT EXISTS {table.schema}")
    typed = ", ".join(f"m{digits} Nullable(DateTime64({digits}, '{zone}'))" for digits in range(10))
    session.command(
        f"CREATE TABLE {table.schema}.{table.name} (n Int64, d Nullable(DateTime('{zone}')), {typed})"
        " ENGINE = MergeTree ORDER BY n"
    )
    for number, moment in enumerate(LATER):
        values = ", ".join(
            f"toDateTime64('{literal(moment, digits)}', {digits}, '{zone}')" for digits in (0, *range(10))
        )
        session.command(f"INSERT INTO {table.schema}.{table.name} SELECT {number}, {values}")
    session.command(f"INSERT INTO {table.schema}.{table.name} (n) VALUES ({len(LATER)})")
    columns = {"d": 0} | {f"m{digits}": digits for digits in range(10)}
    wanted: dict[str, list[int | None]] = {
        name: [*(nanoseconds(moment, digits, ZoneInfo(zone)) for moment in LATER), None]
        for name, digits in columns.items()
    }
    arrives(session, sink, opened[0], table, wanted)


@pytest.mark.parametrize("reader", ["auto", "pyodbc"])
def test_sql_server_moments_arrive_with_every_digit(session: Session, sink: SinkPorts, reader: str) -> None:
    """Wire-tested against a TDS double, whose seconds have six digits; the seventh is that of the type alone."""
    columns = {f"{kind}{digits}": (kind, digits) for kind in ("datetime2", "datetimeoffset") for digits in range(8)}
    east = timezone(timedelta(hours=5, minutes=45))
    with mssql_server() as server:
        typed = ", ".join(f"{name} {kind}({digits}) NULL" for name, (kind, digits) in columns.items())
        server.run("DROP TABLE IF EXISTS dbo.moments", f"CREATE TABLE dbo.moments (n int NOT NULL, {typed})")
        for number, moment in enumerate(LATER):
            shown = {name: literal(moment, min(digits, 6)) for name, (_, digits) in columns.items()}
            values = ", ".join(
                f"CAST('{text.replace(' ', 'T')}+05:45' AS datetimeoffset(7))" if "offset" in name else f"'{text}'"
                for name, text in shown.items()
            )
            server.run(f"INSERT INTO dbo.moments VALUES ({number}, {values})")
        server.run(f"INSERT INTO dbo.moments (n) VALUES ({len(LATER)})")
        wanted: dict[str, list[int | None]] = {
            name: [
                *(nanoseconds(moment, min(digits, 6), east if kind == "datetimeoffset" else UTC) for moment in LATER),
                None,
            ]
            for name, (kind, digits) in columns.items()
        }
        with mssql_source(f"{server.uri}&reader={reader}") as ports:
            arrives(session, sink, ports, TableName(schema="dbo", name="moments"), wanted)


def test_an_old_date_of_mysql_is_that_date(session: Session, sink: SinkPorts) -> None:
    """VAL-17: a Date of ClickHouse begins in 1970 and wraps around; the target has a Date32."""
    days = (date(1900, 1, 1), date(1924, 1, 1), date(1969, 12, 31), date(2299, 12, 31))
    target = fresh_table("days")
    with scratch_mysql() as uri:
        with closing(connected(uri)) as server, server.cursor() as cursor:
            cursor.execute("CREATE TABLE t (n INT NOT NULL, d DATE)")
            cursor.executemany("INSERT INTO t VALUES (%s, %s)", list(enumerate(days)))
            cursor.execute("INSERT INTO t (n) VALUES (9)")
        with open_mysql(connection(uri)) as ports, read(ports, TableName(schema=None, name="t")) as (_, schema, rows):
            assert sink.staged is not None
            handle = sink.staged.stage(stage_request(target, schema=schema), iter(rows.to_batches()))
            sink.staged.finalize(handle)
            sink.staged.cleanup(handle.ref)
    found = session.rows(f"SELECT toString(d), toTypeName(d) FROM {target.schema}.{target.name} ORDER BY n")
    assert found == [*([day.isoformat(), "Nullable(Date32)"] for day in days), [None, "Nullable(Date32)"]]
    described = sink.target.describe_target(target)
    assert described is not None and described.columns[1].type.kind is ColumnKind.DATE


@pytest.mark.parametrize("digits", range(10))
@pytest.mark.parametrize("kind", [ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ, ColumnKind.TIME])
def test_a_refresh_keeps_the_design_of_a_column_it_made(
    session: Session, sink: SinkPorts, kind: ColumnKind, digits: int
) -> None:
    """A column of a new table has the digits of an Arrow unit; the next load knows it for its own."""
    target = fresh_table("digits")
    moment = Column(name="at", type=ColumnType(kind=kind, fraction=digits))
    schema = TableSchema(columns=(Column(name="n", type=INT64, nullable=False), moment))
    assert sink.staged is not None
    for load in ("L1", "L2"):
        handle = sink.staged.stage(stage_request(target, load, schema=schema), iter([]))
        sink.staged.finalize(handle)
        sink.staged.cleanup(handle.ref)
        if load == "L1":
            session.command(f"ALTER TABLE {target.schema}.{target.name} MODIFY COLUMN n Int64 CODEC(ZSTD(9))")
    ((definition,),) = session.rows(f"SHOW CREATE TABLE {target.schema}.{target.name}")
    assert "CODEC(ZSTD(9))" in definition and f"64({-(-digits // 3) * 3}" in definition


@pytest.mark.parametrize("digits", [1, 2, 4, 5, 7, 8])
@pytest.mark.parametrize("strategy", [StrategyMode.INCREMENTAL_APPEND, StrategyMode.INCREMENTAL_MERGE])
def test_a_later_load_finds_the_column_it_made(
    session: Session, sink: SinkPorts, strategy: StrategyMode, digits: int
) -> None:
    target = fresh_table("digits")
    moment = Column(name="at", type=ColumnType(kind=ColumnKind.TIMESTAMP_TZ, fraction=digits))
    schema = TableSchema(columns=(Column(name="n", type=INT64, nullable=False), moment))
    values = [nanoseconds(LATER[0], digits), nanoseconds(LATER[1], digits), None]
    ticks = pa.array(values, pa.timestamp("ns", "UTC")).cast(arrow_type(moment.type))
    assert sink.staged is not None
    for load in ("L1", "L2"):
        numbers = pa.array([10 * int(load == "L2") + number for number in range(3)], pa.int64())
        request = stage_request(target, load, schema=schema, strategy=strategy, unique_key=("n",))
        sink.target.preflight(request)
        batch = pa.RecordBatch.from_arrays([numbers, ticks], names=["n", "at"])
        handle = sink.staged.stage(request, iter([batch]))
        sink.staged.finalize(handle)
        sink.staged.cleanup(handle.ref)
    assert in_clickhouse(session, target, "at") == values * 2
