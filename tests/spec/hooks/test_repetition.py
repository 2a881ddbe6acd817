"""A hook that succeeded is not run again in its run id; one that must not be repeated is not, however it ended
(HOOK-20).

The process is killed by the kernel the moment the hook's own connection opens: after `running` is durable, before any
success. Contract: HOOK-13, HOOK-21, LIFE-02.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpone_core.contracts.step_receipt import parse_receipt
from dpone_core.evidence.audit import StepOutcome
from dpone_core.loading.hooks import HookLedger
from dpone_core.model.hook import HookDefinition
from dpone_core.model.identity import RunId
from dpone_core.model.sql import SqlText
from dpone_core.model.vocabulary import HookKind, HookPhase, RetryClassification
from dpone_core.ports.hooks import HookActionError, HookActions
from dpone_core.state.evidence_files import LocalEvidenceFiles
from dpone_core.testing.fakes import FixedClock
from dpone_core.use_cases.run import RetryPolicy
from tests.spec.builders import Finished, Project, code_of, flow, hook, hooks, outcome_of, project_with_log
from tests.spec.hooks.test_notifications import step_details

KILLED_AT_HOOK = (
    sys.executable,
    "-c",
    """
import os, signal, sys
def kill(event, arguments):
    if event == "sqlite3.connect" and "mode=rw" in str(arguments):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(kill)
