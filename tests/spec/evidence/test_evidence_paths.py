"""Where evidence lies is told in the words of who asked: an absolute directory is never printed.

Contract: EVID-09.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.use_cases.project import display_evidence_path
from tests.spec.builders import Project, flow, project_with_orders


@pytest.fixture(name="project")
def orders_in_a_private_directory(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path / "somewhere-private", flow())


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("output", ["text", "md", "json"])
def test_an_absolute_evidence_directory_is_printed_by_its_variable_only(
    project: Project, output: str, failing: bool
) -> None:
    if failing:
        project.source("DROP TABLE orders")
    finished = project.dpone("run", "m.yaml", "--run-id", "r1", "--format", output)
    assert finished.exit_code == (1 if failing else 0)
    assert "somewhere-private" not in finished.stdout + finished.stderr
    if output == "text":
        (line,) = [line.split()[1] for line in finished.stdout.splitlines() if line.strip().startswith("evidence")]
        assert line.startswith("$DPONE_EVIDENCE_DIR/runs/orders/r1-")
        assert Path(line.replace("$DPONE_EVIDENCE_DIR", project.environment["DPONE_EVIDENCE_DIR"])).is_file()


@pytest.mark.parametrize(("given", "shown"), [("proof", "proof/runs/orders/"), ("", ".dpone/runs/orders/")])
def test_a_relative_evidence_directory_is_printed_as_it_was_given(project: Project, given: str, shown: str) -> None:
    finished = project.dpone("run", "m.yaml", "--run-id", "r1", environment={"DPONE_EVIDENCE_DIR": given})
    assert finished.exit_code == 0 and f"evidence  {shown}r1-" in finished.stdout
    assert "somewhere-private" not in finished.stdout + finished.stderr


def test_only_a_relative_directory_is_shown_in_clear() -> None:
    assert (
        display_evidence_path({"DPONE_EVIDENCE_DIR": "/srv/x"}, "runs/a/run.json")
        == "$DPONE_EVIDENCE_DIR/runs/a/run.json"
    )
    assert display_evidence_path({"DPONE_EVIDENCE_DIR": "x"}, "runs/a/run.json") == "x/runs/a/run.json"
    assert display_evidence_path({}, "runs/a/run.json") == ".dpone/runs/a/run.json"
