"""stdout carries one result and nothing else, stderr the log; a receipt is written for every exit, or the exit says so.

Contract: CLI-05, POD-03, EVID-08.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpone_core.contracts.step_receipt import MAX_RECEIPT_BYTES, parse_receipt, receipt_from_termination
from tests.spec.builders import Project, flow, project_with_orders


@pytest.fixture(name="project")
def orders_to_load(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path, flow())


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "m.yaml", "--format", "json"),
        ("run", "absent.yaml", "--format", "json"),
        ("run", "m.yaml", "--format=json", "--bogus"),
        ("run", "--format", "json"),
        ("plan", "m.yaml", "--format", "json"),
        ("plan", "absent.yaml", "--format", "json"),
        ("check", "m.yaml", "--format", "json"),
        ("check", "absent.yaml", "--format", "json"),
        ("hooks", "execute", "m.yaml", "--phase", "pre_hook", "--format", "json"),
        ("hooks", "execute", "m.yaml", "--phase", "pre_hook", "--hook-id", "none", "--format", "json"),
        ("report", "--run-id", "never", "--format", "json"),
        ("gitops", "verify", "--pack", "none.json", "--pack-fingerprint", "sha256:0", "--format", "json"),
    ],
    ids=" ".join,
)
def test_json_output_is_exactly_one_object_whatever_happens(project: Project, arguments: tuple[str, ...]) -> None:
    finished = project.dpone(*arguments)
    assert isinstance(json.loads(finished.stdout), dict)
    assert "Traceback" not in finished.stderr


def test_a_receipt_that_cannot_be_written_at_the_end_fails_the_step_and_leaves_stdout_alone(project: Project) -> None:
    """Its directory could be written when the run began; a hook makes a directory in its place."""
    taken = project.root / "receipt.json"
    process = project.start("run", "m.yaml", "--format", "json", "--receipt-path", str(taken))
    assert process.stderr is not None
    for line in process.stderr:
        if "phase=" in line:
            break
    taken.mkdir()
    (taken / "kept").touch()
    finished = project.finished(process)
    assert finished.exit_code == 1 and finished.document["passed"] is True
    assert "DPONE_RECEIPT_NOT_WRITTEN" in finished.stderr and "Traceback" not in finished.stderr


def test_evidence_that_cannot_be_written_any_more_fails_the_load_after_its_commit(project: Project) -> None:
    """The directory could be written when the run began; while rows flow, a file takes its place."""
    project.orders((number, "n", number) for number in range(50_000))
    process = project.start("run", "m.yaml", "--format", "json")
    assert process.stderr is not None
    for line in process.stderr:
        if "phase=extract" in line:
            break
    (project.root / "evidence").write_text("")
    finished = project.finished(process)
    assert (finished.exit_code, finished.code) == (1, "evidence_publication_failed")
    assert finished.result["failure_context"]["failure_boundary"] == "post_commit"
    assert finished.result["failure_context"]["target_state"] == "mutation_returned_success"
    assert project.target("SELECT count(*) FROM raw.orders") == [(50_000,)]


def test_no_path_of_this_machine_is_shown(project: Project) -> None:
    absolute = str(project.root / "m.yaml")
    finished = project.dpone("run", absolute, "--format", "json")
    assert finished.document["manifest"] == "m.yaml"
    assert str(project.root) not in finished.stdout + finished.stderr


def test_the_log_is_one_line_per_record_and_not_on_stdout(project: Project) -> None:
    finished = project.run()
    lines = finished.stderr.splitlines()
    assert lines and all(line[:2] == "20" and " INFO dpone " in line for line in lines)
    assert project.run("--progress", "none").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [(("run", "m.yaml"), 0), (("run", "absent.yaml"), 2), (("run", "m.yaml", "--bogus"), 2), (("run",), 2)],
)
def test_every_exit_leaves_a_receipt_and_the_same_code_in_the_termination_message(
    project: Project, arguments: tuple[str, ...], exit_code: int
) -> None:
    message = project.root / "termination-log"
    message.touch()
    environment = {
        "DPONE_TERMINATION_LOG": str(message),
        "DPONE_STEP_ID": "dpone_run_orders",
        "DPONE_DAG_ID": "orders",
        "DPONE_DAG_RUN_ID": "manual__2026-01-01",
        "DPONE_TRY_NUMBER": "2",
    }
    path = project.root / "deep" / "return.json"
    finished = project.dpone(*arguments, "--receipt-path", str(path), environment=environment)
    assert finished.exit_code == exit_code
    receipt = parse_receipt(finished.receipt)
    assert len(path.read_bytes()) <= MAX_RECEIPT_BYTES
    assert receipt.exit_code == exit_code
    assert (receipt.step_id, receipt.dag_id, receipt.dag_run_id) == ("dpone_run_orders", "orders", "manual__2026-01-01")
    assert receipt.try_number == 2
    told = message.read_text("ascii")
    assert receipt_from_termination(told) == receipt
    assert told.startswith("succeeded: " if exit_code == 0 else f"{receipt.error_code}: ")


def test_a_refusal_is_of_the_run_it_was_asked_for(project: Project) -> None:
    finished = project.run("--run-id", "mine", "--dag-id", "nightly", manifest="absent.yaml")
    assert finished.receipt is not None
    assert (finished.receipt["run_id"], finished.receipt["dag_id"]) == ("mine", "nightly")
    assert finished.document["run_id"] == "mine"


def test_report_shows_the_evidence_as_it_was_published(project: Project) -> None:
    finished = project.run("--run-id", "r1")
    assert finished.receipt is not None
    shown = project.dpone("report", "--run-id", "r1", "--format", "json")
    published = project.root / "evidence" / str(finished.receipt["evidence_path"])
    assert shown.document == json.loads(published.read_text())
    assert shown.document["report"] == finished.document
    markdown = project.dpone("report", "--process", "orders")
    assert markdown.stdout.startswith("# Load of `orders`: succeeded")
    assert project.dpone("report", "--run-id", "r2").exit_code == 2


@pytest.mark.parametrize("kind", ["dpone.flow.v1", "dpone.batch.v1"])
def test_schema_print_is_the_written_schema(project: Project, kind: str) -> None:
    finished = project.dpone("schema", "print", kind)
    assert finished.exit_code == 0 and "$schema" in finished.document
    assert project.dpone("schema", "print", "dpone.nothing.v1").exit_code == 2


def test_markdown_output_is_the_report_file(project: Project) -> None:
    finished = project.dpone("run", "m.yaml", "--format", "md")
    (published,) = project.root.rglob("report.md")
    assert finished.stdout.rstrip("\n") == published.read_text().rstrip("\n")
