"""What leaves a report is an allowlisted, bounded projection whatever a caller put in (EVID-01)."""

from __future__ import annotations

import json

import pytest

from dpone_core.model.fingerprint import sha256_text
from dpone_core.model.vocabulary import GateStatus, Severity
from dpone_core.quality.gates import QualityGateResult
from dpone_core.quality.report import QualityGateReport
from dpone_core.quality.runner import QualityGateRunner
from tests.spec.quality.builders import MIN_ROWS, TYPED_HASH, policy, rows

CANARY = "c4n4ry-s3cret"
HUGE = CANARY + "x" * 100 * 1024


def result(**fields: object) -> QualityGateResult:
    defaults: dict[str, object] = {
        "gate_id": "g",
        "type": "row_count_reconciliation",
        "status": GateStatus.FAILED,
        "severity": Severity.ERROR,
    }
    return QualityGateResult(**{**defaults, **fields})  # type: ignore[arg-type]


def projected(**fields: object) -> dict[str, object]:
    rendered = QualityGateReport((result(**fields),)).as_json()["results"]
    assert isinstance(rendered, list)
    first: dict[str, object] = rendered[0]
    return first


def test_the_published_failure_report_is_reproduced() -> None:
    metrics = {"source_row_count": 10, "target_row_count": 9, "difference": 1, "allowed_difference": 0}
    assert QualityGateReport((result(gate_id="source_target_rows", metrics=metrics),)).as_json() == {
        "kind": "dpone.data_quality.gates.v1",
        "passed": False,
        "results": [
            {
                "gate_id": "source_target_rows",
                "type": "row_count_reconciliation",
                "status": "failed",
                "severity": "error",
                "metrics": metrics,
                "message": "",
            }
        ],
    }


def test_a_bound_report_states_fingerprint_and_contract() -> None:
    gates = policy(MIN_ROWS)
    rendered = QualityGateRunner().run(gates, source=rows(1), target=rows(1)).as_json()
    assert rendered["policy_fingerprint"] == gates.policy_fingerprint
    assert rendered["gate_contract"] == [{"gate_id": "min_rows", "type": "min_rows", "severity": "error"}]


@pytest.mark.parametrize(
    "fields",
    [
        {"message": HUGE},
        {"message": {"row": CANARY}},
        {"metrics": {"password": CANARY, "rows": [CANARY]}},
        {"metrics": {"source_row_count": HUGE}},
        {"metrics": {"difference": {"deep": {"er": [CANARY] * 1000}}}},
        {"metrics": {CANARY: 1}},
        {"gate_id": HUGE},
        {"gate_id": f"{CANARY} with blanks"},
        {"type": f"{CANARY} type"},
        {"type": "min_rows", "metrics": {"side": CANARY, "row_count": CANARY}},
        {"type": "typed_hash_reconciliation", "metrics": {"mode": CANARY, "source_hash": HUGE}},
        {"type": "typed_hash_reconciliation", "metrics": {"source_hash": CANARY}},
        {"type": "not_null", "metrics": {"row_count": CANARY}},
        {"status": CANARY},
        {"severity": CANARY},
    ],
)
def test_secrets_and_nested_diagnostics_never_leave(fields: dict[str, object]) -> None:
    text = json.dumps(projected(**fields))
    assert CANARY not in text
    assert len(text) < 512


@pytest.mark.parametrize("value", [True, -1, -0.5, float("inf"), float("nan"), 2**64, "1", [1]])
def test_a_count_that_is_not_a_bounded_number_is_dropped(value: object) -> None:
    assert projected(metrics={"difference": value})["metrics"] == {}


@pytest.mark.parametrize("value", [0, 5, None])
def test_zero_and_unknown_stay_apart(value: object) -> None:
    assert projected(metrics={"difference": value})["metrics"] == {"difference": value}


def test_a_typed_hash_leaves_as_a_digest_only() -> None:
    digest = sha256_text("x")
    metrics = {"source_hash": "raw", "target_hash": digest, "mode": "full"}
    assert projected(type="typed_hash_reconciliation", metrics=metrics)["metrics"] == {
        "source_hash": sha256_text("raw"),
        "target_hash": digest,
        "mode": "full",
    }


def test_an_oversized_hash_is_dropped_and_not_hashed() -> None:
    metrics = {"source_hash": "x" * 4096, "target_hash": "x" * 4097}
    assert list(projected(type="typed_hash_reconciliation", metrics=metrics)["metrics"]) == ["source_hash"]  # type: ignore[call-overload]


def test_the_runner_itself_emits_hash_digests() -> None:
    rendered = QualityGateRunner().run(policy(TYPED_HASH), source=rows(1, full_hash=CANARY), target=rows(1)).as_json()
    assert CANARY not in json.dumps(rendered)


def test_unsafe_names_become_their_ordinal() -> None:
    report = QualityGateReport((result(), result(gate_id="é")))
    names = [entry["gate_id"] for entry in report.as_json()["results"]]  # type: ignore[attr-defined]
    assert names == ["g", "quality_gate_1"]


@pytest.mark.parametrize("status", list(GateStatus))
def test_a_free_message_becomes_a_stable_code(status: GateStatus) -> None:
    assert projected(status=status, message="free text")["message"] == f"quality_gate_{status.value}"


def test_an_unknown_status_reads_as_failed() -> None:
    assert projected(status="fine")["status"] == "failed"


@pytest.mark.parametrize("foreign", [None, {"status": "passed"}, "passed", object()])
def test_a_result_of_a_foreign_type_blocks(foreign: object) -> None:
    report = QualityGateReport((foreign,))  # type: ignore[arg-type]
    assert not report.passed
    assert report.as_json()["passed"] is False


def test_an_unsafe_contract_and_fingerprint_do_not_leave() -> None:
    report = QualityGateReport(
        (),
        policy_fingerprint=HUGE,
        gate_contract=({"gate_id": HUGE, "type": HUGE, "severity": HUGE, "sql": CANARY}, 5),  # type: ignore[arg-type]
    )
    assert CANARY not in json.dumps(report.as_json())
