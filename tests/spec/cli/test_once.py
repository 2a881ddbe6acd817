"""`dpone run --once`: a run id that has succeeded is not run again, and only published evidence says that it has.

Contract: STATE-34.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from dpone_core.evidence.markdown import run_markdown
from tests.spec.builders import Project, code_of, flow, hook, hooks

GATES = [{"type": "min_rows", "side": "target", "threshold": 1}]
ACCEPTANCE = {"enabled": True, "mode": "required", "capture": {"source": True, "staged": True, "target": True}}
NOTED = hooks(pre=[hook("note", "INSERT INTO log VALUES (1)")])


@pytest.fixture(name="project")
def loaded_once(tmp_path: Path) -> Project:
    """A full refresh that has succeeded under run id r1, whose source has a row more since."""
    project = Project(tmp_path)
    project.orders()
    project.source("CREATE TABLE log (what INTEGER)")
    project.written(flow(source__options=NOTED, quality={"gates": GATES, "acceptance": ACCEPTANCE}))
    assert extracted(project) == 3
    project.add_orders((4, "d", 40))
    return project


def extracted(project: Project, run_id: str = "r1", **changes: str) -> object:
    """How many rows a run that may find its success reports as read; 3 is the report of the first one."""
    project.environment |= changes
    report = project.execute(run_id, once=True).report.as_json()
    assert report["passed"] is True
    return cast(dict[str, Any], report["result"])["extracted_rows"]


def record(project: Project) -> Path:
    (found,) = project.root.glob("evidence/runs/orders/r1*/*/run.json")
    return found


def rows_and_hooks(project: Project) -> tuple[int, int]:
    with sqlite3.connect(project.root / "shop.sqlite") as connection:
        ((hooks_run,),) = connection.execute("SELECT count(*) FROM log").fetchall()
    connection.close()
    return len(project.target()), hooks_run


def changed(project: Project, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(record(project).read_text("utf-8"))
    change(document)
    record(project).write_text(json.dumps(document), "utf-8")


def test_the_second_run_does_nothing_and_gives_the_receipt_of_the_first(project: Project) -> None:
    first = project.run("--run-id", "r2", "--once")
    before, left = rows_and_hooks(project), project.files()
    project.add_orders((5, "e", 50))
    second = project.run("--run-id", "r2", "--once")
    assert (second.exit_code, rows_and_hooks(project), project.files()) == (0, before, left)
    assert first.receipt is not None and second.receipt is not None
    of_this_try = ("started_at", "finished_at", "digest")
    assert {key: value for key, value in first.receipt.items() if key not in of_this_try} == {
        key: value for key, value in second.receipt.items() if key not in of_this_try
    }
    assert [second.receipt[name] for name in ("status", "acceptance_sides", "gates_passed")] == ["succeeded", 3, 1]
    told = second.document
    done = told["result"]["details"].pop("done_before")
    assert told == first.document
    assert done == {name: second.receipt[name] for name in ("evidence_path", "evidence_sha256")}


def test_a_person_reads_that_nothing_ran(project: Project) -> None:
    again = project.dpone("run", "m.yaml", "--run-id", "r1", "--once")
    assert "once      done before by load" in again.stdout and "nothing ran now" in again.stdout
    page = project.execute("r1", once=True)
    (outcome,) = page.outcomes
    assert "nothing ran now" in run_markdown(outcome.report, None)
    assert outcome.report.outcome is not None and outcome.report.outcome.quality_gates is not None


def test_without_the_flag_the_same_run_id_loads_again(project: Project) -> None:
    assert project.execute("r1").report.passed
    assert rows_and_hooks(project)[0] == 4


def test_another_run_id_loads(project: Project) -> None:
    assert (extracted(project, "r2"), rows_and_hooks(project)) == (4, (4, 2))


def test_without_a_run_id_it_is_refused(project: Project) -> None:
    refused = project.run("--once")
    assert (refused.exit_code, refused.code) == (2, "DPONE_ONCE_NEEDS_RUN_ID")


ANOTHER_IDENTITY = {
    "another gate": lambda project: project.written(
        flow(source__options=NOTED, quality={"gates": [{**GATES[0], "threshold": 2}]})
    ),
    "no gate": lambda project: project.written(flow(source__options=NOTED, quality={"acceptance": ACCEPTANCE})),
    "another target": lambda project: project.written(
        flow(sink__table={"schema": "raw", "name": "other"}, source__options=NOTED, quality={"gates": GATES})
    ),
}


@pytest.mark.parametrize("change", ANOTHER_IDENTITY.values(), ids=ANOTHER_IDENTITY.keys())
def test_a_success_under_another_plan_or_policy_is_none(project: Project, change: Callable[[Project], object]) -> None:
    change(project)
    assert extracted(project) == 4


def test_a_success_of_another_interval_is_none(project: Project) -> None:
    assert extracted(project, DPONE_INTERVAL_START="2026-01-01", DPONE_INTERVAL_END="2026-01-02") == 4


DAMAGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "failed": lambda document: document["report"].update(passed=False),
    "an error beside success": lambda document: document["report"]["result"].update(errors=["E: x"]),
    "another status": lambda document: document["report"]["result"].update(status="error"),
    "another kind": lambda document: document.update(kind="dpone.run_evidence.v0"),
    "another policy": lambda document: document.update(policy_snapshot_id="sha256:" + "0" * 64),
    "another plan": lambda document: document["plan"].update(process="x"),
    "no facts": lambda document: document.pop("outcome"),
    "no state": lambda document: document["outcome"].pop("target_state"),
    "an unknown state": lambda document: document["outcome"].update(target_state="fine"),
    "no gates": lambda document: document["outcome"]["gates"].pop("failed"),
    "a count that is none": lambda document: document["outcome"]["acceptance"].update(sides=True),
    "no load id": lambda document: document.pop("load_id"),
    "no time": lambda document: document["report"]["result"]["details"].update(finished_at="yesterday"),
    "a plan of ranges": lambda document: document["outcome"].update(transfer_plan="sha256:" + "0" * 64),
}


@pytest.mark.parametrize("change", DAMAGED.values(), ids=DAMAGED.keys())
def test_evidence_that_does_not_say_success_plainly_is_none(
    project: Project, change: Callable[[dict[str, Any]], object]
) -> None:
    changed(project, change)
    assert extracted(project) == 4


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b" " * (17 << 20)])
def test_a_file_that_is_no_record_is_none(project: Project, content: bytes) -> None:
    record(project).write_bytes(content)
    assert extracted(project) == 4


def test_a_record_that_a_hook_left_beside_the_attempts_hides_no_success(project: Project) -> None:
    arguments = ("m.yaml", "--phase", "pre_hook", "--hook-id", "note", "--run-id", "r1")
    assert project.dpone("hooks", "execute", *arguments).exit_code == 0
    assert (record(project).parent.parent / "hooks").is_dir()
    assert extracted(project) == 3


def test_an_attempt_without_verdict_behind_the_success_counts_more(project: Project) -> None:
    """Somebody ran the same id again and was killed: what became of that is not in the evidence."""
    (record(project).parent.parent / "7ZZZZZZZZZZZZZZZZZZZZZZZZZ").mkdir()
    assert extracted(project) == 4


@pytest.mark.parametrize(
    ("number", "first", "rows"),
    [
        pytest.param(2, 1, 3, id="a retry of the scheduler tells what the lost try did"),
        pytest.param(2, 2, 4, id="a cleared task loads again"),
        pytest.param(3, 2, 4, id="a retry behind the clearing does not take the success before it"),
        pytest.param(2, 0, 4, id="the first try is not known"),
        pytest.param(2, -3, 4, id="retries were changed in between"),
        pytest.param(2, "none", 3, id="no scheduler"),
    ],
)
def test_a_task_that_a_person_cleared_loads_again(project: Project, number: int, first: int | str, rows: int) -> None:
    assert extracted(project, DPONE_TRY_NUMBER=str(number), DPONE_FIRST_TRY=str(first)) == rows


def test_a_first_try_that_is_no_number_is_refused(project: Project) -> None:
    project.environment["DPONE_FIRST_TRY"] = "two"
    assert code_of(project.execute("r1", once=True)) == "DPONE_FIRST_TRY_INVALID"


def test_a_failed_run_is_run_again(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.orders()
    project.written(flow(quality={"gates": [{"type": "min_rows", "side": "target", "threshold": 4}]}))
    assert not project.execute("r1", once=True).report.passed
    project.add_orders((4, "d", 40))
    assert extracted(project) == 4
