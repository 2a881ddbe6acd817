"""Evaluates one gate over the snapshots of source and target. Pure, in exact integers.

A missing measurement never counts as zero: it fails a gate of severity error and warns for severity warning. Gate types
that dpone cannot execute never pass. Contract: GATE-06, GATE-07, GATE-09, GATE-10, GATE-12.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Final, NewType

from dpone_core.model.column_rules import ColumnRule, FreshnessRule, RuleMeasure, columns_of
from dpone_core.model.outcome import count_or_none
from dpone_core.model.vocabulary import GateStatus, GateType, HashMode, Severity, Side, ToleranceMode

NOT_EXECUTED: Final = "not_executed"
ROWS_FAILED: Final = "rows_failed"
TOO_OLD: Final = "too_old"
NO_ROWS: Final = "no_rows"
RULE_MESSAGES: Final = (NOT_EXECUTED, ROWS_FAILED, TOO_OLD, NO_ROWS)
"""Why a rule about columns does not hold: it was not measured, rows break it, the newest is too old, there is none."""
UnknownGateType = NewType("UnknownGateType", str)
MetricValue = int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityGate:
    """One gate of a policy. Fields that its type does not use keep their defaults, which the fingerprint includes.

    `type` is an UnknownGateType only for a deprecated check of another provider under mode warn. `tolerance_value`
    is in rows or in percent, by `tolerance_mode`.
    """

    id: str
    type: GateType | UnknownGateType
    severity: Severity = Severity.ERROR
    side: Side = Side.TARGET
    threshold: int | None = None
    tolerance_mode: ToleranceMode = ToleranceMode.ABSOLUTE
    tolerance_value: float = 0.0
    hash_mode: HashMode = HashMode.FULL
    sql_sha256: str | None = None
    rule: ColumnRule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QualitySideSnapshot:
    """The measurements of one side: rows of the evaluated scope and typed hashes, each None when unavailable, and what
    the sink counted for the rules about columns, by the id of the gate.

    A count that is not a non-negative integer and a hash that is not text become None, and a measure that is none is
    left out.
    """

    row_count: int | None = None
    full_hash: str | None = None
    sample_hash: str | None = None
    rules: Mapping[str, RuleMeasure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "row_count", count_or_none(self.row_count))
        for name in ("full_hash", "sample_hash"):
            value: object = getattr(self, name)
            object.__setattr__(self, name, value if isinstance(value, str) and value else None)
        known = {name: found for name, found in self.rules.items() if isinstance(found, RuleMeasure)}
        object.__setattr__(self, "rules", MappingProxyType(known))

    def typed_hash(self, mode: HashMode) -> str | None:
        return self.full_hash if mode is HashMode.FULL else self.sample_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityGateResult:
    """The result of one gate. `metrics` may hold anything; the JSON of a report shows only what its type allows.

    `columns` are the ones that a rule looks at, () for other gates.
    """

    gate_id: str
    type: str
    status: GateStatus
    severity: Severity
    metrics: Mapping[str, object] = field(default_factory=dict)
    message: str = ""
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))

    @property
    def is_blocking(self) -> bool:
        """Whether the result stops the load: any status but passed, unless the severity is warning."""
        return self.severity is not Severity.WARNING and self.status is not GateStatus.PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """`reason` says why a gate does not hold, for types whose metrics alone do not say it."""

    holds: bool
    metrics: Mapping[str, MetricValue]
    reason: str | None = None


def evaluate_gate(gate: QualityGate, *, source: QualitySideSnapshot, target: QualitySideSnapshot) -> QualityGateResult:
    """The result of one gate: passed when its condition holds, else failed (severity error) or warning.

    A gate of a type that dpone cannot execute is failed under severity error and skipped under severity warning.
    """
    evaluate = _EXECUTABLE.get(gate.type) if isinstance(gate.type, GateType) else None
    if evaluate is None:
        status = GateStatus.FAILED if gate.severity is Severity.ERROR else GateStatus.SKIPPED
        return _result(gate, status, {})
    verdict = evaluate(gate, source, target)
    if verdict.holds:
        return _result(gate, GateStatus.PASSED, verdict.metrics)
    status = GateStatus.FAILED if gate.severity is Severity.ERROR else GateStatus.WARNING
    return _result(gate, status, verdict.metrics, verdict.reason)


def evaluated_rows(gate: QualityGate, *, source: QualitySideSnapshot, target: QualitySideSnapshot) -> int | None:
    """The number of rows a gate was evaluated over (GATE-18), of the source or the target by its side.

    0 for a gate that is not executed, None when the rows were not counted. The step shows it, because the metrics of a
    result are fixed by its type.
    """
    if gate.type not in _EXECUTABLE:
        return 0
    if gate.rule is not None:
        measure = target.rules.get(gate.id)
        return None if measure is None else measure.evaluated_rows
    return source.row_count if gate.side is Side.SOURCE else target.row_count


def allowed_difference(gate: QualityGate, rows: int) -> int:
    """The tolerance in whole rows: `floor(value)`, or `floor(rows * percent / 100)`, exact for any size."""
    numerator, denominator = Decimal(repr(gate.tolerance_value)).as_integer_ratio()
    if gate.tolerance_mode is ToleranceMode.ABSOLUTE:
        return numerator // denominator
    return rows * numerator // (denominator * 100)


def _row_count(gate: QualityGate, source: QualitySideSnapshot, target: QualitySideSnapshot) -> _Verdict:
    if source.row_count is None or target.row_count is None:
        unknown = {"source_row_count": source.row_count, "target_row_count": target.row_count}
        return _Verdict(holds=False, metrics={**unknown, "difference": None, "allowed_difference": None})
    difference = abs(source.row_count - target.row_count)
    allowed = allowed_difference(gate, source.row_count)
    return _Verdict(
        holds=difference <= allowed,
        metrics={
            "source_row_count": source.row_count,
            "target_row_count": target.row_count,
            "difference": difference,
            "allowed_difference": allowed,
        },
    )


def _min_rows(gate: QualityGate, source: QualitySideSnapshot, target: QualitySideSnapshot) -> _Verdict:
    rows = source.row_count if gate.side is Side.SOURCE else target.row_count
    return _Verdict(
        holds=rows is not None and gate.threshold is not None and rows >= gate.threshold,
        metrics={"row_count": rows, "threshold": gate.threshold, "side": gate.side.value},
    )


def _typed_hash(gate: QualityGate, source: QualitySideSnapshot, target: QualitySideSnapshot) -> _Verdict:
    ours = source.typed_hash(gate.hash_mode)
    theirs = target.typed_hash(gate.hash_mode)
    return _Verdict(
        holds=ours is not None and ours == theirs,
        metrics={"source_hash": ours, "target_hash": theirs, "mode": gate.hash_mode.value},
    )


def _rows_of_rule(gate: QualityGate, _source: QualitySideSnapshot, target: QualitySideSnapshot) -> _Verdict:
    """Rows that break a rule, within the tolerance. A load without rows breaks none."""
    measure = target.rules.get(gate.id)
    metrics = _rule_metrics(gate, measure)
    if measure is None or measure.evaluated_rows is None or measure.failed_rows is None:
        return _Verdict(holds=False, metrics=metrics, reason=NOT_EXECUTED)
    holds = measure.failed_rows <= allowed_difference(gate, measure.evaluated_rows)
    return _Verdict(holds=holds, metrics=metrics, reason=ROWS_FAILED)


def _freshness(gate: QualityGate, _source: QualitySideSnapshot, target: QualitySideSnapshot) -> _Verdict:
    """The age of the newest row. A load without rows, or with NULLs alone, is not fresh."""
    measure = target.rules.get(gate.id)
    metrics = _rule_metrics(gate, measure)
    if measure is None or measure.evaluated_rows is None or not isinstance(gate.rule, FreshnessRule):
        return _Verdict(holds=False, metrics=metrics, reason=NOT_EXECUTED)
    age = measure.newest_age_seconds
    if age is None:
        return _Verdict(holds=False, metrics=metrics, reason=NO_ROWS)
    return _Verdict(holds=age <= gate.rule.max_age_seconds, metrics=metrics, reason=TOO_OLD)


def _rule_metrics(gate: QualityGate, measure: RuleMeasure | None) -> dict[str, MetricValue]:
    names = RULE_METRICS[gate.type]
    return {name: None if measure is None else getattr(measure, name) for name in names}


RULE_METRICS: Final[Mapping[str, tuple[str, ...]]] = {
    GateType.NOT_NULL: ("evaluated_rows", "failed_rows"),
    GateType.UNIQUE: ("evaluated_rows", "failed_rows", "distinct_failed_keys"),
    GateType.ACCEPTED_VALUES: ("evaluated_rows", "failed_rows"),
    GateType.FRESHNESS: ("evaluated_rows", "newest_age_seconds"),
    GateType.CUSTOM_SQL: ("evaluated_rows", "failed_rows"),
}
"""What a report shows of each rule about columns: counts, never a value."""
_EXECUTABLE: Final[Mapping[GateType, Callable[[QualityGate, QualitySideSnapshot, QualitySideSnapshot], _Verdict]]] = {
    GateType.ROW_COUNT_RECONCILIATION: _row_count,
    GateType.MIN_ROWS: _min_rows,
    GateType.TYPED_HASH_RECONCILIATION: _typed_hash,
    GateType.NOT_NULL: _rows_of_rule,
    GateType.UNIQUE: _rows_of_rule,
    GateType.ACCEPTED_VALUES: _rows_of_rule,
    GateType.FRESHNESS: _freshness,
    GateType.CUSTOM_SQL: _rows_of_rule,
}


def _result(
    gate: QualityGate, status: GateStatus, metrics: Mapping[str, MetricValue], reason: str | None = None
) -> QualityGateResult:
    message = "" if status is GateStatus.PASSED else reason or f"quality_gate_{status.value}"
    return QualityGateResult(
        gate_id=gate.id,
        type=gate.type,
        status=status,
        severity=gate.severity,
        metrics=metrics,
        message=message,
        columns=() if gate.rule is None else columns_of(gate.rule),
    )
