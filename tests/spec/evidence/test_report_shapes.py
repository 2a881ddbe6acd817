"""What a run prints and keeps has the published shape; rates and decisions have theirs; audit answers its query.

Contract: CLI-08, FAIL-18, LIFE-16, LIFE-17, LIFE-18, LIFE-19.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dpone_core import api
from dpone_core.api import RunOptions
from dpone_core.errors import DponeError, ETLExecutionError
from dpone_core.evidence.outcome import RunReport
from dpone_core.evidence.throughput import run_throughput, step_throughput
from dpone_core.invocation import RunArguments
from dpone_core.manifest.resolve import load_manifest
from dpone_core.quality.failure import QualityGateFailure
from dpone_core.quality.gates import QualitySideSnapshot
from dpone_core.quality.policy import QualityGatePolicy, quality_section
from dpone_core.quality.runner import QualityGateRunner
from dpone_core.state.evidence_files import LocalEvidenceFiles
from dpone_core.use_cases.call import Call
from dpone_core.use_cases.run import RetryPolicy, RunOutcome, prepare_run
from tests.spec.builders import Project, append_flow, flow, outcome_of

GATE = {"id": "source_target_rows", "type": "row_count_reconciliation"}
REPORT_KEYS = [
    *("manifest", "process", "selector", "run_id", "passed", "result"),
    *("attempts", "max_attempts", "retry_backoff_seconds"),
]
RESULT_KEYS = {
    *("status", "inserted_rows", "updated_rows", "final_rows", "extracted_rows", "duration_seconds", "errors"),
    *("error_code", "quality_gates"),
}


def test_a_failed_gate_prints_the_keys_of_the_specification(project: Project) -> None:
    project.written(flow(quality={"gates": [{"type": "min_rows", "side": "target", "threshold": 9}]}))
    document = project.execute().report.as_json()
    assert list(document) == REPORT_KEYS
    result = document["result"]
    assert isinstance(result, dict)
    assert set(result) - {"failure_context", "details", "fix"} == RESULT_KEYS
    assert result["errors"] == ["DPONE_QUALITY_GATES_FAILED: quality gates failed"]
    assert result["quality_gates"]["kind"] == "dpone.data_quality.gates.v1"
    (gate,) = result["quality_gates"]["results"]
    assert {"gate_id", "type", "status", "severity", "metrics"} <= set(gate)
    assert document["attempts"] == 1 and result["extracted_rows"] == 3


def test_the_old_failure_constructor_makes_no_claim_about_a_load() -> None:
    """`QualityGateFailure(report)`: the zeros of the published example are its; it knows neither attempt nor target."""
    policy = QualityGatePolicy.from_section(quality_section({"gates": [GATE]}))
    report = QualityGateRunner().run(
        policy, source=QualitySideSnapshot(row_count=10), target=QualitySideSnapshot(row_count=9)
    )
    failure = QualityGateFailure(report)
    assert failure.outcome is None and failure.failure_context() is None
    (result,) = failure.report.as_json()["results"]  # type: ignore[attr-defined]
    assert result["metrics"] == {
        "source_row_count": 10,
        "target_row_count": 9,
        "difference": 1,
        "allowed_difference": 0,
    }
    assert (result["gate_id"], result["status"], result["severity"]) == ("source_target_rows", "failed", "error")


def test_python_callers_get_the_report_or_the_error_itself(project: Project) -> None:
    project.written(flow())
    report = api.run(project.root / "m.yaml", run_id="r1", environment=project.environment)
    assert isinstance(report, RunReport) and report.result is not None
    assert (report.process, report.run_id, report.result.inserted_rows) == ("orders", "r1", 3)
    assert report.as_json()["passed"] is True
    project.written(flow(source__table={"name": "absent"}))
    with pytest.raises(DponeError) as error:
        api.run(project.root / "m.yaml", environment=project.environment)
    assert error.value.code == "source_object_not_found"


def test_rates_are_counters_over_wall_clock() -> None:
    assert step_throughput({"rows": 10, "bytes": 1 << 20}, 2.0) == {
        "schema_version": "dpone.runtime.throughput.v1",
        "scope": "load_step",
        "duration_seconds": 2.0,
        "rate_type": "counter_over_wall_clock",
        "confidence": "measured",
        "row_count": 10,
        "row_count_source": "rows",
        "rows_per_second": 5.0,
        "byte_count": 1 << 20,
        "byte_count_source": "bytes",
        "bytes_per_second": 524288.0,
        "mib_per_second": 0.5,
    }
    rates = run_throughput({"loaded_rows": 0, "extracted_rows": 3}, 1.0)
    assert rates is not None and (rates["scope"], rates["row_count_source"]) == ("run", "extracted_rows")


@pytest.mark.parametrize("counters", [{}, {"rows": 0}, {"rows": None}, {"rows": True}, {"rows": -1}, {"rows": "3"}])
def test_nothing_counted_is_no_rate(counters: dict[str, object]) -> None:
    assert step_throughput(counters, 1.0) is None and step_throughput({"rows": 3}, 0.0) is None


def test_decisions_are_summarised_and_each_is_complete(project: Project) -> None:
    project.written(flow())
    details = project.execute().report.as_json()["result"]["details"]  # type: ignore[index]
    summary = details["runtime_decisions"]
    assert summary["schema_version"] == "dpone.runtime.decision_audit.v1"
    assert summary["total"] == len(summary["decisions"]) == sum(summary["by_release_gate"].values())
    assert set(summary["by_release_gate"]) == {"green", "warning", "blocked"}
    fields = {
        *("schema_version", "decision_id", "phase", "component", "category", "requested", "selected"),
        *("fallback_allowed", "fallback_reason", "release_gate", "warnings", "blockers", "details"),
    }
    assert all(fields <= set(decision) for decision in summary["decisions"])


def test_every_category_of_decision_is_told_taken_or_not(project: Project) -> None:
    """Which reader, which scan, which way into the sink, what is made before: none is passed over in silence."""
    project.written(flow())
    summary = project.execute().report.as_json()["result"]["details"]["runtime_decisions"]  # type: ignore[index]
    taken = {decision["category"] for decision in summary["decisions"]}
    not_taken = {each["category"]: each["reason"] for each in summary["not_taken"]}
    assert {"ingest_selection", "source_scan_mode"} <= taken
    assert set(not_taken) == {"native_acceleration", "export_optimizer", "source_materialization"}
    assert not taken & set(not_taken) and all(not_taken.values())


def test_audit_rows_are_the_steps_of_the_report(project: Project) -> None:
    project.written(append_flow())
    outcome = outcome_of(project.execute("r1"))
    rows = project.target(
        "SELECT step_id, phase, kind, status, error_message FROM etl_state.__dpone__load_steps WHERE run_id = 'r1'"
    )
    steps = [(s.step_id, s.phase, s.kind, s.status.value, s.error_code) for s in outcome.steps]
    assert sorted(map(str, rows)) == sorted(map(str, steps))
    assert project.target("SELECT status, extracted_rows, staged_rows, loaded_rows FROM etl_state.__dpone__loads") == [
        ("committed", 2, 2, 2)
    ]


S1_QUERY = """SELECT
    step_id,
    phase,
    status,
    JSONExtractFloat(JSONExtractRaw(details_json, 'throughput'), 'duration_seconds') AS seconds,
    JSONExtractFloat(JSONExtractRaw(details_json, 'throughput'), 'rows_per_second') AS rows_per_second,
    JSONExtractFloat(JSONExtractRaw(details_json, 'throughput'), 'mib_per_second') AS mib_per_second
