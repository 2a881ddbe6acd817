"""Whole loads out of PostgreSQL and into it: gates, acceptance, cursor state, merges, leases, lost commits, memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from dpone_core import api
from dpone_core.loading.lease_renewal import RENEWAL_SECONDS
from dpone_core.model.vocabulary import RetryClassification, SourceState, TargetState
from tests.live.cutting_proxy import cutting_proxy
from tests.live.servers import scratch_postgres
from tests.spec.builders import Project, code_of, flow, hook, outcome_of

Server = Callable[[str], list[tuple[Any, ...]]]
QUALITY = {
    "gates": [{"type": "row_count_reconciliation"}, {"type": "typed_hash_reconciliation"}],
    "acceptance": {
        "enabled": True,
        "mode": "required",
        "checks": {"row_count": True, "null_counts": "all_columns", "distinct_counts": ["id"]},
    },
}
WIDE = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE wide (id int8 PRIMARY KEY, small int2, flag bool, ratio float8, amount numeric(18,4), big numeric(30,6),
    name text, code varchar(9), doc jsonb, feeling mood, address inet, raw bytea, day date, clock time, at timestamp,
    instant timestamptz, ref uuid, updated_at timestamptz NOT NULL);
INSERT INTO wide SELECT i, i, i % 2 = 0, i / 3.0, i / 7.0, i / 7.0, CASE WHEN i % 3 > 0 THEN 'n😀' || i END, 'c' || i,
    '{"a": 1}', 'ok', '10.0.0.1', '\\xff00', date '2026-01-01' + i, time '10:00',
    timestamp '2026-01-01' + i * interval '1 s', timestamptz '2026-01-01 00:00+00' + i * interval '1 s',
    gen_random_uuid(), timestamptz '2026-01-01 00:00+00' + i * interval '1 s'
    FROM generate_series(1, 1000) i;
CREATE TABLE flat (id int8 PRIMARY KEY, small int2, amount numeric(18,4), big numeric(30,6), name text, day date,
    at timestamp, instant timestamptz, ref uuid);
INSERT INTO flat SELECT id, small, amount, big, name, day, at, instant, ref FROM wide;
"""


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with scratch_postgres() as uri:
        with psycopg.connect(uri, autocommit=True) as server:
            server.execute(WIDE)
        yield uri


@pytest.fixture
def server(database: str) -> Iterator[Server]:
    with psycopg.connect(database, autocommit=True) as opened:
        opened.execute("SET TimeZone = 'UTC'")

        def run(sql: str) -> list[tuple[Any, ...]]:
            cursor = opened.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture
def schema() -> str:
    """A target schema of this test's own; targets of other tests stay apart."""
    return f"raw_{uuid4().hex[:8]}"


@pytest.fixture(name="project")
def postgres_project(tmp_path: Path, database: str) -> Project:
    return Project(tmp_path, environment={"DPONE_CONN_PG": database})


def from_postgres(**changes: object) -> dict[str, object]:
    return flow(
        **{
            "source": {"type": "postgres", "connection_ref": "pg", "table": {"schema": "public", "name": "wide"}},
            "quality": QUALITY,
            **changes,
        }
    )


def into_postgres(schema: str, **changes: object) -> dict[str, object]:
    governed = {"load_governance": {"enabled": True, "audit": {"state_schema": f"{schema}_state"}}}
    return flow(
        **{
            "sink__type": "postgres",
            "sink__connection_ref": "pg",
            "sink__table": {"schema": schema, "name": "orders"},
            "sink__options": governed,
            **changes,
        }
    )


def incremental(cursor: str, **source: object) -> dict[str, object]:
    """Changes of a flow that keeps its cursor in the sink."""
    options = {**dict(source.pop("options", {})), "incremental": {"cursor_column": cursor}}  # type: ignore[call-overload]
    return {"source": {**source, "options": options}, "state": {"type": "sink"}}


SHOP = {"type": "sqlite", "connection_ref": "shop", "table": {"name": "orders"}}
APPEND = {"mode": "incremental_append"}


def succeeded(project: Project, run_id: str, **options: Any) -> Any:
    execution = project.execute(run_id, **options)
    assert code_of(execution) is None, execution.error
    return outcome_of(execution).result


def test_postgres_to_duckdb_with_gates_and_acceptance(project: Project, server: Server) -> None:
    project.written(from_postgres())
    result = succeeded(project, "r1")
    assert (result.extracted_rows, result.staged_rows, result.final_rows) == (1000, 1000, 1000)
    metrics = result.acceptance_metrics
    assert metrics is not None
    source, staged, target = metrics.snapshots
    assert source.null_counts == staged.null_counts == target.null_counts
    assert source.null_counts["name"] == 333 and target.distinct_counts == {"id": 1000}
    sums = "SELECT sum(amount), max(big), count(DISTINCT ref) FROM "
    assert project.target(sums + "raw.orders") == server(sums + "wide")


