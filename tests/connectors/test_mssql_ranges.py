"""Key ranges of SQL Server: together they are all rows, once.

Wire-tested against a TDS double; against a server where DPONE_TEST_MSSQL_URI names one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpone_core.model.sql import SqlText
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import ExtractRequest
from tests.connectors.mssql_servers import MssqlServer, mssql_server
from tests.connectors.sessions import mssql_source
from tests.connectors.source_ranges import (
    WINDOWED_ROWS,
    inserted,
    require_every_row_once,
    require_the_key_refused,
    require_the_window_in_every_range,
)
from tests.marks import first_quick

KEYS = (
    ("tinyint", ("0", "9", "255"), ("0", "255")),
    ("decimal(20,4)", ("-1.5", "0", "99.9999"), ("-1.5000", "99.9999")),
    ("date", ("'1924-01-01'", "'2024-02-29'", "'9999-12-31'"), ("1924-01-01", "9999-12-31")),
    (
        "datetime2(6)",
        ("'2024-01-01 00:00:00.000001'", "'2024-06-01 00:00:00.5'", "'2024-12-31 23:59:59.999999'"),
        ("2024-01-01T00:00:00.000001", "2024-12-31T23:59:59.999999"),
    ),
    (
        "datetimeoffset(6)",
        ("'2024-01-01T00:00:00.000001+00:00'", "'2024-06-01T00:00:00+00:00'", "'2024-12-31T01:00:00.999999+02:00'"),
        ("2024-01-01T00:00:00.000001+00:00", "2024-12-30T23:00:00.999999+00:00"),
    ),
)


@pytest.fixture(scope="module")
def server() -> Iterator[MssqlServer]:
    with mssql_server() as server:
        yield server


@pytest.fixture
def run(server: MssqlServer) -> MssqlServer:
    server.run("DROP TABLE IF EXISTS dbo.t")
    return server


@pytest.fixture
def ports(server: MssqlServer) -> Iterator[SourcePorts]:
    with mssql_source(server.uri) as ports:
        yield ports


@pytest.mark.parametrize(("declared", "values", "ends"), first_quick(KEYS, ids=[declared for declared, _, _ in KEYS]))
def test_ranges_hold_every_row_once(
    run: MssqlServer, ports: SourcePorts, declared: str, values: tuple[str, ...], ends: tuple[str, str]
) -> None:
    run.run(f"CREATE TABLE dbo.t ([odd k] {declared})", f"INSERT INTO dbo.t VALUES {inserted(values)}")
    require_every_row_once(ports, "odd k", values, ends, has_snapshot=False)


def test_the_window_and_tokens_of_the_request_hold_in_every_range(run: MssqlServer, ports: SourcePorts) -> None:
    run.run("CREATE TABLE dbo.t (k int, c int)")
    run.run(f"INSERT INTO dbo.t VALUES {WINDOWED_ROWS}")
    request = ExtractRequest(
        query=SqlText(text="WITH a AS (SELECT k, c FROM dbo.t WHERE 'x' = {{ ds }}) SELECT k, c FROM a"),
        token_values={"ds": "x"},
    )
    require_the_window_in_every_range(ports, request)


@pytest.mark.parametrize("declared", ["nvarchar(9)", "uniqueidentifier", "float", "varbinary(9)"])
def test_a_key_without_an_order_of_its_own_is_refused(run: MssqlServer, ports: SourcePorts, declared: str) -> None:
    run.run(f"CREATE TABLE dbo.t (k {declared})")
    require_the_key_refused(ports, "partition_key_unsupported")
