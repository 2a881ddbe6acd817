"""The published report of a failed gate, and beside it what a load of ours says of the same failure.

FAIL-21, FAIL-22: actual counters replace synthetic zeros, and the old constructor stays as it was.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpone_core.evidence.outcome import RunFacts, build_refusal_report
from dpone_core.model.vocabulary import GateStatus, GateType, Severity
from dpone_core.quality.failure import QualityGateFailure
from dpone_core.quality.gates import QualityGateResult
from dpone_core.quality.report import QualityGateReport
from tests.spec.builders import Project, flow

S1_EXAMPLE = """{
  "manifest": "orders.yaml",
  "process": "",
  "selector": "orders",
  "run_id": "orders-run",
  "passed": false,
  "result": {
    "status": "error",
    "inserted_rows": 0,
    "updated_rows": 0,
    "final_rows": 0,
    "extracted_rows": 0,
    "duration_seconds": 0.0,
    "errors": [
      "DPONE_QUALITY_GATES_FAILED: quality gates failed"
    ],
    "error_code": "DPONE_QUALITY_GATES_FAILED",
    "quality_gates": {
      "kind": "dpone.data_quality.gates.v1",
      "passed": false,
      "results": [
        {
          "gate_id": "source_target_rows",
          "type": "row_count_reconciliation",
          "status": "failed",
          "severity": "error",
          "metrics": {
            "source_row_count": 10,
            "target_row_count": 9,
            "difference": 1,
            "allowed_difference": 0
          },
          "message": ""
        }
      ]
    }
  },
  "attempts": 0,
  "max_attempts": 1,
  "retry_backoff_seconds": 0.0
}"""


def old_failure() -> QualityGateFailure:
    result = QualityGateResult(
        gate_id="source_target_rows",
        type=GateType.ROW_COUNT_RECONCILIATION,
        status=GateStatus.FAILED,
        severity=Severity.ERROR,
        metrics={"source_row_count": 10, "target_row_count": 9, "difference": 1, "allowed_difference": 0},
    )
    return QualityGateFailure(QualityGateReport((result,)))


def test_the_old_failure_is_the_example_of_the_specification_byte_for_byte() -> None:
    facts = RunFacts(manifest="orders.yaml", process="", selector="orders", run_id="orders-run")
    report = build_refusal_report(facts, old_failure())
    assert json.dumps(report.as_json(), indent=2) == S1_EXAMPLE
    assert report.exit_code == 1


@pytest.mark.parametrize(("sink", "boundary"), [("duckdb", "pre_commit"), ("files", "post_commit")])
def test_a_load_of_ours_says_the_same_with_its_real_counters_and_its_boundary(
    tmp_path: Path, sink: str, boundary: str
) -> None:
    project = Project(tmp_path)
    project.environment["DPONE_CONN_LAKE"] = f"file:///{tmp_path / 'lake'}"
    project.orders()
    gates = [{"id": "source_target_rows", "type": "min_rows", "side": "target", "threshold": 4}]
    ref = "lake" if sink == "files" else "dwh"
    project.written(flow(sink__type=sink, sink__connection_ref=ref, quality={"gates": gates}))
    finished = project.run("--run-id", "orders-run", "--selector", "orders")
    assert finished.exit_code == 1
    ours, example = finished.document, json.loads(S1_EXAMPLE)
    assert list(ours) == list(example)
    result: dict[str, Any] = ours["result"]
    assert set(result) - set(example["result"]) == {"failure_context", "details"}
    for name in ("status", "errors", "error_code"):
        assert result[name] == example["result"][name]
    committed = boundary == "post_commit"
    assert result["extracted_rows"] == 3 and result["inserted_rows"] == (3 if committed else 0)
    assert result["final_rows"] == (3 if committed else None) and result["updated_rows"] == 0
    assert ours["attempts"] == 1 and result["duration_seconds"] > 0
    assert result["failure_context"]["failure_boundary"] == boundary
    assert result["failure_context"]["target_state"] == ("mutation_returned_success" if committed else "not_mutated")
    (gate,) = result["quality_gates"]["results"]
    assert set(gate) == set(example["result"]["quality_gates"]["results"][0])


def test_evidence_of_a_judgment_says_on_how_many_rows_it_rests(tmp_path: Path) -> None:
    """GATE-18: a verdict on no rows shows that it had none, also one of a gate that was not executed."""
    project = Project(tmp_path)
    project.orders([])
    checks = [
        {"type": "source_target_count"},
        {"type": "min_rows", "threshold": 0},
        {"type": "schema_drift"},
    ]
    project.written(flow(quality={"mode": "warn", "checks": checks}))

    def judged() -> list[dict[str, Any]]:
        report: Any = project.execute().report.as_json()
        assert report["passed"]
        (step,) = [item for item in report["result"]["details"]["load_steps"] if item["step_id"] == "quality_checked"]
        return [dict(entry) for entry in step["details_json"]["evaluated_rows"]]

    types = ["row_count_reconciliation", "min_rows", "schema_drift"]
    assert judged() == [{"gate": n, "type": kind, "rows": 0} for n, kind in enumerate(types)]
    project.orders()
    assert [entry["rows"] for entry in judged()] == [3, 3, 0]
