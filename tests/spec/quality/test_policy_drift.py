"""The policy a run started with is the policy it ends with; a configuration that changed is drift (SNAP-03)."""

from __future__ import annotations

import pytest

from dpone_core.acceptance.policy import AcceptanceMetricConfigurationError
from dpone_core.model.problem import ManifestInvalidError
from dpone_core.model.vocabulary import Boundary, LoadPath
from dpone_core.quality.execution import ExecutionState, QualityGateExecution
from dpone_core.quality.receipt import QualityGateReceiptError
from dpone_core.quality.snapshot import QualityExecutionSnapshot, QualityPolicyDriftError
from tests.spec.quality.builders import MIN_ROWS, identity, load_config, rows


def authored() -> dict[str, object]:
    """A caller-owned mapping, as direct Python use passes it."""
    return {"gates": [dict(MIN_ROWS)], "acceptance": {"enabled": True, "mode": "required"}}


def empty_gates(quality: dict[str, object]) -> None:
    quality["gates"] = []


def emptied_in_place(quality: dict[str, object]) -> None:
    quality["gates"].clear()  # type: ignore[attr-defined]


def weaker_threshold(quality: dict[str, object]) -> None:
    quality["gates"][0]["threshold"] = 0  # type: ignore[index]


def acceptance_removed(quality: dict[str, object]) -> None:
    del quality["acceptance"]


def acceptance_weakened(quality: dict[str, object]) -> None:
    quality["acceptance"]["mode"] = "warn_only"  # type: ignore[index]


def malformed(quality: dict[str, object]) -> None:
    quality["gates"] = "none"


DRIFTS = [
    dict.clear,
    empty_gates,
    emptied_in_place,
    weaker_threshold,
    acceptance_removed,
    acceptance_weakened,
    malformed,
]


@pytest.mark.parametrize("drift", DRIFTS, ids=lambda drift: drift.__name__)
@pytest.mark.parametrize("stage", ["before staging", "before finalize", "before evidence", "before state"])
def test_drift_is_seen_at_every_boundary_and_ends_the_execution(drift: object, stage: str) -> None:
    quality = authored()
    config = load_config(quality)
    owner = QualityGateExecution(QualityExecutionSnapshot.from_load_config(config), identity())
    owner.select_path(LoadPath.STAGED)
    receipt = None
    owner.revalidate(config)
    if stage != "before staging":
        receipt = owner.evaluate(boundary=Boundary.PRE_COMMIT, source=rows(1), target=rows(1))
        owner.revalidate(config)
    if stage in ("before evidence", "before state"):
        owner.accept_payload(receipt)
        owner.revalidate(config)
    drift(quality)  # type: ignore[operator]
    with pytest.raises(QualityPolicyDriftError) as seen:
        owner.revalidate(config)
    assert seen.value.code == "DPONE_QUALITY_POLICY_DRIFT"
    assert seen.value.expected == owner.snapshot.policy_snapshot_id
    assert owner.state is ExecutionState.INVALID
    with pytest.raises(QualityGateReceiptError):
        owner.accept_state(receipt)


def test_drift_to_an_empty_policy_does_not_open_the_compatibility_path() -> None:
    quality = authored()
    config = load_config(quality)
    owner = QualityGateExecution(QualityExecutionSnapshot.from_load_config(config), identity())
    quality.clear()
    with pytest.raises(QualityGateReceiptError) as refused:
        owner.accept_payload(None)
    assert refused.value.code == "DPONE_QUALITY_GATE_RECEIPT_REQUIRED"


def test_a_rewritten_but_equal_policy_is_no_drift() -> None:
    quality = authored()
    config = load_config(quality)
    snapshot = QualityExecutionSnapshot.from_load_config(config)
    quality["gates"] = [{"threshold": 1, "type": "min_rows", "severity": "error", "id": "min_rows"}]
    snapshot.revalidate(config)


def test_a_malformed_policy_is_refused_before_a_run() -> None:
    with pytest.raises(ManifestInvalidError):
        QualityExecutionSnapshot.from_load_config(load_config({"gates": [{"type": "min_rows"}]}))
    with pytest.raises(AcceptanceMetricConfigurationError):
        QualityExecutionSnapshot.from_load_config(load_config({"acceptance": {"enabled": "yes"}}))
