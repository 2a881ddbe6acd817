"""QualityGateReceipt, the proof that the gates of a load were evaluated, and the check of its content.

A matching content does not suffice: QualityGateExecution also requires the very object it issued. Contract: RCPT-07,
RCPT-09, RCPT-10, RCPT-24.
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
    """The load has no valid proof that its gates were evaluated, so source state must not advance."""


class QualityGateReceiptRequiredError(QualityGateReceiptError):
    """The policy has gates, but there is no receipt, or one that names no policy."""

    code = "DPONE_QUALITY_GATE_RECEIPT_REQUIRED"


class QualityGateReceiptMismatchError(QualityGateReceiptError):
    """The receipt belongs to another policy, set of gates, load or execution."""

    code = "DPONE_QUALITY_GATE_RECEIPT_MISMATCH"


class QualityGateReceiptInvalidError(QualityGateReceiptError):
    """The receipt is malformed, belongs to another boundary, or is used out of order or twice."""

    code = "DPONE_QUALITY_GATE_RECEIPT_INVALID"


@dataclass(frozen=True, slots=True, eq=False)
class QualityGateReceipt:
    """The evaluation of the gates at one boundary. Compared by identity: a receipt with equal content is another one.

    QualityGateExecution sets the last three fields; receipts of the old constructor lack them.
    """

    report: QualityGateReport
    boundary: Boundary
    scope_summary: QualityScopeSummary | None = None
    policy_snapshot_id: str | None = None
    run_id: str | None = None
    load_id: str | None = None

    def as_json(self) -> dict[str, object]:
        """The receipt as evidence may show it. Use QualityGateExecution.evidence, which requires acceptance first."""
        return {
            "boundary": self.boundary.value,
            "policy_snapshot_id": self.policy_snapshot_id,
            "quality_gates": self.report.as_json(),
            "scope": None if self.scope_summary is None else self.scope_summary.as_json(),
        }


StagedQualityGateReceipt = QualityGateReceipt


def report_from_staged_quality_receipt(receipt: QualityGateReceipt) -> QualityGateReport:
    """The report of a receipt, for callers of the old API. Raises QualityGateReceiptInvalidError for anything else."""
    if not isinstance(receipt, QualityGateReceipt):
        raise QualityGateReceiptInvalidError("expected a QualityGateReceipt")
    return receipt.report


def is_inert(receipt: object) -> bool:
    """Whether it proves nothing: None, or a receipt without fingerprint and results. Accepted only without gates."""
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
    """Returns the receipt if it is well-formed and evaluates exactly the gates of `policy` at `boundary`.

    Raises one of the three receipt errors otherwise, and always when `boundary` is None (no load path selected).
    Whether the gates passed is not checked.
    """
    if receipt is None:
        raise QualityGateReceiptRequiredError(
            "the quality policy has gates, but the load has no receipt of their evaluation"
        )
    if not _is_well_typed(receipt):
        raise QualityGateReceiptInvalidError("the quality receipt has fields of unexpected types")
    report = receipt.report
    if report.policy_fingerprint is None:
        raise QualityGateReceiptRequiredError("the quality receipt does not name the policy that was evaluated")
    if report.kind != GATES_KIND or not is_fingerprint(report.policy_fingerprint):
        raise QualityGateReceiptInvalidError(
            "the report in the quality receipt has an unexpected kind or policy fingerprint"
        )
    if receipt.boundary is not boundary:
        raise QualityGateReceiptInvalidError(
            f"expected a quality receipt of boundary {boundary}, got one of {receipt.boundary}"
        )
    if report.policy_fingerprint != policy.policy_fingerprint:
        raise QualityGateReceiptMismatchError("the quality receipt belongs to another policy than that of this load")
    if report.gate_contract != policy.contract or _reported(report) != policy.contract:
        raise QualityGateReceiptMismatchError(
            "the results in the quality receipt are not those of the gates of this policy"
        )
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