def test_postgres_to_clickhouse_with_gates_and_acceptance(project: Project, tmp_path: Path) -> None:
    project.environment["DPONE_CONN_DWH"] = f"chdb:///{tmp_path / 'warehouse'}"
    source = {"type": "postgres", "connection_ref": "pg", "table": {"name": "flat"}}
    design = {"physical_design": {"order_by": ["id"]}}
    project.written(from_postgres(source=source, sink__type="clickhouse", sink__options=design))
    finished = project.run("--run-id", "r1")
    assert finished.exit_code == 0, finished.stdout
    assert (finished.result["extracted_rows"], finished.result["final_rows"]) == (1000, 1000)


def test_sqlite_to_postgres_appends_what_is_new(project: Project, server: Server, schema: str) -> None:
    project.orders()
    lineage = {"lineage": {"enabled": True, "preset": "standard"}}
    governed = {"load_governance": {"enabled": True, "audit": {"state_schema": f"{schema}_state"}}}
    project.written(
        into_postgres(
            schema,
            sink__options={**lineage, **governed},
            sink__strategy={"mode": "incremental_append", "unique_key": ["id"]},
            quality=QUALITY,
            **incremental("updated_at", **SHOP),
        )
    )
    succeeded(project, "r1")
    project.add_orders((4, "late", 30), (5, "new", 40))
    succeeded(project, "r2")
    succeeded(project, "r3")
    assert server(f"SELECT id FROM {schema}.orders ORDER BY id") == [(1,), (2,), (3,), (4,)]
    assert server(f"SELECT count(DISTINCT __dpone__row_id), count(DISTINCT __dpone__load_id) FROM {schema}.orders") == [
        (4, 2)
    ]
    statuses = server(f"SELECT run_id, status FROM {schema}_state.__dpone__loads ORDER BY run_id")
    assert [run for run, _ in statuses] == ["r1", "r2", "r3"] and {status for _, status in statuses} == {"committed"}
    assert server(f"SELECT count(*) FROM {schema}_state.__dpone__leases") == [(0,)]


def test_postgres_to_postgres_merges_and_a_second_run_changes_nothing(
    project: Project, server: Server, schema: str
) -> None:
    server(f"CREATE SCHEMA {schema}")
    server(f"CREATE TABLE {schema}.moving (id int8 PRIMARY KEY, name text, at timestamptz NOT NULL)")
    server(f"INSERT INTO {schema}.moving VALUES (1, 'a', '2026-01-01'), (2, NULL, '2026-01-02')")
    moving = incremental("at", type="postgres", connection_ref="pg", table={"schema": schema, "name": "moving"})
    strategy = {"mode": "incremental_merge", "unique_key": ["id"]}
    project.written(into_postgres(schema, sink__strategy=strategy, quality=QUALITY, **moving))
    first = succeeded(project, "r1")
    assert (first.inserted_rows, first.updated_rows) == (2, 0)
    server(f"ALTER TABLE {schema}.orders ADD PRIMARY KEY (id); GRANT SELECT ON {schema}.orders TO PUBLIC")
    server(f"UPDATE {schema}.moving SET name = 'A', at = '2026-01-03' WHERE id = 1")
    server(f"INSERT INTO {schema}.moving VALUES (3, 'c', '2026-01-03')")
    second = succeeded(project, "r2")
    assert (second.inserted_rows, second.updated_rows, second.final_rows) == (1, 2, 3)
    again = succeeded(project, "r3")
    assert (again.inserted_rows, again.final_rows) == (0, 3)
    rows = f"SELECT id, name FROM {schema}.orders ORDER BY id"
    assert server(rows) == [(1, "A"), (2, None), (3, "c")]
    assert server(f"SELECT cursor_value FROM {schema}_state.__dpone__cursor_state") == [
        ("2026-01-03T00:00:00.000000+00:00",)
    ]


def test_keys_that_repeat_or_are_null_stop_a_merge_before_the_target(
    project: Project, server: Server, schema: str
) -> None:
    strategy = {"mode": "incremental_merge", "unique_key": ["id"]}
    for values, code in (("(1), (1)", "merge_key_duplicate"), ("(1), (NULL)", "merge_key_null")):
        query = {"sql": f"SELECT id::int8 AS id, 'n' AS name, now() AS at FROM (VALUES {values}) AS t(id)"}
        changing = incremental("at", type="postgres", connection_ref="pg", options={"query": query})
        project.written(into_postgres(schema, sink__strategy=strategy, **changing))
        execution = project.execute(code)
        assert code_of(execution) == code
        outcome = outcome_of(execution)
        assert outcome.target_state is TargetState.NOT_MUTATED
    assert server(f"SELECT to_regclass('{schema}.orders')") == [(None,)]


