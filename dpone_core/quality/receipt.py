"""The typed proof of a judgment, and what makes its content authoritative for a policy.

Content alone never suffices: QualityGateExecution also demands the very object it issued. Sources: S0
"Producer-owned quality receipt", "bind receipts to the evaluated gate policy".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from dpone_core.errors import ETLExecutionError
from dpone_core.model.fingerprint import is_fingerprint
from dpone_core.model.vocabulary import Boundary, GateStatus, Severity
from dpone_core.quality.gates import QualityGateResult
from dpone_core.quality.policy import GateContractEntry, QualityGatePolicy
from dpone_core.quality.report import GATES_KIND, QualityGateReport
from dpone_core.quality.scope import QualityScopeSummary

MAX_IDENTITY_CHARACTERS = 256


class QualityGateReceiptError(ETLExecutionError):
    """The load has no authoritative judgment; source state must not advance."""


class QualityGateReceiptRequiredError(QualityGateReceiptError):
    """A non-empty policy met no receipt, or one without binding."""

    code = "DPONE_QUALITY_GATE_RECEIPT_REQUIRED"


class QualityGateReceiptMismatchError(QualityGateReceiptError):
    """The receipt speaks of another policy, contract, result set, load or execution."""

    code = "DPONE_QUALITY_GATE_RECEIPT_MISMATCH"


class QualityGateReceiptInvalidError(QualityGateReceiptError):
    """The receipt is malformed, stands at the wrong boundary, or is used out of order or twice."""

    code = "DPONE_QUALITY_GATE_RECEIPT_INVALID"


@dataclass(frozen=True, slots=True, eq=False)
class QualityGateReceipt:
    """One judgment at one boundary. Compared by identity: an equal-looking receipt is another receipt.

    The last three fields are set by QualityGateExecution; a receipt without them is legacy and unbound.
    """

    report: QualityGateReport
    boundary: Boundary
    scope_summary: QualityScopeSummary | None = None
    policy_snapshot_id: str | None = None
    run_id: str | None = None
    load_id: str | None = None

    def as_json(self) -> dict[str, object]:
        """Safe evidence; ask QualityGateExecution.evidence for it, which answers only after acceptance."""
        return {
            "boundary": self.boundary.value,
            "policy_snapshot_id": self.policy_snapshot_id,
            "quality_gates": self.report.as_json(),
            "scope": None if self.scope_summary is None else self.scope_summary.as_json(),
        }


StagedQualityGateReceipt = QualityGateReceipt


def report_from_staged_quality_receipt(receipt: QualityGateReceipt) -> QualityGateReport:
    """Compatibility facade; raises QualityGateReceiptInvalidError for anything but a receipt."""
    if not isinstance(receipt, QualityGateReceipt):
        raise QualityGateReceiptInvalidError("not a quality gate receipt")
    return receipt.report


def is_inert(receipt: object) -> bool:
    """None, or a legacy unbound receipt without results: readable under an empty policy, authority for nothing."""
    if receipt is None:
        return True
    return (
        isinstance(receipt, QualityGateReceipt)
        and isinstance(receipt.report, QualityGateReport)
        and receipt.report.policy_fingerprint is None
        and receipt.report.gate_contract == ()
        and receipt.report.results == ()
        and receipt.policy_snapshot_id is None
    )


def verify_receipt(receipt: object, policy: QualityGatePolicy, boundary: Boundary | None) -> QualityGateReceipt:
    """The receipt, when its content is a well-formed judgment of exactly this policy at this boundary.

    `boundary` None means that no boundary is expected yet, so none fits. Raises one of the three receipt errors.
    Whether the judgment passed is not asked here.
    """
    if receipt is None:
        raise QualityGateReceiptRequiredError("the quality policy has no receipt")
    if not _is_well_typed(receipt):
        raise QualityGateReceiptInvalidError("the quality receipt is malformed")
    report = receipt.report
    if report.policy_fingerprint is None:
        raise QualityGateReceiptRequiredError("the quality receipt is not bound to a policy")
    if report.kind != GATES_KIND or not is_fingerprint(report.policy_fingerprint):
        raise QualityGateReceiptInvalidError("the quality report is malformed")
    if receipt.boundary is not boundary:
        raise QualityGateReceiptInvalidError("the quality receipt stands at another boundary")
    if report.policy_fingerprint != policy.policy_fingerprint:
        raise QualityGateReceiptMismatchError("the quality receipt judges another policy")
    if report.gate_contract != policy.contract or _reported(report) != policy.contract:
        raise QualityGateReceiptMismatchError("the quality receipt does not cover the policy")
    return receipt


def _is_well_typed(receipt: object) -> TypeGuard[QualityGateReceipt]:
    if not isinstance(receipt, QualityGateReceipt) or not isinstance(receipt.boundary, Boundary):
        return False
    scope: object = receipt.scope_summary
    if scope is not None and not isinstance(scope, QualityScopeSummary):
        return False
    if not _is_identity(receipt.run_id) or not _is_identity(receipt.load_id):
        return False
    report: object = receipt.report
    return isinstance(report, QualityGateReport) and all(_is_well_formed(result) for result in report.results)


def _is_identity(text: object) -> bool:
    return text is None or (isinstance(text, str) and 1 <= len(text) <= MAX_IDENTITY_CHARACTERS)


def _is_well_formed(result: object) -> bool:
    return (
        isinstance(result, QualityGateResult)
        and isinstance(result.status, GateStatus)
        and isinstance(result.severity, Severity)
        and isinstance(result.gate_id, str)
        and isinstance(result.type, str)
    )


def _reported(report: QualityGateReport) -> tuple[GateContractEntry, ...]:
    return tuple(
        GateContractEntry(gate_id=result.gate_id, type=str(result.type), severity=result.severity.value)
        for result in report.results
    )
