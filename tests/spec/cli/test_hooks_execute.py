"""`dpone hooks execute` plans or runs the hooks of one phase, once per run, and never shows their SQL.

Contract: HOOK-10, HOOK-11, HOOK-12, HOOK-13, HOOK-20.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from dpone_core.contracts.step_receipt import parse_receipt
from tests.spec.builders import Finished, Project, flow, hook, hooks, project_with_log

SECRET_SQL = "INSERT INTO log SELECT 'very private text'"


@pytest.fixture(name="project")
def three_hooks(tmp_path: Path) -> Project:
    project = project_with_log(tmp_path)
    first = hook("first", SECRET_SQL, kind="source_refresh", lineage={"inputs": ["a"], "outputs": ["b"]})
    second = hook("second", "INSERT INTO log VALUES ('second')", depends_on=["first"], retry_policy="default")
    project.written(flow(source__options=hooks(pre=[second, first], post=[hook("last", "DELETE FROM log")])))
    return project


def logged(project: Project) -> list[str]:
    with sqlite3.connect(project.root / "shop.sqlite") as connection:
        return [str(row[0]) for row in connection.execute("SELECT what FROM log ORDER BY rowid")]


def execute(project: Project, *arguments: str, phase: str = "pre_hook") -> Finished:
    receipt = project.root / "receipt.json"
    receipt.unlink(missing_ok=True)
    return project.dpone(
        *("hooks", "execute", "m.yaml", "--phase", phase, "--format", "json", "--receipt-path", str(receipt)),
        *arguments,
    )


def test_a_dry_run_shows_the_order_and_touches_nothing(project: Project) -> None:
    before = project.files()
    output = project.root / "plan.json"
    finished = project.dpone(
        *("hooks", "execute", "m.yaml", "--phase", "pre_hook", "--dry-run", "--format", "json"),
        *("--output", str(output)),
        environment={"DPONE_CONN_SHOP": ""},
    )
    assert finished.exit_code == 0
    document = finished.document
    assert (document["kind"], document["status"]) == ("dpone.hooks.execute.v1", "planned")
    assert [step["id"] for step in document["steps"]] == ["first", "second"]
    first = document["steps"][0]
    assert first["lineage"] == {"inputs": ["a"], "outputs": ["b"]}
    assert first["result"]["sql_hash"].startswith("sha256:")
    assert json.loads(output.read_text()) == document
    assert project.files() - before == {"plan.json"} and logged(project) == []


def test_a_phase_runs_in_dependency_order(project: Project) -> None:
    finished = execute(project, "--run-id", "r1")
    assert finished.exit_code == 0 and finished.document["status"] == "succeeded"
    assert logged(project) == ["very private text", "second"]
    receipt = parse_receipt(finished.receipt)
    assert (receipt.kind.value, receipt.status.value, receipt.sql_hash) == ("hook", "succeeded", None)


def test_one_hook_has_its_hash_in_its_receipt(project: Project) -> None:
    finished = execute(project, "--hook-id", "first", "--run-id", "r1")
    assert logged(project) == ["very private text"]
    receipt = parse_receipt(finished.receipt)
    assert receipt.sql_hash == finished.document["steps"][0]["result"]["sql_hash"]
    assert receipt.run_id == "r1" and receipt.target_state is None


def test_a_hook_that_succeeded_in_this_run_is_not_run_again(project: Project) -> None:
    execute(project, "--hook-id", "first", "--run-id", "r1")
    again = execute(project, "--hook-id", "first", "--run-id", "r1")
    assert again.exit_code == 0 and again.document["steps"][0]["status"] == "already_succeeded"
    assert logged(project) == ["very private text"]
    other = execute(project, "--hook-id", "first", "--run-id", "r2")
    assert other.document["steps"][0]["status"] == "succeeded" and len(logged(project)) == 2


def test_other_sql_under_the_same_id_is_another_hook(project: Project) -> None:
    execute(project, "--hook-id", "second", "--run-id", "r1")
    project.written(flow(source__options=hooks(pre=[hook("second", "INSERT INTO log VALUES ('changed')")])))
    assert execute(project, "--hook-id", "second", "--run-id", "r1").document["steps"][0]["status"] == "succeeded"
    assert logged(project) == ["second", "changed"]


def test_a_started_hook_without_success_is_refused_when_it_must_not_be_repeated(project: Project) -> None:
    once = hook("once", "INSERT INTO absent VALUES (1)", retry_policy="none")
    project.written(flow(source__options=hooks(pre=[once])))
    failed = execute(project, "--run-id", "r1")
    assert (failed.exit_code, failed.document["steps"][0]["error_message"]) == (1, "hook_failed")
    project.source("CREATE TABLE absent (id INTEGER)")
    refused = execute(project, "--run-id", "r1")
    assert (refused.exit_code, refused.document["steps"][0]["error_message"]) == (1, "hook_outcome_unknown")
    receipt = parse_receipt(refused.receipt)
    assert receipt.retry_classification is not None
    assert receipt.retry_classification.value == "operator_verification_required"
    assert execute(project, "--run-id", "r2").exit_code == 0


def test_a_repeatable_hook_is_repeated_after_a_failure(project: Project) -> None:
    again = hook("again", "INSERT INTO absent VALUES (1)", retry_policy="default")
    project.written(flow(source__options=hooks(pre=[again])))
    failed = execute(project, "--run-id", "r1")
    assert parse_receipt(failed.receipt).retry_classification is not None
    project.source("CREATE TABLE absent (id INTEGER)")
    assert execute(project, "--run-id", "r1").exit_code == 0


def test_a_hook_whose_connection_never_opened_was_never_started(project: Project) -> None:
    nowhere = {"DPONE_CONN_SHOP": f"sqlite:///{project.root / 'nothing.sqlite'}"}
    arguments = ("hooks", "execute", "m.yaml", "--phase", "pre_hook", "--hook-id", "first", "--run-id", "r1")
    assert project.dpone(*arguments, environment=nowhere).exit_code == 1
    assert project.dpone(*arguments).exit_code == 0
    assert logged(project) == ["very private text"]


def test_the_first_failure_ends_the_phase(project: Project) -> None:
    project.written(
        flow(source__options=hooks(pre=[hook("bad", "DELETE FROM absent"), hook("good", "DELETE FROM log")]))
    )
    steps = execute(project).document["steps"]
    assert [(step["id"], step["status"]) for step in steps] == [("bad", "failed")]


def test_sql_text_appears_nowhere(project: Project) -> None:
    finished = execute(project, "--run-id", "r1")
    written = "".join(path.read_text() for path in (project.root / "evidence").rglob("*") if path.is_file())
    for text in (finished.stdout, finished.stderr, json.dumps(finished.receipt), written):
        assert "very private text" not in text and "INSERT" not in text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--hook-id", "nobody"), "DPONE_HOOK_UNKNOWN"), (("--selector", "nobody"), "DPONE_SELECTOR_UNKNOWN")],
)
def test_what_does_not_exist_is_refused(project: Project, arguments: tuple[str, ...], code: str) -> None:
    finished = execute(project, *arguments)
    assert (finished.exit_code, finished.code) == (2, code) and logged(project) == []


def test_a_result_that_cannot_be_written_is_no_refusal_once_hooks_ran(project: Project) -> None:
    ran = execute(project, "--output", "/dev/null/x/out.json", "--run-id", "r1")
    assert ran.exit_code == 1 and logged(project) != []
    assert parse_receipt(ran.receipt).error_code == "DPONE_OUTPUT_NOT_WRITTEN"
    planned = execute(project, "--dry-run", "--output", "/dev/null/x/out.json")
    assert planned.exit_code == 2


def test_an_empty_phase_is_a_success_of_nothing(project: Project) -> None:
    project.written(flow())
    finished = execute(project)
    assert finished.exit_code == 0 and finished.document["steps"] == []
