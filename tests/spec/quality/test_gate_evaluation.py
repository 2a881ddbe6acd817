"""A gate's verdict is exact arithmetic over what was measured; what was not measured never passes (GATE-07)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_core.model.vocabulary import GateStatus, GateType, Severity, ToleranceMode
from dpone_core.quality.gates import (
    QualityGate,
    QualityGateResult,
    QualitySideSnapshot,
    allowed_difference,
    evaluate_gate,
)
from dpone_core.quality.policy import QualityGatePolicy, quality_section
from dpone_core.quality.runner import QualityGateRunner
from tests.spec.quality.builders import MIN_ROWS, ROW_COUNT, TYPED_HASH, policy, rows


def verdict(authored: dict[str, object], source: QualitySideSnapshot, target: QualitySideSnapshot) -> QualityGateResult:
    return evaluate_gate(policy(authored).gates[0], source=source, target=target)


def counted(tolerance: dict[str, object], source: int | None, target: int | None) -> QualityGateResult:
    return verdict({**ROW_COUNT, "tolerance": tolerance}, rows(source), rows(target))


@pytest.mark.parametrize(
    ("mode", "value", "source", "target", "passes"),
    [
        ("absolute", 0, 10, 10, True),
        ("absolute", 0, 0, 0, True),
        ("absolute", 0, 10, 9, False),
        ("absolute", 1, 10, 9, True),
        ("absolute", 1, 9, 10, True),
        ("absolute", 1.9, 10, 8, False),
        ("absolute", 0, 10_000_000, 9_999_999, False),
        ("pct", 0, 10_000_000, 9_999_999, False),
        ("pct", 5, 0, 0, True),
        ("pct", 5, 0, 5, False),
        ("pct", 5, 5, 0, False),
        ("pct", 50, 12, 10, True),
        ("pct", 10, 12, 10, False),
        ("pct", 0.1, 1000, 999, True),
        ("pct", 0.1, 999, 998, False),
        ("pct", 29, 100, 71, True),
        ("pct", 0.07, 10_000, 9_993, True),
    ],
)
def test_row_counts_reconcile_within_the_whole_row_tolerance(
    mode: str, value: float, source: int, target: int, passes: bool
) -> None:
    result = counted({"mode": mode, "value": value}, source, target)
    assert result.status is (GateStatus.PASSED if passes else GateStatus.FAILED)


def test_a_reconciliation_states_its_arithmetic() -> None:
    result = counted({"mode": "pct", "value": 10}, 12, 10)
    assert dict(result.metrics) == {
        "source_row_count": 12,
        "target_row_count": 10,
        "difference": 2,
        "allowed_difference": 1,
    }


@given(st.integers(0, 2**62), st.integers(0, 10_000))
def test_the_percent_formula_is_exact_at_any_size(source: int, hundredths: int) -> None:
    gate = QualityGate(
        id="g",
        type=GateType.ROW_COUNT_RECONCILIATION,
        tolerance_mode=ToleranceMode.PCT,
        tolerance_value=hundredths / 100,
    )
    assert allowed_difference(gate, source) == source * hundredths // 10_000


@pytest.mark.parametrize(("source", "target"), [(None, 0), (0, None), (None, None)])
def test_a_missing_row_count_is_not_zero(source: int | None, target: int | None) -> None:
    result = counted({"value": 0}, source, target)
    assert result.status is GateStatus.FAILED
    assert result.metrics["difference"] is None


@pytest.mark.parametrize("hostile", [False, True, -1, 1.0, "0", [0], {"row_count": 0}, 2**63])
def test_a_count_that_is_no_count_is_missing(hostile: object) -> None:
    snapshot = QualitySideSnapshot(row_count=hostile)  # type: ignore[arg-type]
    result = verdict({"type": "min_rows", "threshold": 0}, rows(0), snapshot)
    assert result.status is GateStatus.FAILED
    assert result.metrics["row_count"] is None


@pytest.mark.parametrize(
    ("threshold", "target", "passes"), [(0, 0, True), (1, 0, False), (1, 1, True), (0, None, False)]
)
def test_min_rows_decides_on_the_rows_that_are_there(threshold: int, target: int | None, passes: bool) -> None:
    result = verdict({"type": "min_rows", "threshold": threshold}, rows(None), rows(target))
    assert (result.status is GateStatus.PASSED) is passes
    assert dict(result.metrics) == {"row_count": target, "threshold": threshold, "side": "target"}


def test_min_rows_judges_the_side_it_names() -> None:
    assert verdict({**MIN_ROWS, "side": "source"}, rows(1), rows(0)).status is GateStatus.PASSED


@pytest.mark.parametrize(
    ("source", "target", "passes"),
    [("sha256:a", "sha256:a", True), ("sha256:a", "sha256:b", False), (None, None, False), ("sha256:a", None, False)],
)
def test_an_unavailable_typed_hash_never_passes(source: str | None, target: str | None, passes: bool) -> None:
    result = verdict(TYPED_HASH, QualitySideSnapshot(full_hash=source), QualitySideSnapshot(full_hash=target))
    assert (result.status is GateStatus.PASSED) is passes


def test_a_sample_gate_does_not_accept_full_hashes() -> None:
    side = QualitySideSnapshot(full_hash="h")
    assert verdict({**TYPED_HASH, "mode": "sample"}, side, side).status is GateStatus.FAILED


@pytest.mark.parametrize("authored", [{"sql": "select 1"}, {"sql_file": "a.sql"}])
def test_a_statement_that_was_not_judged_fails_under_error_and_warns_under_warning(authored: dict[str, object]) -> None:
    authored |= {"type": "custom_sql"}
    unjudged = verdict(authored, rows(1), rows(1))
    assert (unjudged.status, unjudged.message) == (GateStatus.FAILED, "not_executed")
    assert verdict({**authored, "severity": "warning"}, rows(1), rows(1)).status is GateStatus.WARNING


def test_an_unknown_warning_check_is_skipped_and_never_proof() -> None:
    section = quality_section({"mode": "warn", "checks": [{"type": "soda_scan"}]})
    report = QualityGateRunner().run(QualityGatePolicy.from_section(section), source=rows(1), target=rows(1))
    assert [result.status for result in report.results] == [GateStatus.SKIPPED]
    assert report.passed


@pytest.mark.parametrize("authored", [ROW_COUNT, MIN_ROWS, TYPED_HASH])
def test_warning_gates_report_and_do_not_block(authored: dict[str, object]) -> None:
    report = QualityGateRunner().run(policy({**authored, "severity": "warning"}), source=rows(None), target=rows(None))
    assert report.results[0].status is GateStatus.WARNING
    assert report.passed


def test_one_blocking_result_blocks_the_report() -> None:
    report = QualityGateRunner().run(policy(MIN_ROWS, ROW_COUNT), source=rows(2), target=rows(1))
    assert [result.status for result in report.results] == [GateStatus.PASSED, GateStatus.FAILED]
    assert not report.passed


@pytest.mark.parametrize("status", [GateStatus.SKIPPED, GateStatus.WARNING, "unheard_of"])
def test_an_error_result_that_is_not_passed_blocks(status: GateStatus) -> None:
    assert QualityGateResult(gate_id="g", type="min_rows", status=status, severity=Severity.ERROR).is_blocking
