"""SQL that uses an interval token is refused before anything runs when this run has no value for it (MAN-24)."""

from __future__ import annotations

from pathlib import Path

from tests.spec.builders import Project, code_of, flow

QUERY = "SELECT id, name, updated_at FROM orders WHERE updated_at >= {{ data_interval_start }}"


def test_a_token_without_value_is_refused_before_anything_runs(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.orders()
    project.written(flow(source__table=None, source__options={"query": {"sql": QUERY}}))
    execution = project.execute()
    assert execution.refusal is not None and code_of(execution) == "DPONE_INTERVAL_VALUE_MISSING"
    assert execution.report.exit_code == 2 and not (tmp_path / "dwh.duckdb").exists()
