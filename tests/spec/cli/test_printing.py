"""A print that fails is a note: receipt and verdict stand. What others wrote is printed so that nothing obeys it.

Contract: CLI-26, CLI-27, CLI-28.
"""

from __future__ import annotations

import json

import pytest

from dpone_core.contracts.step_receipt import parse_receipt
from tests.spec.builders import DPONE, Project, flow


def printed_to(project: Project, stdout: str, *arguments: str, environment: dict[str, str] | None = None) -> int:
    """The exit status of a command whose stdout is the file `stdout`, or a pipe nobody reads."""
    given = project.environment
    project.environment = {**given, **(environment or {})}
    process = project.start(*arguments, launcher=("bash", "-c", f'exec "$@" {stdout}', "bash", *DPONE))
    project.environment = given
    _, error = process.communicate(timeout=180)
    assert "Traceback" not in error and "Exception ignored" not in error, error
    return process.returncode


@pytest.mark.parametrize("stdout", [">/dev/full", pytest.param(">&-", marks=pytest.mark.slow)])
def test_a_committed_load_that_cannot_be_printed_is_a_success_with_its_receipt(project: Project, stdout: str) -> None:
    project.written(flow())
    receipt = project.root / "receipt.json"
    assert printed_to(project, stdout, "run", "m.yaml", "--receipt-path", str(receipt)) == 0
    assert parse_receipt(json.loads(receipt.read_text("ascii"))).status == "succeeded"
    assert len(project.target()) == 3


def test_a_reader_that_is_gone_changes_no_verdict(project: Project) -> None:
    project.written(flow(source__table={"name": "absent"}))
    receipt = project.root / "receipt.json"
    process = project.start("run", "m.yaml", "--format", "json", "--receipt-path", str(receipt))
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    assert process.wait(timeout=180) == 1
    assert "Traceback" not in error and "could not be written to stdout" in error
    assert json.loads(receipt.read_text("ascii"))["error_code"] == "source_object_not_found"


def test_a_document_that_was_to_be_printed_and_was_not_is_a_failure(project: Project) -> None:
    assert printed_to(project, ">/dev/full", "schema", "print", "dpone.flow.v1") == 1


@pytest.mark.parametrize("form", ["text", pytest.param("json", marks=pytest.mark.slow)])
def test_a_console_that_knows_no_such_letters_gets_escapes(project: Project, form: str) -> None:
    project.written(flow(source__table={"name": "заказы"}))
    environment = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    finished = project.dpone("plan", "m.yaml", "--format", form, environment=environment)
    assert finished.exit_code == 0 and finished.stdout.isascii()
    assert "\\u0437\\u0430\\u043a\\u0430\\u0437\\u044b" in finished.stdout
    if form == "json":
        assert "заказы" in json.dumps(finished.document, ensure_ascii=False)


def test_a_key_with_a_line_break_is_no_command_to_a_ci_system(project: Project) -> None:
    project.written('kind: dpone.flow.v1\nname: orders\n"a\\n::error ::b": 1\n')
    for command in (("check", "m.yaml"), ("run", "m.yaml"), ("check", "m.yaml", "--format", "github")):
        finished = project.dpone(*command)
        assert finished.exit_code == 2
        assert "a\\n::error ::b" in finished.stdout or "a%0A::error ::b" in finished.stdout
        commands = [line for line in finished.stdout.splitlines() if line.lstrip().startswith("::")]
        assert all(line.startswith("::error file=") for line in commands)
        assert bool(commands) == ("github" in command)


def test_an_unknown_level_of_the_log_and_an_empty_project_directory_are_refused(project: Project) -> None:
    project.written(flow())
    for arguments, environment in ((("run", "m.yaml"), {"DPONE_LOG_LEVEL": "nope"}), (("plan", "m.yaml"), {})):
        empty = () if environment else ("--project-dir", "")
        finished = project.dpone(*arguments, *empty, "--format", "json", environment=environment)
        assert (finished.exit_code, finished.code) == (2, "DPONE_USAGE")
    assert not (project.root / "dwh.duckdb").exists()
