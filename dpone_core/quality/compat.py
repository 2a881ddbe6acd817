"""Deprecated `quality.mode` + `quality.checks` -> canonical gates; an adapter, not a second engine.

An id left out defaults to the canonical gate type, so that migrating a check to its gate keeps the fingerprint.
Source: S1 "The migration mapping is exact".
"""

from __future__ import annotations

from dpone_core.authoring.quality import MinRowsCheck, QualityMode, SourceTargetCountCheck, UnknownCheck
from dpone_core.model.vocabulary import GateType, Severity, Side, ToleranceMode
from dpone_core.quality.gates import QualityGate, UnknownGateType

CompatibilityCheck = MinRowsCheck | SourceTargetCountCheck | UnknownCheck


def gate_from_check(check: CompatibilityCheck, mode: QualityMode) -> QualityGate:
    """The one canonical gate of a check. An unknown check is always a warning gate that is skipped."""
    if isinstance(check, UnknownCheck):
        return QualityGate(id=check.name, type=UnknownGateType(check.type), severity=Severity.WARNING)
    severity = check.severity or (Severity.ERROR if mode is QualityMode.FAIL else Severity.WARNING)
    if isinstance(check, MinRowsCheck):
        return QualityGate(
            id=check.id,
            type=GateType.MIN_ROWS,
            severity=severity,
            side=Side(check.side),
            threshold=check.minimum_rows,
        )
    return QualityGate(
        id=check.id,
        type=GateType.ROW_COUNT_RECONCILIATION,
        severity=severity,
        tolerance_mode=ToleranceMode.PCT,
        tolerance_value=check.tolerance_pct,
    )