from dpone_core.cli.main import entry_point
entry_point()
""",
)
NO_AUDIT = {"sink__options": {"load_governance": {"enabled": False}}}
OPERATOR = RetryClassification.OPERATOR_VERIFICATION_REQUIRED


@pytest.fixture(name="project")
def shop_with_log(tmp_path: Path) -> Project:
    return project_with_log(tmp_path)


def logged(project: Project) -> list[str]:
    with sqlite3.connect(project.root / "shop.sqlite") as connection:
        return [str(row[0]) for row in connection.execute("SELECT what FROM log ORDER BY rowid")]


def writes(hook_id: str, **changes: object) -> dict[str, object]:
    return hook(hook_id, f"INSERT INTO log VALUES ('{hook_id}')", **changes)


def record_of(project: Project, name: str) -> dict[str, Any]:
    (path,) = (project.root / "evidence").glob(f"runs/orders/*/hooks/{name}*.json")
    return dict(json.loads(path.read_text()))


def by_hand(project: Project, *arguments: str, **options: Any) -> Finished:
    receipt = str(project.root / "receipt.json")
    return project.dpone(
        *("hooks", "execute", "m.yaml", "--phase", "pre_hook", "--run-id", "r1", "--format", "json"),
        *("--receipt-path", receipt, *arguments),
        **options,
    )


@pytest.mark.parametrize("audit", [{}, NO_AUDIT], ids=["audit", "no_audit"])
def test_a_killed_run_leaves_a_hook_that_nothing_repeats(project: Project, audit: dict[str, object]) -> None:
    project.written(flow(source__options=hooks(pre=[writes("once", retry_policy="none")]), **audit))
    killed = project.dpone("run", "m.yaml", "--run-id", "r1", launcher=KILLED_AT_HOOK)
    assert killed.exit_code == -signal.SIGKILL and logged(project) == []
    again = project.run("--run-id", "r1", "--retry-attempts", "3")
    assert (again.exit_code, again.code) == (1, "hook_outcome_unknown")
    assert again.document["attempts"] == 1 and logged(project) == []
    assert parse_receipt(again.receipt).retry_classification is OPERATOR
    assert project.run("--run-id", "r2").exit_code == 0 and logged(project) == ["once"]


@pytest.mark.parametrize("audit", [{}, NO_AUDIT], ids=["audit", "no_audit"])
def test_a_killed_run_repeats_a_hook_that_may_be(project: Project, audit: dict[str, object]) -> None:
    project.written(flow(source__options=hooks(pre=[writes("again", retry_policy="default")]), **audit))
    project.dpone("run", "m.yaml", "--run-id", "r1", launcher=KILLED_AT_HOOK)
    assert project.run("--run-id", "r1").exit_code == 0 and logged(project) == ["again"]


def test_hooks_execute_that_was_killed_leaves_a_hook_that_nothing_repeats(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[writes("once", retry_policy="none")])))
    killed = project.dpone(
        *("hooks", "execute", "m.yaml", "--phase", "pre_hook", "--run-id", "r1"), launcher=KILLED_AT_HOOK
    )
    assert killed.exit_code == -signal.SIGKILL
    again = by_hand(project)
    assert (again.exit_code, again.document["steps"][0]["error_message"]) == (1, "hook_outcome_unknown")
    assert parse_receipt(again.receipt).retry_classification is OPERATOR
    assert logged(project) == []


TERMINATED_AT_HOOK = (KILLED_AT_HOOK[0], "-c", KILLED_AT_HOOK[2].replace("SIGKILL", "SIGTERM"))


@pytest.mark.parametrize(
    ("policy", "retry"), [("none", OPERATOR), ("default", RetryClassification.RETRY_BEFORE_TARGET_MUTATION)]
)
def test_hooks_execute_that_was_terminated_says_whether_it_may_be_repeated(
    project: Project, policy: str, retry: RetryClassification
) -> None:
    project.written(flow(source__options=hooks(pre=[writes("first"), writes("once", retry_policy=policy)])))
    assert by_hand(project, "--hook-id", "first").exit_code == 0
    ended = by_hand(project, launcher=TERMINATED_AT_HOOK)
    assert ended.exit_code == 143
    receipt = parse_receipt(ended.receipt)
    assert (receipt.status.value, receipt.retry_classification) == ("interrupted", retry)
    assert [step["status"] for step in ended.document["steps"]] == ["already_succeeded", "failed"]


def test_hooks_that_succeeded_do_not_forbid_repeating_one_that_may_be(project: Project) -> None:
    bad = hook("bad", "INSERT INTO absent VALUES (1)", retry_policy="default", depends_on=["once"])
    project.written(flow(source__options=hooks(pre=[writes("once", retry_policy="none"), bad])))
    failed = by_hand(project)
    assert failed.exit_code == 1
    assert parse_receipt(failed.receipt).retry_classification is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    project.source("CREATE TABLE absent (id INTEGER)")
    assert by_hand(project).exit_code == 0 and logged(project) == ["once"]


def test_a_run_knows_a_hook_that_hooks_execute_started(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[writes("once", retry_policy="none")])))
    project.dpone("hooks", "execute", "m.yaml", "--phase", "pre_hook", "--run-id", "r1", launcher=KILLED_AT_HOOK)
    assert project.run("--run-id", "r1").code == "hook_outcome_unknown"


def test_a_run_does_not_repeat_a_hook_that_hooks_execute_proved(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[writes("once")])))
    assert by_hand(project).exit_code == 0
    assert project.run("--run-id", "r1").exit_code == 0 and logged(project) == ["once"]
    ((status, details),) = step_details(project, "once")
    assert (status, details["evidence"]) == ("succeeded", "already_succeeded")


@pytest.mark.parametrize("audit", [{}, NO_AUDIT], ids=["audit", "no_audit"])
def test_a_second_attempt_does_not_repeat_a_hook_that_succeeded(project: Project, audit: dict[str, object]) -> None:
    fails = hook("fails", "INSERT INTO absent VALUES (1)", retry_policy="default", depends_on=["once"])
    project.written(flow(source__options=hooks(pre=[writes("once", retry_policy="none"), fails]), **audit))
    execution = project.execute("r1", retry=RetryPolicy(retry_attempts=2, sleep=lambda seconds: None))
    assert code_of(execution) == "hook_failed" and execution.outcomes[0].report.attempts == 3
    assert logged(project) == ["once"]


def test_a_failed_hook_that_must_not_be_repeated_ends_automatic_attempts(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[hook("once", "INSERT INTO absent VALUES (1)")])))
    execution = project.execute("r1", retry=RetryPolicy(retry_attempts=2, sleep=lambda seconds: None))
    assert outcome_of(execution).retry is OPERATOR and execution.outcomes[0].report.attempts == 1


def test_a_failed_pre_hook_starts_no_export(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[hook("bad", "INSERT INTO absent VALUES (1)")])))
    outcome = outcome_of(project.execute())
    assert not {"source_described", "staged", "finalized"} & {step.step_id for step in outcome.steps}
    assert outcome.result.extracted_rows is None or outcome.result.extracted_rows == 0


def test_step_rows_say_what_ran_and_never_its_text(project: Project) -> None:
    project.written(
        flow(
            source__options=hooks(
                pre=[hook("two", "INSERT INTO log VALUES ('CANARY'); DELETE FROM log")],
                post=[hook("bad", "INSERT INTO CANARY VALUES (1)")],
            )
        )
    )
    outcome = outcome_of(project.execute())
    (two,) = [step for step in outcome.steps if step.step_id == "two"]
    assert two.details == {
        "type": "sql",
        "lineage": {"inputs": [], "outputs": []},
        "sql_hash": two.details["sql_hash"],
        "retry_policy": "none",
        "statements": 2,
    }
    ((_, running_then_succeeded),) = step_details(project, "two")
    assert running_then_succeeded["statements"] == 2
    status, details = step_details(project, "bad")[-1]
    assert (status, details["reason"]) == ("failed", "statement_failed")
    assert "CANARY" not in str(outcome) + str(project.target("SELECT * FROM etl_state.__dpone__load_steps"))


def test_the_record_of_hooks_execute_says_what_failed(project: Project) -> None:
    project.written(flow(source__options=hooks(pre=[hook("bad", "INSERT INTO CANARY VALUES (1)")])))
    by_hand(project)
    record = record_of(project, "pre_hook_bad")
    assert (record["status"], record["reason"]) == ("failed", "statement_failed")
    assert record["sql_hash"].startswith("sha256:") and "CANARY" not in json.dumps(record)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b"[" * 8000, b'{"status": "succeeded"}', b'{"sql_hash": null}']
)
def test_a_damaged_record_proves_no_success(tmp_path: Path, content: bytes) -> None:
    ledger = HookLedger(
        files=LocalEvidenceFiles(root=tmp_path), clock=FixedClock(), process="orders", run_id=RunId("r1")
    )
    once = HookDefinition(
        id="once", phase=HookPhase.PRE, kind=HookKind.CUSTOM, sql=SqlText(text="DELETE FROM t"), mutates_source=True
    )
    assert ledger.status(once) is None
    ledger.record_start(once)
    assert ledger.status(once) is StepOutcome.RUNNING
    ledger.record_success(once, {"statements": 1})
    assert ledger.status(once) is StepOutcome.SUCCEEDED
    (path,) = tmp_path.glob("runs/orders/*/hooks/pre_hook_once*.json")
    path.write_bytes(content)
    known = b"sql_hash" in content
    assert ledger.status(once) is (None if known else StepOutcome.RUNNING)


def test_a_record_of_another_action_is_of_another_hook(tmp_path: Path) -> None:
    ledger = HookLedger(
        files=LocalEvidenceFiles(root=tmp_path), clock=FixedClock(), process="orders", run_id=RunId("r1")
    )
    marker = HookDefinition(id="a", phase=HookPhase.PRE, kind=HookKind.NOTIFICATION, type="marker")
    ledger.record_success(marker, {})
    assert ledger.status(marker) is StepOutcome.SUCCEEDED
    assert ledger.status(replace(marker, phase=HookPhase.POST)) is None
    assert ledger.status(replace(marker, options={"x": 1})) is None


@pytest.mark.parametrize("hook_id", ["", "A", "../x", "a/b", "a b", "x" * 65, "_x", "\u00e9"])
def test_an_id_that_cannot_name_a_file_makes_no_hook(hook_id: str) -> None:
    with pytest.raises(ValueError, match="hook id"):
        HookDefinition(id=hook_id, phase=HookPhase.PRE, kind=HookKind.CUSTOM)


def test_what_nobody_provides_or_connects_is_a_stable_code() -> None:
    missing = HookDefinition(id="a", phase=HookPhase.PRE, kind=HookKind.CUSTOM, type="foreign")
    with pytest.raises(HookActionError) as raised:
        HookActions().provider_of(missing)
    assert raised.value.code == "hook_provider_missing"
    with pytest.raises(HookActionError) as raised:
        HookActions().connection_of(missing)()
    assert raised.value.code == "hook_connection_missing"
