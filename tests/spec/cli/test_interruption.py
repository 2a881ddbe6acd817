"""A signal before the commit aborts, cleans and leaves a receipt: 130 for Ctrl-C, 143 for SIGTERM; the target stays.

Contract: CLI-03, CLI-19, FAIL-30.
"""

from __future__ import annotations

import glob
import signal
import sqlite3
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.spec.builders import Finished, Project, flow, hook, hooks, loaded_project

ENDLESS = "SELECT a.id, a.name, a.updated_at FROM orders a, orders b, orders c, orders d"


@pytest.fixture(name="project")
def endless_second_load(tmp_path: Path) -> Project:
    """The target holds one load; the next one streams far longer than any test waits."""
    project = loaded_project(tmp_path)
    project.orders((number, "n", number) for number in range(300))
    project.written(flow(source__table=None, source__options={"query": {"sql": ENDLESS}}))
    return project


def started(project: Project, *arguments: str, until: str = "phase=stage") -> subprocess.Popen[str]:
    """A run that has logged `until`."""
    process = project.start("run", *arguments)
    assert process.stderr is not None
    for line in process.stderr:
        if until in line:
            return process
    raise AssertionError(f"the run ended before {until}")


def ended(project: Project, process: subprocess.Popen[str], arguments: tuple[str, ...]) -> Finished:
    return project.finished(process, arguments)


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_rows_flow_leaves_the_old_target_no_staging_and_a_receipt(
    project: Project, number: signal.Signals, exit_code: int
) -> None:
    arguments = ("m.yaml", "--format", "json", "--run-id", "r1", "--receipt-path", str(project.root / "receipt.json"))
    process = started(project, *arguments)
    process.send_signal(number)
    finished = ended(project, process, arguments)
    assert finished.exit_code == exit_code
    assert finished.receipt is not None
    assert (finished.receipt["status"], finished.receipt["exit_code"]) == ("interrupted", exit_code)
    assert finished.receipt["target_state"] == "not_mutated"
    assert finished.result["failure_context"]["retry_classification"] == "retry_before_target_mutation"
    assert project.target("SELECT count(*) FROM raw.orders") == [(3,)]
    staging = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE '%stg%'"
    assert project.target(staging) == [(0,)]
    assert project.target("SELECT status, error_message FROM etl_state.__dpone__loads WHERE run_id = 'r1'") == [
        ("failed", finished.code)
    ]


@pytest.mark.slow
def test_an_interruption_is_not_retried(project: Project) -> None:
    arguments = ("m.yaml", "--format", "json", "--retry-attempts", "3")
    process = started(project, *arguments)
    process.send_signal(signal.SIGTERM)
    finished = ended(project, process, arguments)
    assert finished.exit_code == 143 and finished.document["attempts"] == 1


def test_an_interruption_ends_the_run_set_also_with_keep_going(project: Project) -> None:
    processes = []
    for name in ("one", "two"):
        process: Mapping[str, object] = flow(
            name=name,
            source__table=None,
            source__options={"query": {"sql": ENDLESS}},
            sink__table={"schema": "raw", "name": name},
        )
        processes.append({key: value for key, value in process.items() if key != "kind"})
    project.written({"kind": "dpone.flow.v1", "processes": processes})
    arguments = ("m.yaml", "--format", "json", "--keep-going")
    process_one = started(project, *arguments)
    process_one.send_signal(signal.SIGTERM)
    finished = ended(project, process_one, arguments)
    assert finished.exit_code == 143
    assert [run["process"] for run in finished.document["runs"]] == ["one"]


@pytest.mark.slow
def test_a_signal_between_two_attempts_keeps_the_truth_of_the_last_one(project: Project) -> None:
    project.written(flow(source__table={"name": "nobody_made_this"}))
    arguments = ("m.yaml", "--format", "json", "--retry-attempts", "1", "--retry-backoff-seconds", "600")
    process = started(project, *arguments, until="phase=backoff")
    process.send_signal(signal.SIGTERM)
    finished = ended(project, process, arguments)
    assert finished.exit_code == 143 and finished.document["attempts"] == 1
    assert finished.result["failure_context"]["target_state"] == "not_mutated"
    assert list(project.root.rglob("run.json"))


@pytest.mark.slow
def test_a_run_that_was_interrupted_can_be_repeated(project: Project) -> None:
    arguments = ("m.yaml", "--run-id", "r1")
    process = started(project, *arguments)
    process.send_signal(signal.SIGTERM)
    ended(project, process, arguments)
    project.written(flow())
    assert project.run("--run-id", "r1").exit_code == 0
    assert project.target("SELECT count(*) FROM raw.orders") == [(300,)]


def has_begun(project: Project) -> bool:
    connection = sqlite3.connect(project.root / "shop.sqlite", timeout=10)
    try:
        return connection.execute("SELECT count(*) FROM began").fetchone() != (0,)
    finally:
        connection.close()


def test_a_signal_in_a_hook_that_must_not_be_repeated_blocks_the_next_try(project: Project) -> None:
    """SQLite looks at signals between statements, so the hook has several."""
    project.source("CREATE TABLE began (id INTEGER)")
    busy = "; ".join(["INSERT INTO began VALUES (1)", *["UPDATE orders SET name = name"] * 3_000])
    once = hook("refresh", busy, kind="source_refresh", retry_policy="none")
    project.written(flow(source__options=hooks(pre=[once])))
    arguments = ("m.yaml", "--format", "json", "--run-id", "r1")
    process = started(project, *arguments, until="phase=pre_hook")
    while not has_begun(project):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    finished = ended(project, process, arguments)
    assert finished.exit_code == 143
    assert finished.result["failure_context"]["retry_classification"] == "operator_verification_required"
    again = project.run("--run-id", "r1")
    assert (again.exit_code, again.code) == (1, "hook_outcome_unknown")
    assert project.target("SELECT count(*) FROM raw.orders") == [(3,)]


@pytest.mark.parametrize("command", ["run", "hooks"])
def test_a_signal_stops_a_statement_that_would_run_for_hours(project: Project, command: str) -> None:
    """The update is one transaction: it is rolled back with the connection."""
    endless = "INSERT INTO began SELECT a.id FROM orders a, orders b, orders c, orders d, orders e"
    project.source("CREATE TABLE began (id INTEGER)")
    once = hook("refresh", endless, kind="source_refresh", retry_policy="none")
    project.written(flow(source__options=hooks(pre=[once])))
    receipt = str(project.root / "receipt.json")
    arguments = ("m.yaml", "--format", "json", "--run-id", "r1", "--receipt-path", receipt)
    if command == "run":
        process = started(project, *arguments, until="phase=pre_hook")
    else:
        process = project.start("hooks", "execute", *arguments, "--phase", "pre_hook")
        wait_for_record(project)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    finished = ended(project, process, arguments)
    assert finished.exit_code == 143
    assert finished.receipt is not None and finished.receipt["status"] == "interrupted"
    assert not has_begun(project)


def wait_for_record(project: Project) -> None:
    """Until the hook's durable `started` record stands; glob minds no folder that goes while it looks."""
    deadline = time.monotonic() + 60
    while not glob.glob("evidence/**/hooks/*.json", root_dir=project.root, recursive=True):
        assert time.monotonic() < deadline
