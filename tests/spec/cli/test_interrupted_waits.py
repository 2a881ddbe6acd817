"""A signal is heard while the source makes its reader wait, whatever sits in between: nothing is left of the load.

The sink's engine pulls the batches, so the main thread is inside it (CLI-04).
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from tests.live.servers import scratch_postgres
from tests.spec.builders import Project, flow, loaded_project

SIGNALS = [(signal.SIGTERM, 143), (signal.SIGINT, 130)]
THINKING = "SELECT a.* FROM orders a, orders b, orders c, orders d, orders e WHERE sin(a.id) + sin(e.id) > 3"
PATIENCE_SECONDS = 20
"""Far more than an abort takes; far less than any of these sources."""


@pytest.fixture(name="project")
def project_after_a_load(tmp_path: Path) -> Project:
    """The target holds one load of three rows."""
    return loaded_project(tmp_path)


@pytest.mark.parametrize(("number", "exit_code"), SIGNALS)
def test_another_file_of_the_same_engine_is_left(project: Project, number: signal.Signals, exit_code: int) -> None:
    path = project.root / "other.duckdb"
    with closing(duckdb.connect(str(path))) as connection:
        connection.execute(
            "CREATE TABLE orders AS SELECT i AS id, 'n' AS name, i AS updated_at FROM range(100_000) t(i)"
        )
    project.environment["DPONE_CONN_OTHER"] = f"duckdb:///{path}"
    leaves(project, {"type": "duckdb", "connection_ref": "other"}, THINKING, number, exit_code, is_waiting=computes)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with scratch_postgres() as uri:
        yield uri


@pytest.mark.parametrize(("number", "exit_code"), SIGNALS)
def test_a_server_that_sleeps_is_left_and_woken(
    project: Project, postgres: str, number: signal.Signals, exit_code: int
) -> None:
    project.environment["DPONE_CONN_PG"] = postgres
    asleep = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute("CREATE OR REPLACE VIEW sleeping AS SELECT 1::int8 AS id, pg_sleep(300)::text AS name")

        def is_asleep(_: object = None) -> bool:
            return bool(server.execute(asleep).fetchall())

        source = {"type": "postgres", "connection_ref": "pg"}
        leaves(project, source, "SELECT * FROM sleeping", number, exit_code, is_waiting=is_asleep)
        assert not is_asleep()


def computes(process: subprocess.Popen[str]) -> bool:
    """The run spends far more time than its own start needs: the source computes, so the sink has asked it."""
    ticks = sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK") > 4


def leaves(
    project: Project,
    source: dict[str, Any],
    sql: str,
    number: signal.Signals,
    exit_code: int,
    *,
    is_waiting: Callable[[subprocess.Popen[str]], bool],
) -> None:
    project.written(flow(source={**source, "options": {"query": {"sql": sql}}}))
    arguments = ("m.yaml", "--format", "json", "--run-id", "r1", "--receipt-path", str(project.root / "receipt.json"))
    process = started(project, *arguments)
    deadline = time.monotonic() + 60
    while not is_waiting(process):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    assert process.poll() is None
    process.send_signal(number)
    try:
        process.wait(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    finished = project.finished(process, arguments)
    assert finished.exit_code == exit_code
    assert finished.receipt is not None
    assert (finished.receipt["status"], finished.receipt["exit_code"]) == ("interrupted", exit_code)
    assert finished.receipt["target_state"] == "not_mutated"
    assert finished.result["failure_context"]["retry_classification"] == "retry_before_target_mutation"
    assert project.target("SELECT count(*) FROM raw.orders") == [(3,)]
    artifacts = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE '%stg%'"
    assert project.target(artifacts) == [(0,)]
    assert project.target("SELECT status, error_message FROM etl_state.__dpone__loads WHERE run_id = 'r1'") == [
        ("failed", finished.code)
    ]


def started(project: Project, *arguments: str) -> subprocess.Popen[str]:
    process = project.start("run", *arguments)
    assert process.stderr is not None
    for line in process.stderr:
        if "phase=stage" in line:
            return process
    raise AssertionError("the run ended before it staged")