def test_partitions_are_replaced(project: Project, server: Server, schema: str) -> None:
    server(
        f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.days AS SELECT i AS id, date '2026-01-01' + i % 3 AS day"
        " FROM generate_series(0, 8) i"
    )
    query = {"sql": f"SELECT * FROM {schema}.days WHERE day >= {{{{ data_interval_start }}}}"}
    source = {"type": "postgres", "connection_ref": "pg", "options": {"query": query}}
    design = {"physical_design": {"partition_by": {"column": "day", "granularity": "day"}}}
    manifest = into_postgres(schema, source=source, sink__strategy={"mode": "partition_replace"}, sink__options=design)
    project.written(manifest)

    def load(run_id: str, start: str) -> None:
        report = api.run(
            project.root / "m.yaml",
            run_id=run_id,
            interval_start=start,
            interval_end="2026-02-01T00:00:00+00:00",
            environment=project.environment,
            project_dir=project.root,
        )
        assert report.as_json()["passed"] is True

    load("r1", "2026-01-01T00:00:00+00:00")
    server(f"UPDATE {schema}.days SET id = id + 100 WHERE day = '2026-01-03'; DELETE FROM {schema}.days WHERE id = 0")
    load("r2", "2026-01-03T00:00:00+00:00")
    counted = server(f"SELECT day::text, count(*), min(id) FROM {schema}.orders GROUP BY day ORDER BY day")
    assert counted == [("2026-01-01", 3, 0), ("2026-01-02", 3, 1), ("2026-01-03", 3, 102)]


def test_hooks_run_on_both_sides(project: Project, server: Server, schema: str) -> None:
    server(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.made (id int8, updated_at timestamp)")
    before = hook("fill", f"INSERT INTO {schema}.made VALUES (7, now())")
    after = {
        "id": "count",
        "type": "sql",
        "kind": "target_maintenance",
        "connector": "sink",
        "sql": f"ANALYZE {schema}.orders",
    }
    source = {
        "type": "postgres",
        "connection_ref": "pg",
        "table": {"schema": schema, "name": "made"},
        "options": {"hooks": {"pre_hook": [before], "post_hook": [after]}},
    }
    project.written(into_postgres(schema, source=source, sink__strategy={"mode": "full_refresh"}))
    succeeded(project, "r1")
    assert server(f"SELECT id FROM {schema}.orders") == [(7,)]


def slow(server: Server, schema: str, seconds: float) -> dict[str, object]:
    """Loads one row from a view that takes its time."""
    view = f"slow_{str(seconds).replace('.', '_')}"
    server(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    server(f"CREATE VIEW {schema}.{view} AS SELECT 1::int8 AS id, pg_sleep({seconds})::text AS name")
    source = {"type": "postgres", "connection_ref": "pg", "table": {"schema": schema, "name": view}}
    return into_postgres(schema, source=source)


def leased(server: Server, schema: str) -> bool:
    if server(f"SELECT to_regclass('{schema}_state.__dpone__leases')") == [(None,)]:
        return False
    return bool(server(f"SELECT 1 FROM {schema}_state.__dpone__leases"))


def test_of_two_processes_one_loads_and_a_dead_ones_lease_expires(
    project: Project, server: Server, schema: str
) -> None:
    project.written(slow(server, schema, 60))
    project.written(slow(server, schema, 0), "fast.yaml")
    first = project.start("run", "m.yaml", "--run-id", "first")
    deadline = time.monotonic() + 60
    while not leased(server, schema):
        assert time.monotonic() < deadline and first.poll() is None, first.communicate()
        time.sleep(0.05)
    second = project.run("--run-id", "second", manifest="fast.yaml")
    assert (second.exit_code, second.code) == (1, "load_in_progress")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    third = project.run("--run-id", "third", manifest="fast.yaml")
    assert third.code == "load_in_progress", "nobody can know that the owner is dead before its lease has expired"
    server(f"UPDATE {schema}_state.__dpone__leases SET expires_at = now() - interval '1 second'")
    fourth = project.run("--run-id", "fourth", manifest="fast.yaml")
    assert fourth.exit_code == 0, fourth.stdout
    assert server(f"SELECT id FROM {schema}.orders") == [(1,)]
    assert not leased(server, schema)


@pytest.mark.slow
def test_a_load_that_lasts_renews_its_lease(project: Project, server: Server, schema: str) -> None:
    project.written(slow(server, schema, RENEWAL_SECONDS + 15))
    running = project.start("run", "m.yaml", "--run-id", "long")
    ends: set[object] = set()
    while running.poll() is None:
        if leased(server, schema):
            ends.update(server(f"SELECT owner, expires_at FROM {schema}_state.__dpone__leases"))
        time.sleep(0.5)
    assert running.returncode == 0, running.communicate()
    assert len(ends) == 2, "taken once, renewed once"
    assert not leased(server, schema)


@pytest.mark.parametrize("where", ["source", "hook"])
def test_a_termination_ends_a_query_that_has_not_answered_yet(
    project: Project, server: Server, schema: str, where: str
) -> None:
    manifest: dict[str, Any] = slow(server, schema, 60 if where == "source" else 0)
    if where == "hook":
        manifest["source"]["options"] = {"hooks": {"pre_hook": [hook("wait", f"SELECT pg_sleep(60), '{schema}'")]}}
    project.written(manifest)
    running = project.start("run", "m.yaml", "--run-id", "r1")
    deadline = time.monotonic() + 60
    asleep = f"SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%{schema}%'"
    while not server(asleep):
        assert time.monotonic() < deadline and running.poll() is None, running.communicate()
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=20)
    assert running.returncode == 143
    assert not server(asleep) and not leased(server, schema)
    tables = server(f"SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = '{schema}'::regnamespace")
    assert tables == []


@pytest.mark.parametrize("refuse", [False, True])
def test_a_commit_whose_answer_is_lost_is_told_truthfully(
    project: Project, database: str, server: Server, schema: str, refuse: bool
) -> None:
    parts = urlsplit(database)
    project.orders()
    with cutting_proxy(parts.hostname or "", parts.port or 5432) as proxy:
        through = parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}").geturl()
        project.environment["DPONE_CONN_PG"] = f"{through}?sslmode=disable&gssencmode=disable"
        project.written(into_postgres(schema, sink__strategy=APPEND, **incremental("updated_at", **SHOP)))
        succeeded(project, "r1")
        project.add_orders((4, "new", 40))
        proxy.cut_after(b"COMMIT", once_seen=b"COMMENT ON TABLE", refuse_after_cut=refuse)
        execution = project.execute("r2")
        assert proxy.cuts == 1
    assert server(f"SELECT id FROM {schema}.orders ORDER BY id") == [(1,), (2,), (3,)]
    if not refuse:
        assert code_of(execution) is None, execution.error
        return
    outcome = outcome_of(execution)
    assert code_of(execution) == "target_outcome_unknown"
    assert outcome.target_state is TargetState.UNKNOWN
    assert outcome.source_state is SourceState.NOT_ADVANCED
    assert outcome.retry is RetryClassification.OPERATOR_VERIFICATION_REQUIRED


