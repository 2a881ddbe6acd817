"""Key ranges of PostgreSQL: together they are all rows, once, by code point, and all of one moment (PG-04, NAT-27)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpone_core.connectors.postgres.open import open_source
from dpone_core.errors import ConnectorError
from dpone_core.model.partition import KeyRange
from dpone_core.model.sql import SqlText
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import ExtractRequest
from dpone_core.testing.builders import orders, stage_request
from dpone_core.testing.range_conformance import bounds_of, require_no_bounds
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import APPEND, connection, postgres_sink
from tests.connectors.source_ranges import (
    WINDOWED_ROWS,
    T,
    inserted,
    require_every_row_once,
    require_the_key_refused,
    require_the_window_in_every_range,
)
from tests.live.servers import scratch_postgres
from tests.spec.builders import Project, code_of, flow, outcome_of

Server = Callable[..., list[tuple[Any, ...]]]
KEYS = (
    ("int2", ("-32768", "0", "32767"), ("-32768", "32767")),
    ("int8", ("-9223372036854775808", "9", "9223372036854775807"), ("-9223372036854775808", "9223372036854775807")),
    ("numeric(20,4)", ("-1.5", "0", "99.9999"), ("-1.5000", "99.9999")),
    ("date", ("'1924-01-01'", "'2024-02-29'", "'9999-12-31'"), ("1924-01-01", "9999-12-31")),
    (
        "timestamp",
        ("'2024-01-01 00:00:00.000001'", "'2024-06-01'", "'2024-12-31 23:59:59.999999'"),
        ("2024-01-01T00:00:00.000001", "2024-12-31T23:59:59.999999"),
    ),
    (
        "timestamptz",
        ("'2024-01-01 00:00+05:45'", "'2024-06-01'", "'2024-12-31 00:00+00'"),
        ("2023-12-31T18:15:00.000000+00:00", "2024-12-31T00:00:00.000000+00:00"),
    ),
    ('varchar(9) COLLATE "und-x-icu"', ("'B'", "'a'", "'ä'", "'😀'", "'a '", "''"), ("", "😀")),
    (
        "uuid",
        (
            "'00000000-0000-0000-0000-000000000001'",
            "'80000000-0000-0000-0000-000000000000'",
            "'ffffffff-ffff-ffff-ffff-fffffffffffe'",
        ),
        ("00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-fffffffffffe"),
    ),
)


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_postgres() as found:
        yield found


@pytest.fixture
def server(uri: str) -> Iterator[Server]:
    with psycopg.connect(uri, autocommit=True) as session:
        session.execute("SET TimeZone = 'UTC'")
        session.execute("DROP TABLE IF EXISTS t")

        def run(*statements: str) -> list[tuple[Any, ...]]:
            cursor = session.cursor()
            for statement in statements:
                cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture
def ports(uri: str) -> Iterator[SourcePorts]:
    with open_source(connection(uri)) as ports:
        yield ports


def read(ports: SourcePorts, request: ExtractRequest, column: str, bounds: KeyRange, snapshot: str | None) -> list[Any]:
    assert ports.ranges is not None
    stream = ports.ranges.open_range(request, ports.source.describe(request), column, bounds, snapshot)
    return [value for batch in stream.batches() for value in batch.column(column).to_pylist()]


@pytest.mark.parametrize(("declared", "values", "ends"), KEYS, ids=[declared for declared, _, _ in KEYS])
def test_ranges_hold_every_row_once(
    server: Server, ports: SourcePorts, declared: str, values: tuple[str, ...], ends: tuple[str, str]
) -> None:
    server(f'CREATE TABLE t ("odd ""k" {declared})', f"INSERT INTO t VALUES {inserted(values)}")
    require_every_row_once(ports, 'odd "k', values, ends, has_snapshot=True)


def test_window_and_tokens_hold_in_every_range(server: Server, ports: SourcePorts) -> None:
    server("CREATE TABLE t (k int, c int)", f"INSERT INTO t VALUES {WINDOWED_ROWS}")
    query = SqlText(text="SELECT k, c FROM t WHERE 'x' = {{ run_id }}")
    require_the_window_in_every_range(ports, T, ExtractRequest(query=query, token_values={"run_id": "x"}))


def test_ranges_under_one_snapshot_are_of_one_moment(uri: str, server: Server, ports: SourcePorts) -> None:
    server("CREATE TABLE t (k int)", "INSERT INTO t SELECT generate_series(1, 10)")
    assert ports.ranges is not None
    with ports.ranges.snapshot() as snapshot:
        low = read(ports, T, "k", KeyRange(partition_index=0, lower="1", upper="6"), snapshot)
        server("UPDATE t SET k = 10 WHERE k = 1", "UPDATE t SET k = 2 WHERE k = 9", "INSERT INTO t VALUES (7)")
        with open_source(connection(uri)) as other:  # a reader of another session, as workers have
            high = read(other, T, "k", KeyRange(partition_index=1, lower="6", upper="10", include_upper=True), snapshot)
        assert sorted(low + high) == list(range(1, 11))
        assert ports.ranges.key_bounds(T, ports.source.describe(T), "k", snapshot).rows == 10
    assert bounds_of(ports, T).rows == 11
    with pytest.raises(ConnectorError):
        read(ports, T, "k", KeyRange(partition_index=0), snapshot)


def test_an_empty_table_has_no_bounds(server: Server, ports: SourcePorts) -> None:
    server("CREATE TABLE t (k int)")
    require_no_bounds(ports, T, 0)


@pytest.mark.parametrize(
    ("declared", "literal", "code"),
    [
        ("float8", "1", "partition_key_unsupported"),
        ("char(3)", "'a'", "partition_key_unsupported"),
        ("inet", "'::1'", "partition_key_unsupported"),
        ("bytea", "'x'", "partition_key_unsupported"),
        ("date", "'infinity'", "source_value_out_of_range"),
        ("numeric(9,2)", "'NaN'", "source_value_out_of_range"),
    ],
)
def test_a_key_without_order_or_form_is_refused(
    server: Server, ports: SourcePorts, declared: str, literal: str, code: str
) -> None:
    server(f"CREATE TABLE t (k {declared})", f"INSERT INTO t VALUES ({literal})")
    require_the_key_refused(ports, code)


@pytest.fixture
def sink(uri: str) -> Iterator[OpenSink]:
    with postgres_sink(uri) as opened:
        yield opened


@pytest.mark.parametrize("existing", [False, True])
def test_staged_ranges_are_found_again_and_put_together(sink: OpenSink, server: Server, existing: bool) -> None:
    ranges = sink.ports.ranges
    assert ranges is not None
    table = fresh_table()
    if existing:
        sink.load(stage_request(table, "L0"), orders(9))
    whole = stage_request(table, "whole", strategy=APPEND)
    ranges.prepare(whole)
    assert ranges.find(stage_request(table, "A", strategy=APPEND)) is None
    parts = [
        sink.staged.stage(stage_request(table, load, strategy=APPEND), iter([orders(*ids)]))
        for load, ids in (("A", (1, 2)), ("B", ()), ("C", (3,)))
    ]
    assert ranges.find(parts[0].request) == parts[0]
    handle = ranges.assemble(whole, parts)
    assert (handle.staged_rows, sink.ids(table) if existing else None) == (3, [9] if existing else None)
    with pytest.raises(ConnectorError) as raised:
        ranges.assemble(stage_request(table, "bad", strategy=APPEND), [replace(parts[0], staged_rows=9)])
    assert raised.value.code == "staged_row_count_mismatch"
    sink.staged.finalize(handle)
    for staged in (handle, *parts):
        sink.staged.cleanup(staged.ref)
    assert sink.ids(table) == ([1, 2, 3, 9] if existing else [1, 2, 3])
    assert server(f"SELECT relpersistence::text FROM pg_class WHERE oid = '{table}'::regclass") == [("p",)]
    assert sink.ports.target.leftovers(table, None) == ()


@pytest.mark.parametrize("sink_type", ["duckdb", "postgres"])
@pytest.mark.parametrize("mode", ["full_refresh", "incremental_append", "partition_replace"])
def test_a_native_transfer_loads_every_range(
    tmp_path: Path, uri: str, server: Server, sink_type: str, mode: str
) -> None:
    server("CREATE TABLE t (id int8, v text, at int8 NOT NULL)")
    server(
        "INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(1, 5000) i", "INSERT INTO t VALUES (NULL, 'none', 0)"
    )
    server("DROP SCHEMA IF EXISTS raw CASCADE")
    server("DROP SCHEMA IF EXISTS etl_state CASCADE")
    project = Project(tmp_path, environment={"DPONE_CONN_SHOP": uri})
    if sink_type == "postgres":
        project.environment["DPONE_CONN_DWH"] = uri
    options: dict[str, object] = {"partitioning": {"column": "id", "num_partitions": 4, "workers": 2}}
    changes: dict[str, object] = {"quality": {"gates": [{"type": "row_count_reconciliation"}]}}
    if mode == "incremental_append":
        options["incremental"] = {"cursor_column": "at"}
        changes["state"] = {"type": "sink"}
    if mode == "partition_replace":
        changes["sink__options"] = {"physical_design": {"partition_by": {"column": "id"}}}
    project.written(
        flow(
            source__type="postgres",
            source__table={"schema": "public", "name": "t"},
            source__options=options,
            sink__type=sink_type,
            sink__strategy={"mode": mode},
            **changes,
        )
    )
    waiting = 1 if mode == "incremental_append" else 0  # the newest cursor value waits for a greater one
    for run_id in ("r1", "r2") if mode == "partition_replace" else ("r1",):
        execution = project.execute(run_id)
        assert code_of(execution) is None, execution.error
        assert outcome_of(execution).result.final_rows == 5_001 - waiting
    assert "exported_snapshot" in json.dumps(execution.report.as_json())
