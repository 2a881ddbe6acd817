"""One policy has one fingerprint: of its normalised gates in order, and of nothing else (RCPT-01)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpone_core.model.vocabulary import GateType, Severity, Side, ToleranceMode
from dpone_core.quality.gates import QualityGate
from dpone_core.quality.policy import QualityGatePolicy, quality_section
from dpone_core.quality.snapshot import QualityExecutionSnapshot
from tests.spec.quality.builders import MIN_ROWS, ROW_COUNT, load_config, policy

VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "policy_fingerprint.json").read_text())["vectors"]


def fingerprint_of(quality: object) -> str:
    return QualityGatePolicy.from_section(quality_section(quality)).policy_fingerprint


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_the_published_vectors_hold(vector: dict[str, object]) -> None:
    assert fingerprint_of(vector["quality"]) == vector["policy_fingerprint"]


def test_authored_defaults_and_explicit_defaults_are_one_policy() -> None:
    explicit = {**MIN_ROWS, "id": "min_rows", "severity": "error", "side": "target"}
    assert policy(MIN_ROWS).policy_fingerprint == policy(explicit).policy_fingerprint


@pytest.mark.parametrize("value", [0, 0.0, -0.0])
def test_a_zero_tolerance_is_one_policy_however_it_is_written(value: float) -> None:
    zero = {**ROW_COUNT, "tolerance": {"value": value}}
    assert policy(zero).policy_fingerprint == policy(ROW_COUNT).policy_fingerprint


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "other"},
        {"severity": "warning"},
        {"side": "source"},
        {"threshold": 2},
    ],
)
def test_every_normalised_field_is_part_of_the_fingerprint(changed: dict[str, object]) -> None:
    assert policy({**MIN_ROWS, **changed}).policy_fingerprint != policy(MIN_ROWS).policy_fingerprint


def test_gate_order_is_part_of_the_fingerprint() -> None:
    assert policy(MIN_ROWS, ROW_COUNT).policy_fingerprint != policy(ROW_COUNT, MIN_ROWS).policy_fingerprint


def test_sql_enters_as_its_hash_only() -> None:
    gate = policy({"type": "custom_sql", "sql": "select 'canary'"}).gates[0]
    assert gate.sql_sha256 is not None and gate.sql_sha256.startswith("sha256:")
    assert "canary" not in repr(gate)


def test_acceptance_is_not_part_of_the_gate_fingerprint() -> None:
    assert fingerprint_of({"acceptance": {"enabled": True}}) == fingerprint_of({})


def snapshot_id(acceptance: object) -> str:
    return QualityExecutionSnapshot.from_load_config(load_config({"acceptance": acceptance})).policy_snapshot_id


def test_acceptance_is_part_of_the_policy_snapshot() -> None:
    assert snapshot_id({"enabled": True}) != snapshot_id({"enabled": True, "mode": "required"})


@pytest.mark.parametrize("selection", [False, "off", "none"])
def test_every_word_for_no_column_is_one_policy(selection: object) -> None:
    assert snapshot_id({"enabled": True, "checks": {"null_counts": selection}}) == snapshot_id({"enabled": True})


def test_true_selects_all_columns() -> None:
    flag = snapshot_id({"enabled": True, "checks": {"null_counts": True}})
    assert flag == snapshot_id({"enabled": True, "checks": {"null_counts": "all_columns"}})


def test_an_absent_acceptance_policy_is_a_disabled_one() -> None:
    absent = QualityExecutionSnapshot.from_load_config(load_config({})).policy_snapshot_id
    assert absent == snapshot_id({"enabled": False})


def test_the_policy_snapshot_id_is_pinned() -> None:
    assert QualityExecutionSnapshot.from_load_config(load_config({})).policy_snapshot_id == (
        "sha256:20929e02ae447a8ce85944345df01d0c4e757a4d05f9f5383e8fa6c48df842c4"
    )


@pytest.mark.parametrize(
    ("quality", "gates"),
    [
        (
            {"mode": "fail", "checks": [{"id": "n", "type": "min_rows", "side": "source", "value": 3}]},
            [QualityGate(id="n", type=GateType.MIN_ROWS, side=Side.SOURCE, threshold=3)],
        ),
        (
            {"mode": "warn", "checks": [{"type": "source_target_count", "tolerance_pct": 0.5}]},
            [
                QualityGate(
                    id="row_count_reconciliation",
                    type=GateType.ROW_COUNT_RECONCILIATION,
                    severity=Severity.WARNING,
                    tolerance_mode=ToleranceMode.PCT,
                    tolerance_value=0.5,
                )
            ],
        ),
        (
            {"mode": "warn", "checks": [{"type": "min_rows", "threshold": 1, "severity": "error"}]},
            [QualityGate(id="min_rows", type=GateType.MIN_ROWS, threshold=1)],
        ),
    ],
)
def test_a_compatibility_check_maps_exactly_to_its_gate(quality: object, gates: list[QualityGate]) -> None:
    assert list(QualityGatePolicy.from_section(quality_section(quality)).gates) == gates


def test_migrating_a_check_keeps_the_fingerprint() -> None:
    check = {"mode": "fail", "checks": [{"type": "min_rows", "value": 1}]}
    assert fingerprint_of(check) == policy(MIN_ROWS).policy_fingerprint


def test_unknown_warning_checks_keep_their_place_after_the_gates() -> None:
    quality = {"mode": "warn", "gates": [MIN_ROWS], "checks": [{"type": "soda_scan", "path": "x"}]}
    gates = QualityGatePolicy.from_section(quality_section(quality)).gates
    assert [(gate.id, str(gate.type), gate.severity) for gate in gates] == [
        ("min_rows", "min_rows", Severity.ERROR),
        ("soda_scan", "soda_scan", Severity.WARNING),
    ]