FROM DWH_Tech.__dpone__load_steps FINAL
WHERE load_id = '<load_id>'
  AND JSONHas(details_json, 'throughput')
ORDER BY started_at;"""
ASK = """
import json, sys, clickhouse_connect
client = clickhouse_connect.get_client(interface="chdb", path=sys.argv[1])
print(json.dumps([list(row) for row in client.query(sys.argv[2]).result_rows]))
"""


def test_the_throughput_query_of_the_specification_runs_unchanged(project: Project) -> None:
    project.environment["DPONE_CONN_HOUSE"] = f"chdb:///{project.root / 'house'}"
    governance = {"load_governance": {"audit": {"state_schema": "ops"}}}
    project.written(flow(sink__type="clickhouse", sink__connection_ref="house", sink__options=governance))
    finished = project.run()
    assert finished.exit_code == 0
    query = S1_QUERY.replace("DWH_Tech", "ops").replace("<load_id>", finished.result["details"]["load_id"])
    answer = project.dpone(str(project.root / "house"), query.rstrip(";"), launcher=(sys.executable, "-c", ASK))
    rows = json.loads(answer.stdout)
    timed = ["source_exported", "staged", "quality_checked", "finalized", "cleanup"]
    assert sorted(row[0] for row in rows) == sorted(timed)
    assert all(status == "succeeded" and seconds > 0 and rate > 0 for _, _, status, seconds, rate, _ in rows)


@dataclass(slots=True)
class RefusingFiles:
    """Evidence files of which one name cannot be written."""

    root: Path
    refused: str
    written: list[str] = field(default_factory=list)

    def publish(self, relative_path: str, content: bytes) -> None:
        self.publish_together({relative_path: content})

    def publish_together(self, contents: Mapping[str, bytes]) -> None:
        names = [Path(path).name for path in contents]
        if self.refused in names:
            raise ETLExecutionError("refused", code="evidence_publication_failed")
        self.written += names
        LocalEvidenceFiles(root=self.root).publish_together(contents)

    def read(self, relative_path: str, limit_bytes: int) -> bytes | None:
        return None

    def names(self, relative_path: str) -> tuple[str, ...]:
        return LocalEvidenceFiles(root=self.root).names(relative_path)

    def remove(self, relative_path: str) -> None:
        LocalEvidenceFiles(root=self.root).remove(relative_path)


def run_with(project: Project, files: RefusingFiles) -> RunOutcome:
    """One real run whose evidence goes to `files`."""
    options = RunOptions(arguments=RunArguments(run_id="r1"), retry=RetryPolicy(retry_attempts=2))
    call = Call.of(options.arguments, project.environment, project.root, None)
    manifest = load_manifest(project.root / "m.yaml", project_root=project.root)
    (process,) = prepare_run(call, manifest, options).process_runs()
    return replace(process, runtime=replace(process.runtime, evidence=files)).run()


def test_the_files_of_a_verdict_appear_together_run_json_first(project: Project) -> None:
    project.written(append_flow())
    files = RefusingFiles(root=project.root / "evidence", refused="")
    assert run_with(project, files).report.passed
    assert files.written == ["load.json", "run.json", "report.md", "report.html"]


STATES = "SELECT cursor_value FROM etl_state.__dpone__cursor_state"


@pytest.mark.parametrize(
    ("refused", "state", "source_state"),
    [
        ("load.json", 0, "not_advanced"),
        ("report.md", 1, "advanced"),
        ("report.html", 1, "advanced"),
        ("run.json", 1, "advanced"),
    ],
)
def test_a_load_whose_evidence_is_missing_is_not_successful_and_says_what_is_true(
    project: Project, refused: str, state: int, source_state: str
) -> None:
    project.written(append_flow())
    outcome = run_with(project, RefusingFiles(root=project.root / "evidence", refused=refused))
    document: Any = outcome.report.as_json()
    assert outcome.report.exit_code == 1 and document["result"]["error_code"] == "evidence_publication_failed"
    assert document["attempts"] == 1, "the target holds the load: never again by itself"
    assert document["result"]["failure_context"] == {
        "failure_boundary": "post_commit",
        "target_state": "mutation_returned_success",
        "checkpoint_state": "not_applicable",
        "source_state": source_state,
        "retry_classification": "retry_may_repeat_target_mutation",
    }
    assert len(project.target()) == 2 and len(project.target(STATES) if state else []) == state


def test_a_failed_run_stays_what_it_was_when_its_evidence_is_refused_too(project: Project) -> None:
    project.written(flow(source__table={"name": "absent"}))
    outcome = run_with(project, RefusingFiles(root=project.root / "evidence", refused="run.json"))
    assert outcome.report.failure is not None and outcome.report.failure.code == "source_object_not_found"
    assert outcome.evidence is None
    assert outcome.report.outcome is not None and "evidence_not_published" in outcome.report.outcome.warnings