CANARY = "c4n4ry-p4ssw0rd"


def test_a_password_is_in_no_byte_that_is_written(project: Project, database: str, schema: str) -> None:
    secret = database.replace("postgres@", f"postgres:{CANARY}@")
    for number, uri in enumerate((secret, secret.rpartition("/")[0] + "/no_such_database")):
        project.environment["DPONE_CONN_PG"] = uri
        project.written(
            into_postgres(schema, source=from_postgres()["source"], sink__strategy={"mode": "full_refresh"})
        )
        finished = project.run("--run-id", f"r{number}")
        assert finished.exit_code == number
        assert CANARY not in finished.stdout + finished.stderr
    written = [path for path in project.root.rglob("*") if path.is_file()]
    assert written and not any(CANARY.encode() in path.read_bytes() for path in written)


MEMORY = """
import resource, sys
from dpone_core.connectors.postgres.open import open_source
from dpone_core.model.connection import Connection
from dpone_core.model.sql import SqlText
from dpone_core.ports.source import ExtractRequest
text = "SELECT i::int8 AS id, repeat('x', 500) AS pad, (i / 7.0)::numeric(18, 4) AS a, (i / 7.0)::numeric(30, 4) AS b"
request = ExtractRequest(query=SqlText(text=text + f" FROM generate_series(1, {sys.argv[2]}) i"))
with open_source(Connection(ref="pg", uri=sys.argv[1], origin="test")) as ports:
    stream = ports.source.open_stream(request, ports.source.describe(request))
    rows = sum(batch.num_rows for batch in stream.batches())
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_memory_does_not_grow_with_the_result(database: str) -> None:
    peaks = {}
    for rows in (20_000, 300_000):
        finished = subprocess.run(
            [sys.executable, "-c", MEMORY, database, str(rows)], capture_output=True, text=True, timeout=60, check=True
        )
        counted, peak = map(int, finished.stdout.split())
        assert counted == rows
        peaks[rows] = peak
    assert peaks[300_000] - peaks[20_000] < 40, peaks
