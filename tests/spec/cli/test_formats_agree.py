"""Every format tells the same verdict on stdout, and one refusal is the same bytes every time."""

from __future__ import annotations

import pytest

from tests.spec.builders import Project, flow

GATE = {"type": "min_rows", "side": "target", "threshold": 9}


@pytest.mark.parametrize("form", ["text", "md", "json"])
def test_a_failed_gate_is_told_on_stdout_in_every_format_with_exit_1(project: Project, form: str) -> None:
    project.written(flow(quality={"gates": [GATE]}))
    finished = project.dpone("run", "m.yaml", "--format", form, "--progress", "none")
    assert finished.exit_code == 1
    assert "DPONE_QUALITY_GATES_FAILED" in finished.stdout
    assert finished.stderr == ""


@pytest.mark.parametrize("form", ["text", "md", "json"])
def test_a_refusal_is_the_same_bytes_every_time(project: Project, form: str) -> None:
    project.written(flow(sink__connection_ref="nobody_knows"))
    told = {project.dpone("run", "m.yaml", "--run-id", "r1", "--format", form).stdout for _ in range(2)}
    assert len(told) == 1 and "DPONE_CONNECTION_UNRESOLVED" in told.pop()
