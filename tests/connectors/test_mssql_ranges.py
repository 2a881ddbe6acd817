"""Key ranges of SQL Server: together they are all rows, once.

Wire-tested against a TDS double; against a server where DPONE_TEST_MSSQL_URI names one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.partition import KeyBounds
from dpone_core.model.sql import SqlText
from dpone_core.planning.partitions import plan_ranges
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from tests.connectors.mssql_servers import MssqlServer, mssql_server
from tests.connectors.sessions import mssql_source

T = ExtractRequest(table=TableName(schema=None, name="t"))
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


def bounds_of(ports: SourcePorts, request: ExtractRequest, column: str) -> KeyBounds:
    assert ports.ranges is not None
    with ports.ranges.snapshot() as snapshot:
        assert snapshot is None
        return ports.ranges.key_bounds(request, ports.source.describe(request), column, snapshot)


def ranged(ports: SourcePorts, request: ExtractRequest, column: str, partitions: int) -> list[list[object]]:
    """The keys of each range of a plan, the NULL partition first."""
    assert ports.ranges is not None
    schema = ports.source.describe(request)
    key = schema.find(column)
    assert key is not None
    found = []
    for bounds in plan_ranges(key, bounds_of(ports, request, column), partitions):
        stream = ports.ranges.open_range(request, schema, column, bounds, None)
        found.append([value for batch in stream.batches() for value in batch.column(column).to_pylist()])
    return found


@pytest.mark.parametrize(("declared", "values", "ends"), KEYS, ids=[declared for declared, _, _ in KEYS])
def test_ranges_hold_every_row_once(
    run: MssqlServer, ports: SourcePorts, declared: str, values: tuple[str, ...], ends: tuple[str, str]
) -> None:
    rows = ", ".join(f"({value})" for value in (*values, "NULL", "NULL"))
    run.run(f"CREATE TABLE dbo.t ([odd k] {declared})", f"INSERT INTO dbo.t VALUES {rows}")
    bounds = bounds_of(ports, T, "odd k")
    assert ((bounds.lower, bounds.upper), bounds.rows) == (ends, len(values) + 2)
    whole = ports.source.open_stream(T, ports.source.describe(T))
    every = [value for batch in whole.batches() for value in batch.column(0).to_pylist()]
    parts = ranged(ports, T, "odd k", 3)
    assert parts[0] == [None, None] and len(parts) > 1
    assert sorted(map(str, every)) == sorted(str(value) for part in parts for value in part)


def test_the_window_and_tokens_of_the_request_hold_in_every_range(run: MssqlServer, ports: SourcePorts) -> None:
    run.run("CREATE TABLE dbo.t (k int, c int)")
    run.run("INSERT INTO dbo.t VALUES (1, 1), (2, 2), (3, 3), (NULL, 2), (9, NULL)")
    request = ExtractRequest(
        query=SqlText(text="WITH a AS (SELECT k, c FROM dbo.t WHERE 'x' = {{ ds }}) SELECT k, c FROM a"),
        token_values={"ds": "x"},
        window=CursorWindow(column="c", lower="2", upper="4"),
    )
    bounds = bounds_of(ports, request, "k")
    assert (bounds.lower, bounds.upper, bounds.rows) == ("2", "3", 3)
    assert ranged(ports, request, "k", 2) == [[None], [2], [3]]


@pytest.mark.parametrize("declared", ["nvarchar(9)", "uniqueidentifier", "float", "varbinary(9)"])
def test_a_key_without_an_order_of_its_own_is_refused(run: MssqlServer, ports: SourcePorts, declared: str) -> None:
    run.run(f"CREATE TABLE dbo.t (k {declared})")
    with pytest.raises(ConnectorError) as raised:
        bounds_of(ports, T, "k")
    assert raised.value.code == "partition_key_unsupported"
