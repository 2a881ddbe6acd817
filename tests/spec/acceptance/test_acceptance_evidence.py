"""What acceptance evidence of a real run names, measures and refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dpone_core.acceptance.policy import AcceptanceMetricConfigurationError
from dpone_core.errors import ConnectorError, ETLConfigurationError
from dpone_core.manifest.resolve import load_manifest
from dpone_core.ports.metrics import MetricRequest
from dpone_core.use_cases.plan import plan_process
from tests.spec.builders import Project, append_flow, flow, outcome_of
from tests.spec.lifecycle.harness import Attempt
from tests.spec.manifest.manifests import BATCH, codes_and_paths

CHECKS = {"row_count": True, "null_counts": "all_columns", "distinct_counts": "all_columns"}
REQUIRED = {"enabled": True, "mode": "required", "checks": CHECKS}
CANARY = "c4n4ry"
CURSOR = {"incremental": {"cursor_column": "id"}}


def snapshots_of(project: Project, **changes: object) -> dict[str, dict[str, object]]:
    """Acceptance snapshots by side, as the report of a successful run carries them."""
    project.written(flow(**{"quality": {"acceptance": REQUIRED}, **changes}))
    report = project.execute("r1").report.as_json()
    assert report["passed"] is True, report
    result = json.loads(json.dumps(report["result"]))
    metrics = result["details"]["reconciliation_metrics"]["acceptance_metrics"]
    assert metrics["kind"] == "dpone.acceptance.run_metrics.v1"
    return dict(metrics["snapshots"])


@pytest.mark.parametrize("sides", [("source", "staged", "target"), ("target",), ("source", "target")])
def test_the_report_carries_one_snapshot_for_each_requested_side_and_no_other(
    project: Project, sides: tuple[str, ...]
) -> None:
    capture = {side: side in sides for side in ("source", "staged", "target")}
    snapshots = snapshots_of(project, quality={"acceptance": {**REQUIRED, "capture": capture}})
    assert tuple(snapshots) == sides
    assert {snapshot["kind"] for snapshot in snapshots.values()} == {"dpone.acceptance.metric_snapshot.v1"}
    assert {snapshot["row_count"] for snapshot in snapshots.values()} == {3}


def test_lineage_columns_are_measured_on_no_side(project: Project) -> None:
    snapshots = snapshots_of(
        project,
        sink__strategy={"mode": "full_refresh", "unique_key": ["id"]},
        sink__options={"lineage": {"enabled": True, "preset": "standard"}},
    )
    assert project.target("SELECT count(DISTINCT __dpone__row_id) FROM raw.orders") == [(3,)]
    assert [snapshot["columns"] for snapshot in snapshots.values()] == [["id", "name", "updated_at"]] * 3
    assert "__dpone__" not in json.dumps([snapshot["null_counts"] for snapshot in snapshots.values()])


def test_a_source_query_is_named_by_its_hash_and_its_text_is_kept_nowhere(project: Project) -> None:
    query = {"sql": f"SELECT id, name FROM orders WHERE name <> '{CANARY}'"}
    snapshots = snapshots_of(project, source__table=None, source__options={"query": query})
    assert str(snapshots["source"]["dataset"]).startswith("sha256:")
    kept = [path.read_text() for path in (project.root / "evidence").rglob("*") if path.is_file()]
    steps = project.target("SELECT details_json FROM etl_state.__dpone__load_steps")
    assert kept and steps and CANARY not in "".join(kept) + str(steps)


def test_an_unknown_column_fails_a_required_run_before_the_target_exists(project: Project) -> None:
    acceptance = {**REQUIRED, "checks": {"null_counts": ["id", "ghost"]}}
    project.written(flow(quality={"acceptance": acceptance}))
    outcome = outcome_of(project.execute("r1"))
    assert outcome.failure is not None and outcome.failure.code == "source_acceptance_metric_unknown_columns"
    assert project.target("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'raw'") == [(0,)]


def test_an_unknown_column_is_a_warning_of_a_warn_only_run_that_loads(project: Project) -> None:
    acceptance = {**REQUIRED, "mode": "warn_only", "checks": {"null_counts": ["id", "ghost"]}}
    snapshots = snapshots_of(project, quality={"acceptance": acceptance})
    assert [snapshot["warnings"] for snapshot in snapshots.values()] == [["acceptance_metric_unknown_columns"]] * 3
    assert [snapshot["null_counts"] for snapshot in snapshots.values()] == [{"id": 0}] * 3
    assert len(project.target()) == 3


@pytest.mark.parametrize("place", ["source__options", "sink__options"])
def test_acceptance_below_source_or_sink_options_is_an_unknown_field(tmp_path: Path, place: str) -> None:
    path = place.replace("__", ".") + ".acceptance"
    found = codes_and_paths(tmp_path, flow(**{place: {"acceptance": REQUIRED}}))
    assert ("DPONE_MANIFEST_UNKNOWN_FIELD", path) in found


MALFORMED = [
    {"mode": "required"},
    {"enabled": "true"},
    {"enabled": True, "mode": "requird"},
    {"enabled": True, "modes": "required"},
    {"enabled": True, "capture": True},
    {"enabled": True, "capture": {"source": "yes"}},
    {"enabled": True, "capture": {"source": False, "staged": False, "target": False}},
    {"enabled": True, "checks": {"row_count": "exact"}},
    {"enabled": True, "checks": {"row_count": False}},
    {"enabled": True, "checks": {"null_counts": []}},
    {"enabled": True, "checks": {"null_counts": ["id", "id"]}},
    {"enabled": True, "checks": {"distinct_counts": "all"}},
    {"enabled": False, "mode": "requird"},
]


@pytest.mark.parametrize("acceptance", MALFORMED, ids=json.dumps)
def test_a_malformed_policy_gets_one_verdict_in_both_kinds_of_manifest(
    tmp_path: Path, acceptance: dict[str, object]
) -> None:
    def findings(manifest: dict[str, object]) -> list[tuple[str, str]]:
        found = codes_and_paths(tmp_path, manifest)
        return sorted((code, path[path.index("quality.") :]) for code, path in found)

    batch = {**yaml.safe_load(BATCH), "quality": {"acceptance": acceptance}}
    assert findings(flow(quality={"acceptance": acceptance})) == findings(batch) != []


@pytest.mark.parametrize(
    ("quality", "error"),
    [
        ({"acceptance": {"enabled": "yes"}}, AcceptanceMetricConfigurationError),
        ({"acceptance": {"enabled": True, "mode": "requird"}}, AcceptanceMetricConfigurationError),
        ({"gates": [{"type": "min_rows"}]}, ETLConfigurationError),
    ],
)
def test_direct_python_gets_the_verdict_before_anything_is_opened(
    project: Project, quality: dict[str, object], error: type[Exception]
) -> None:
    path = project.written(flow())
    (config,) = load_manifest(path, project_root=project.root).processes
    before = project.files()
    with pytest.raises(error):
        plan_process(replace(config, quality=quality))
    assert project.files() == before


def test_too_few_staged_rows_leave_the_published_rows_where_they_are(project: Project) -> None:
    project.orders((number, "n", number) for number in range(300))
    project.written(flow(quality={"gates": [{"type": "min_rows", "side": "target", "threshold": 300}]}))
    assert outcome_of(project.execute("r1")).passed
    project.orders([(1, "a", 10), (2, "b", 20)])
    outcome = outcome_of(project.execute("r2"))
    assert outcome.failure is not None and outcome.failure.code == "DPONE_QUALITY_GATES_FAILED"
    assert outcome.result.staged_rows == 2
    assert project.target("SELECT count(*) FROM raw.orders") == [(300,)]


class Silent:
    """A probe that does not answer."""

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        raise ConnectorError(f"{CANARY} cannot be asked", code="sink_query_failed")


@pytest.mark.parametrize("mode", ["warn_only", "required"])
def test_a_target_that_cannot_be_measured_stops_the_state_in_required_mode_only(tmp_path: Path, mode: str) -> None:
    capture = {"source": False, "staged": False, "target": True}
    quality = {"acceptance": {**REQUIRED, "mode": mode, "capture": capture}}
    attempt = Attempt(manifest=append_flow(source__options=CURSOR, quality=quality), directory=tmp_path)
    attempt.sink = replace(attempt.warehouse.ports(), metrics=Silent())
    outcome = attempt.ran().outcome
    assert attempt.target_ids() == [1, 2, 3]
    assert CANARY not in repr(attempt.warehouse.control_rows) + repr(attempt.files.published)
    if mode == "required":
        assert outcome.failure is not None and outcome.failure.code == "target_acceptance_metric_probe_failed"
        assert attempt.state() == []
    else:
        assert outcome.passed and len(attempt.state()) == 1
        assert outcome.result.acceptance_metrics is not None
        (snapshot,) = outcome.result.acceptance_metrics.snapshots
        assert (snapshot.warnings, snapshot.row_count) == (("acceptance_metric_probe_failed",), None)
        assert attempt.step("target_metrics_captured")["status"] == "warning"
