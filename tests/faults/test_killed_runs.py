"""A run that is killed leaves the old target or the new one, and the next run finds its leftovers and does its work.

Contract: LIFE-21, STATE-06.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunArguments, resolve_invocation
from dpone_core.loading.attempt import run_attempt
from dpone_core.loading.context import LoadRequest
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.connection import Connection
from dpone_core.model.vocabulary import RetryClassification, TargetState
from dpone_core.ports.runtime import Runtime
from dpone_core.state.evidence_files import LocalEvidenceFiles
from dpone_core.testing.builders import load_identity
from dpone_core.use_cases.plan import plan_process
from dpone_core.wiring.runtime import NoCancellation, SilentProgress, SystemClock
from dpone_core.wiring.sessions import SessionOpener
from tests.spec.builders import Project, append_flow, flow, loaded_project

ENDLESS = "SELECT a.id, a.name, a.updated_at FROM orders a, orders b, orders c, orders d"
STAGING = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE '\\_\\_dpone\\_\\_stg%' ESCAPE '\\'"


@pytest.fixture(name="project")
def project_after_a_load(tmp_path: Path) -> Project:
    return loaded_project(tmp_path)


def endless(project: Project) -> None:
    project.orders((number, "n", number) for number in range(300))
    project.written(flow(source__table=None, source__options={"query": {"sql": ENDLESS}}))


def running(project: Project, until: str, *arguments: str) -> subprocess.Popen[str]:
    process = project.start("run", "m.yaml", *arguments)
    assert process.stderr is not None
    for line in process.stderr:
        if until in line:
            return process
    raise AssertionError(f"the run ended before {until}")


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


@pytest.mark.parametrize("until", ["phase=extract", "phase=stage"])
def test_a_run_killed_before_its_commit_leaves_the_old_target_and_no_claim(project: Project, until: str) -> None:
    endless(project)
    killed(running(project, until, "--run-id", "dead", "--receipt-path", str(project.root / "receipt.json")))
    assert project.target("SELECT count(*) FROM raw.orders") == [(3,)]
    assert not (project.root / "receipt.json").exists()
    assert project.target("SELECT status FROM etl_state.__dpone__loads WHERE run_id = 'dead'") == [("started",)]
    project.written(flow())
    again = project.run("--run-id", "dead")
    assert again.exit_code == 0 and again.result["final_rows"] == 300
    assert project.target(STAGING) == [(0,)]


DEADLY_PROGRESS = """
import os, signal, sys
from pathlib import Path
from dpone_core.api import RunOptions, RunProcessPorts, execute_run
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunArguments
class Deadly:
    def phase(self, name):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGKILL)
    def rows(self, total_rows, total_bytes):
        pass
options = RunOptions(arguments=RunArguments(run_id=sys.argv[2]))
execute_run(Path("m.yaml"), options, ports=RunProcessPorts(progress=Deadly()))
"""


def dies_at(project: Project, phase: str) -> None:
    """A run whose own progress port ends the process the moment a phase begins."""
    died = project.dpone(phase, "dead", launcher=(sys.executable, "-c", DEADLY_PROGRESS))
    assert died.exit_code == -signal.SIGKILL


def test_a_run_killed_right_before_its_commit_is_found_by_the_next_one(project: Project) -> None:
    """Staging is complete and stays behind: reported by name, never read, and the target is the old one."""
    project.written(append_flow())
    project.add_orders((4, "d", 40))
    dies_at(project, "finalize")
    assert project.target(STAGING) == [(1,)] and len(project.target()) == 3
    finished = project.run("--run-id", "next")
    assert finished.exit_code == 0
    (warning,) = [item for item in finished.result["details"]["warnings"] if "leftovers" in item]
    assert "raw.__dpone__stg_orders_" in warning
    assert finished.result["inserted_rows"] == 3
    assert project.target("SELECT cursor_value FROM etl_state.__dpone__cursor_state") == [("40",)]


def test_a_run_killed_in_its_post_hook_has_committed_and_advanced(project: Project) -> None:
    post = {"id": "tidy", "type": "sql", "sql": "UPDATE orders SET name = name", "mutates_source": True}
    options = {"incremental": {"cursor_column": "updated_at"}, "hooks": {"post_hook": [post]}}
    project.written(append_flow(source__options=options, sink__table={"schema": "raw", "name": "fresh"}))
    dies_at(project, "post_hook")
    assert project.target("SELECT count(*) FROM raw.fresh") == [(2,)]
    assert project.target("SELECT status FROM etl_state.__dpone__loads WHERE run_id = 'dead'") == [("committed",)]
    assert list((project.root / "evidence" / "runs" / "orders").rglob("dead*/*/load.json"))
    again = project.run("--run-id", "next")
    assert again.exit_code == 0 and again.result["inserted_rows"] == 0


def attempt_beside(project: Project, *, lock_timeout_seconds: float = 0) -> tuple[str | None, TargetState, object]:
    """A second writer of the same file in this process; it does not wait for the lock."""
    (config,) = load_manifest(project.root / "m.yaml", project_root=project.root).processes
    planned = plan_process(config)
    invocation = resolve_invocation(RunArguments(run_id="second"), {}, "unused")
    opener = SessionOpener(
        config=config,
        plan=planned.plan,
        source=Connection(ref="shop", uri=project.environment["DPONE_CONN_SHOP"], origin="test"),
        sink=Connection(ref="dwh", uri=project.environment["DPONE_CONN_DWH"], origin="test"),
        lock_timeout_seconds=lock_timeout_seconds,
        redactor=Redactor(),
    )
    outcome = run_attempt(
        LoadRequest(
            config=config,
            plan=planned.plan,
            snapshot=planned.snapshot,
            token_values=invocation.token_values,
            hook_receipts=None,
        ),
        Runtime(
            clock=SystemClock(),
            progress=SilentProgress(),
            cancellation=NoCancellation(),
            evidence=LocalEvidenceFiles(root=project.root / "evidence"),
        ),
        load_identity("01KB6Q4X7D8M1T9N3VZ5C2R0AE", run_id="second"),
        opener,
    ).outcome
    return None if outcome.failure is None else outcome.failure.code, outcome.target_state, outcome.retry


def test_two_writers_of_one_target_are_one_writer_and_one_refusal(project: Project) -> None:
    endless(project)
    first = running(project, "phase=stage", "--run-id", "first")
    try:
        code, target, retry = attempt_beside(project)
    finally:
        killed(first)
    assert code in ("load_in_progress", "embedded_directory_locked")
    assert target is TargetState.NOT_MUTATED and retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    project.written(flow())
    assert attempt_beside(project)[0] is None, "a dead holder releases its lock"
    assert project.target("SELECT count(*) FROM raw.orders") == [(300,)]


CLICKHOUSE = {"sink__type": "clickhouse", "sink__connection_ref": "house"}


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["finalize", "post_hook"])
def test_embedded_clickhouse_survives_a_killed_run(project: Project, phase: str) -> None:
    post = {"id": "tidy", "type": "sql", "sql": "UPDATE orders SET name = name", "mutates_source": True}
    project.environment["DPONE_CONN_HOUSE"] = f"chdb:///{project.root / 'house'}"
    project.written(flow(**CLICKHOUSE, source__options={"hooks": {"post_hook": [post]}}))
    assert project.run("--run-id", "r1").exit_code == 0
    project.add_orders((4, "d", 40))
    dies_at(project, phase)
    finished = project.run("--run-id", "r2")
    assert finished.exit_code == 0 and finished.result["final_rows"] == 4
    warned = any("leftovers" in warning for warning in finished.result["details"]["warnings"])
    assert warned is (phase == "finalize")
