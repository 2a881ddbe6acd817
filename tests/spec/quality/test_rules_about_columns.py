"""Rules about columns: what they demand, when they hold, what their evidence shows, and which columns they refuse.

Contract: GATE-27, GATE-28, RCPT-03.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from dpone_core.model.column_rules import (
    AcceptedValuesRule,
    FreshnessRule,
    NotNullRule,
    RuleMeasure,
    UniqueRule,
    misfit_of,
    text_of_value,
)
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import GateStatus
from dpone_core.quality.gates import QualityGateResult, QualitySideSnapshot, evaluate_gate
from dpone_core.quality.report import QualityGateReport
from dpone_core.quality.runner import QualityGateRunner
from tests.spec.quality.builders import policy, rows

NOT_NULL: Final[dict[str, Any]] = {"type": "not_null", "columns": ["a"]}
UNIQUE: Final[dict[str, Any]] = {"type": "unique", "columns": ["a", "b"]}
ACCEPTED: Final[dict[str, Any]] = {"type": "accepted_values", "column": "a", "values": [1]}
FRESH: Final[dict[str, Any]] = {"type": "freshness", "column": "at", "max_age": "PT1H"}
ROW_RULES: Final = [NOT_NULL, UNIQUE, ACCEPTED]


def judged(authored: dict[str, Any], measure: object) -> QualityGateResult:
    gate = policy(authored).gates[0]
    target = QualitySideSnapshot(row_count=100, rules={} if measure is None else {gate.id: measure})  # type: ignore[dict-item]
    return evaluate_gate(gate, source=rows(100), target=target)


def counted(failed: object, evaluated: object = 100) -> RuleMeasure:
    return RuleMeasure(evaluated_rows=evaluated, failed_rows=failed)  # type: ignore[arg-type]


@pytest.mark.parametrize("authored", ROW_RULES)
def test_one_row_that_breaks_a_rule_fails_its_gate(authored: dict[str, Any]) -> None:
    assert judged(authored, counted(0)).status is GateStatus.PASSED
    assert judged(authored, counted(1)).status is GateStatus.FAILED
    assert judged({**authored, "severity": "warning"}, counted(1)).status is GateStatus.WARNING
    assert judged(authored, counted(0, 0)).status is GateStatus.PASSED


@pytest.mark.parametrize(
    ("tolerance", "failed", "evaluated", "passes"),
    [
        ({"value": 3}, 3, 100, True),
        ({"value": 3}, 4, 100, False),
        ({"mode": "pct", "value": 1}, 1, 199, True),
        ({"mode": "pct", "value": 1}, 2, 199, False),
        ({"mode": "pct", "value": 0.07}, 7, 10_000, True),
        ({"mode": "pct", "value": 50}, 1, 1, False),
    ],
)
@pytest.mark.parametrize("authored", ROW_RULES)
def test_the_tolerance_counts_whole_rows_of_those_that_were_judged(
    authored: dict[str, Any], tolerance: dict[str, Any], failed: int, evaluated: int, passes: bool
) -> None:
    result = judged({**authored, "tolerance": tolerance}, counted(failed, evaluated))
    assert result.status is (GateStatus.PASSED if passes else GateStatus.FAILED)


@pytest.mark.parametrize(
    "measure", [None, {"failed_rows": 0}, counted(None), counted(0, None), counted(-1), counted(True)]
)
@pytest.mark.parametrize("authored", ROW_RULES)
def test_what_was_not_measured_never_passes(authored: dict[str, Any], measure: object) -> None:
    result = judged(authored, measure)
    assert (result.status, result.message) == (GateStatus.FAILED, "not_executed")


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (RuleMeasure(evaluated_rows=5, newest_age_seconds=3600), ""),
        (RuleMeasure(evaluated_rows=5, newest_age_seconds=0), ""),
        (RuleMeasure(evaluated_rows=5, newest_age_seconds=3601), "too_old"),
        (RuleMeasure(evaluated_rows=0), "no_rows"),
        (RuleMeasure(evaluated_rows=5), "no_rows"),
        (RuleMeasure(evaluated_rows=None, newest_age_seconds=1), "not_executed"),
        (None, "not_executed"),
    ],
)
def test_a_load_is_fresh_by_its_newest_row(measure: RuleMeasure | None, message: str) -> None:
    result = judged(FRESH, measure)
    assert result.message == message
    assert result.status is (GateStatus.FAILED if message else GateStatus.PASSED)


def test_evidence_shows_counts_and_one_of_the_known_reasons() -> None:
    gates = policy(NOT_NULL, UNIQUE, ACCEPTED, FRESH)
    measured = RuleMeasure(evaluated_rows=9, failed_rows=4, distinct_failed_keys=2, newest_age_seconds=7200)
    target = QualitySideSnapshot(row_count=9, rules={gate.id: measured for gate in gates.gates})
    results = QualityGateRunner().run(gates, source=rows(9), target=target).as_json()["results"]
    assert isinstance(results, list)
    assert [(each["type"], each["metrics"], each["message"]) for each in results] == [
        ("not_null", {"evaluated_rows": 9, "failed_rows": 4}, "rows_failed"),
        ("unique", {"evaluated_rows": 9, "failed_rows": 4, "distinct_failed_keys": 2}, "rows_failed"),
        ("accepted_values", {"evaluated_rows": 9, "failed_rows": 4}, "rows_failed"),
        ("freshness", {"evaluated_rows": 9, "newest_age_seconds": 7200}, "too_old"),
    ]


def test_a_reason_of_a_callers_own_is_not_shown() -> None:
    made = QualityGateResult(
        gate_id="g",
        type="not_null",
        status=GateStatus.FAILED,
        severity="error",
        message="row 7 is bad",  # type: ignore[arg-type]
    )
    (shown,) = QualityGateReport((made,)).as_json()["results"]  # type: ignore[misc,attr-defined]
    assert shown["message"] == "quality_gate_failed"


def test_every_field_of_a_rule_is_in_the_fingerprint() -> None:
    variants: list[dict[str, Any]] = [
        NOT_NULL,
        {**NOT_NULL, "columns": ["a", "b"]},
        {**NOT_NULL, "tolerance": {"value": 1}},
        UNIQUE,
        {**UNIQUE, "within": "target"},
        {**UNIQUE, "columns": ["b", "a"]},
        ACCEPTED,
        {**ACCEPTED, "values": ["1"]},
        {**ACCEPTED, "values": [True]},
        {**ACCEPTED, "allow_null": True},
        FRESH,
        {**FRESH, "max_age": "PT2H"},
        {**FRESH, "reference": "now"},
        {**FRESH, "column": "b"},
    ]
    assert len({policy(each).policy_fingerprint for each in variants}) == len(variants)
    assert policy({**UNIQUE, "within": "load"}).policy_fingerprint == policy(UNIQUE).policy_fingerprint
    assert policy({**FRESH, "max_age": "PT60M"}).policy_fingerprint == policy(FRESH).policy_fingerprint


SCHEMA: Final = TableSchema(
    columns=tuple(
        Column(name=kind.value, type=ColumnType(kind=kind, precision=6, scale=2, fraction=3)) for kind in ColumnKind
    )
)


@pytest.mark.parametrize(
    ("rule", "column"),
    [
        (NotNullRule(columns=("int8", "nope")), "nope"),
        (UniqueRule(columns=("float64",)), "float64"),
        (FreshnessRule(column="string", max_age_seconds=1), "string"),
        (FreshnessRule(column="time", max_age_seconds=1), "time"),
        (AcceptedValuesRule(column="int8", values=(1, 128)), "int8"),
        (AcceptedValuesRule(column="int8", values=("1",)), "int8"),
        (AcceptedValuesRule(column="uint8", values=(-1,)), "uint8"),
        (AcceptedValuesRule(column="string", values=(1,)), "string"),
        (AcceptedValuesRule(column="decimal", values=("0.001",)), "decimal"),
        (AcceptedValuesRule(column="date", values=("2026-13-01",)), "date"),
        (AcceptedValuesRule(column="date", values=(20260101,)), "date"),
        (AcceptedValuesRule(column="timestamp_tz", values=("2026-01-01T00:00:00",)), "timestamp_tz"),
        (AcceptedValuesRule(column="boolean", values=("true",)), "boolean"),
        (AcceptedValuesRule(column="uuid", values=("x",)), "uuid"),
        (AcceptedValuesRule(column="binary", values=("x",)), "binary"),
        (AcceptedValuesRule(column="time", values=("10:00:00",)), "time"),
    ],
)
def test_a_rule_without_a_meaning_for_its_column_is_refused(rule: Any, column: str) -> None:
    misfit = misfit_of(rule, SCHEMA)
    assert misfit is not None and misfit[0] == column


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (127, ColumnKind.INT8, "127"),
        ("a b", ColumnKind.STRING, "a b"),
        (True, ColumnKind.BOOLEAN, "true"),
        (True, ColumnKind.INT8, None),
        (1.5, ColumnKind.DECIMAL, "1.5"),
        (1, ColumnKind.DECIMAL, "1"),
        ("2026-01-01", ColumnKind.DATE, "2026-01-01"),
        (0.1, ColumnKind.FLOAT32, None),
        (0.5, ColumnKind.FLOAT32, "0.5"),
    ],
)
def test_a_value_becomes_the_text_of_its_type_or_nothing(value: Any, kind: ColumnKind, text: str | None) -> None:
    assert text_of_value(value, ColumnType(kind=kind, precision=6, scale=2)) == text
