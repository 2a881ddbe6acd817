"""Where staging lives, what `audit.mode: off` stops, and that neither changes what is judged."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_core import api
from tests.spec.builders import Project, append_flow, flow, outcome_of

AUDIT = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE '%load%s' AND table_schema = 'etl_state'"


@pytest.mark.parametrize(("staging", "schema"), [(None, "raw"), ({"schema": "ops"}, "ops")])
@pytest.mark.parametrize("sink", ["duckdb", "clickhouse"])
def test_staging_stands_beside_the_target_unless_a_schema_is_given(
    project: Project, staging: dict[str, object] | None, schema: str, sink: str
) -> None:
    changes: dict[str, object] = {"sink__type": sink} | ({"sink__staging": staging} if staging else {})
    (plan,) = api.plan(project.written(flow(**changes)), project_dir=project.root, environment={})
    target: Any = dict(plan)["targets"][0]  # type: ignore[index]
    assert target["table"] == "raw.orders"
    assert target["staging"].startswith(f"{schema}.__dpone__stg_")


@pytest.mark.parametrize("governance", [{"audit": {"enabled": False}}, {"audit": {"mode": "off"}}, {"enabled": False}])
@pytest.mark.parametrize(("threshold", "passes"), [(3, True), (4, False)])
def test_audit_off_writes_no_audit_table_and_judges_as_before(
    project: Project, governance: dict[str, object], threshold: int, passes: bool
) -> None:
    gate = {"type": "min_rows", "side": "target", "threshold": threshold}
    options = {"load_governance": governance}
    project.written(flow(sink__options=options, quality={"gates": [gate]}))
    assert outcome_of(project.execute("r1")).passed is passes
    assert project.target(AUDIT) == [(0,)]


def test_audit_is_on_when_nothing_is_said(project: Project) -> None:
    project.written(flow())
    assert outcome_of(project.execute("r1")).passed
    assert project.target(AUDIT) == [(2,)]


@pytest.mark.parametrize("sink", ["duckdb", "clickhouse"])
@pytest.mark.parametrize("strategy", ["full_refresh", "incremental_append"])
def test_a_sink_with_staging_is_planned_pre_finalize_with_all_three_sides(
    project: Project, sink: str, strategy: str
) -> None:
    manifest = flow(sink__type=sink) if strategy == "full_refresh" else append_flow(sink__type=sink)
    (plan,) = api.plan(project.written(manifest), project_dir=project.root, environment={})
    route: Any = dict(plan)["route"]
    assert (route["load_path"], route["finalization_phase"]) == ("staged", "pre_finalize")
    assert route["physical_sides"] == ["source", "staged", "target"]
