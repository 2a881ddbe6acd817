"""Translates the deprecated `quality.mode` and `quality.checks` into gates. Evaluates nothing itself.

A check without an id gets the gate type as its id, so that rewriting the check as a gate keeps the policy fingerprint.
Contract: GATE-03, GATE-04, GATE-05.
"""

from __future__ import annotations

from dpone_core.authoring.quality import MinRowsCheck, QualityMode, SourceTargetCountCheck, UnknownCheck
from dpone_core.model.vocabulary import GateType, Severity, Side, ToleranceMode
from dpone_core.quality.gates import QualityGate, UnknownGateType

CompatibilityCheck = MinRowsCheck | SourceTargetCountCheck | UnknownCheck


def gate_from_check(check: CompatibilityCheck, mode: QualityMode) -> QualityGate:
    """The gate that is equivalent to a check. An unknown check becomes a gate of severity warning, which is skipped."""
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
