"""One gate, the snapshots it judges, and its verdict. Pure arithmetic in exact integers.

A missing measurement is never zero: it fails an error gate and warns on a warning gate. Declared-only types never
pass. Sources: S1 "Quality gates", design section 7, Facts 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Final, NewType

from dpone_core.model.outcome import count_or_none
from dpone_core.model.vocabulary import GateStatus, GateType, HashMode, Severity, Side, ToleranceMode

UnknownGateType = NewType("UnknownGateType", str)
MetricValue = int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityGate:
    """A fully normalised gate; fields that a type does not use keep the defaults its fingerprint states.

    `type` is an UnknownGateType only for a deprecated check of another provider under mode warn. `tolerance_value`
    is rows or percent by `tolerance_mode`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class QualitySideSnapshot:
    """What was measured on one side: rows of the judged scope and typed hashes, each None when unavailable.

    A count that is not a non-negative integer and a hash that is not text become None.
    """

    row_count: int | None = None
    full_hash: str | None = None
    sample_hash: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "row_count", count_or_none(self.row_count))
        for name in ("full_hash", "sample_hash"):
            value: object = getattr(self, name)
            object.__setattr__(self, name, value if isinstance(value, str) and value else None)

    def typed_hash(self, mode: HashMode) -> str | None:
        return self.full_hash if mode is HashMode.FULL else self.sample_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityGateResult:
    """Verdict of one gate. `metrics` may hold anything a caller put there; the report projects what leaves."""

    gate_id: str
    type: str
    status: GateStatus
    severity: Severity
    metrics: Mapping[str, object] = field(default_factory=dict)
    message: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))

    @property
    def is_blocking(self) -> bool:
        """Fail closed: anything that is neither passed nor of warning severity blocks."""
        return self.severity is not Severity.WARNING and self.status is not GateStatus.PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    holds: bool
    metrics: Mapping[str, MetricValue]


def judge(gate: QualityGate, *, source: QualitySideSnapshot, target: QualitySideSnapshot) -> QualityGateResult:
    """Passed when the gate's statement holds, else failed (severity error) or warning; skipped when not executable
    under severity warning."""
    evaluate = _EXECUTABLE.get(gate.type) if isinstance(gate.type, GateType) else None
    if evaluate is None:
        status = GateStatus.FAILED if gate.severity is Severity.ERROR else GateStatus.SKIPPED
        return _result(gate, status, {})
    verdict = evaluate(gate, source, target)
    if verdict.holds:
        return _result(gate, GateStatus.PASSED, verdict.metrics)
    status = GateStatus.FAILED if gate.severity is Severity.ERROR else GateStatus.WARNING
    return _result(gate, status, verdict.metrics)


def evaluated_rows(gate: QualityGate, *, source: QualitySideSnapshot, target: QualitySideSnapshot) -> int | None:
    """Rows of the gate's side that its verdict rests on (case H01): 0 for a gate that is not executed, None when they
    were not counted. A result has no place for it (its metrics are closed by type), so the step states it."""
    if gate.type not in _EXECUTABLE:
        return 0
    return source.row_count if gate.side is Side.SOURCE else target.row_count


def allowed_difference(gate: QualityGate, source_rows: int) -> int:
    """Whole rows: `floor(value)` or `floor(source_rows * pct / 100)`, exact in integers whatever the size."""
    numerator, denominator = Decimal(repr(gate.tolerance_value)).as_integer_ratio()
    if gate.tolerance_mode is ToleranceMode.ABSOLUTE:
        return numerator // denominator
    return source_rows * numerator // (denominator * 100)


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


_EXECUTABLE: Final[Mapping[GateType, Callable[[QualityGate, QualitySideSnapshot, QualitySideSnapshot], _Verdict]]] = {
    GateType.ROW_COUNT_RECONCILIATION: _row_count,
    GateType.MIN_ROWS: _min_rows,
    GateType.TYPED_HASH_RECONCILIATION: _typed_hash,
}


def _result(gate: QualityGate, status: GateStatus, metrics: Mapping[str, MetricValue]) -> QualityGateResult:
    message = "" if status is GateStatus.PASSED else f"quality_gate_{status.value}"
    return QualityGateResult(
        gate_id=gate.id, type=gate.type, status=status, severity=gate.severity, metrics=metrics, message=message
    )
