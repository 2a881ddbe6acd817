"""Checks that a receipt is the expected one: of this step, run, map index, run-spec, bundle, policy and dpone version.

The load step (for hook receipts), the operator and the outcome gate all use this check. It detects mix-ups and receipts
of earlier runs, not forgery.
Contract: AIR-15, AIR-27, AIR-28, AIR-29.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dpone_core.contracts.step_receipt import (
    RECEIPT_INVALID,
    RECEIPT_VERSION_UNSUPPORTED,
    ReceiptVersionError,
    StepReceipt,
    parse_receipt,
    wire_id,
)
from dpone_core.contracts.wire import ContractInvalidError
from dpone_core.errors import ErrorCode
from dpone_core.model.vocabulary import StepKind, StepStatus

RECEIPT_REQUIRED: Final = ErrorCode("DPONE_RECEIPT_REQUIRED")
RECEIPT_MISMATCH: Final = ErrorCode("DPONE_RECEIPT_MISMATCH")
RUN_SPEC_CHANGED: Final = ErrorCode("DPONE_RUN_SPEC_CHANGED")
RECEIPT_NOT_SUCCEEDED: Final = ErrorCode("DPONE_RECEIPT_NOT_SUCCEEDED")

_ALWAYS: Final = ("dag_id", "dag_run_id", "map_index", "run_spec_fingerprint", "step_id", "kind")
_ONCE_KNOWN: Final = ("process", "pack_fingerprint", "policy_snapshot_id", "sql_hash")
_IF_EXPECTED: Final = ("transfer_plan",)
_OF_THE_RUN_SPEC: Final = frozenset({"run_spec_fingerprint", "pack_fingerprint", "policy_snapshot_id", "sql_hash"})
"""What differs in a receipt of the same step of the same run that another run-spec was deployed for meanwhile."""
_OLDEST_DPONE: Final = (0, 1)
"""Oldest major and minor version of the image whose receipts this dpone reads; a later one is read if it can be."""
_PER_PROCESS: Final = ("process", "policy_snapshot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptExpectation:
    """The values a receipt must have. Ids are as the scheduler gives them; `sql_hash` is None for a step without SQL.

    `transfer_plan` is the value in the receipt of the planning step; None for a step without a plan and for that step
    itself.
    """

    dag_id: str
    dag_run_id: str
    map_index: int
    run_spec_fingerprint: str
    pack_fingerprint: str
    policy_snapshot_id: str
    step_id: str
    kind: StepKind
    process: str
    sql_hash: str | None
    dpone_version: str
    transfer_plan: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptProblem:
    """One reason not to accept a receipt; `message` is one line that is safe to print."""

    code: ErrorCode
    message: str
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptExamination:
    """The receipt, None unless it is the expected step's own, and every reason not to accept it.

    `of_another_run_spec` is the receipt of the same step of the same run under another run-spec: it is not accepted,
    and what it says of the target is true.
    """

    receipt: StepReceipt | None
    problems: tuple[ReceiptProblem, ...]
    of_another_run_spec: StepReceipt | None = None

    @property
    def is_accepted(self) -> bool:
        """Whether the receipt is the step's own and its status is succeeded."""
        return self.receipt is not None and not self.problems


def examine(value: object, expectation: ReceiptExpectation) -> ReceiptExamination:
    """Parses and verifies an untrusted value (mapping, JSON text or None). Never raises, whatever the value holds."""
    if value is None or value in ("", "null"):
        problem = ReceiptProblem(
            code=RECEIPT_REQUIRED, message=f"expected a receipt of step {expectation.step_id}, found none"
        )
        return ReceiptExamination(receipt=None, problems=(problem,))
    try:
        receipt = parse_receipt(value)
    except ContractInvalidError as error:
        code = RECEIPT_VERSION_UNSUPPORTED if isinstance(error, ReceiptVersionError) else RECEIPT_INVALID
        problem = ReceiptProblem(code=code, message=error.message, field=error.path or None)
        return ReceiptExamination(receipt=None, problems=(problem,))
    problems = verify(receipt, expectation)
    codes = {problem.code for problem in problems} - {RECEIPT_NOT_SUCCEEDED}
    return ReceiptExamination(
        receipt=None if codes else receipt,
        problems=problems,
        of_another_run_spec=receipt if codes == {RUN_SPEC_CHANGED} else None,
    )


def verify(receipt: StepReceipt, expectation: ReceiptExpectation) -> tuple[ReceiptProblem, ...]:
    """Lists every reason not to accept `receipt`; empty when it is accepted.

    Fields that a step had not read before it failed may be null: of a failed step the process, pack, policy, SQL hash
    and plan; of a refused step everything but its kind. A succeeded receipt must state them all, except that
    bundle_verify checks the whole bundle and may leave process and policy null.
    """
    problems: list[ReceiptProblem] = []
    if not _is_read(receipt.dpone_version, expectation.dpone_version):
        message = f"dpone {expectation.dpone_version} does not read receipts of {receipt.dpone_version}"
        problems.append(ReceiptProblem(code=RECEIPT_VERSION_UNSUPPORTED, message=message, field="dpone_version"))
    succeeded = receipt.status is StepStatus.SUCCEEDED
    expected = tuple(name for name in _IF_EXPECTED if getattr(expectation, name) is not None)
    differing = [
        name
        for name in (*_ALWAYS, *_ONCE_KNOWN, *expected)
        if not (getattr(receipt, name) is None and _may_be_unknown(name, receipt))
        and not _matches_expectation(name, receipt, expectation)
    ]
    if "run_spec_fingerprint" in differing and _OF_THE_RUN_SPEC.issuperset(differing):
        message = (
            f"the step ran under run-spec {receipt.run_spec_fingerprint}, "
            f"the DAG now holds {expectation.run_spec_fingerprint}"
        )
        problems.append(ReceiptProblem(code=RUN_SPEC_CHANGED, message=message, field="run_spec_fingerprint"))
    else:
        problems.extend(map(_mismatch, differing))
    if not succeeded:
        message = f"step {expectation.step_id} {receipt.status.value}: {receipt.error_code}"
        problems.append(ReceiptProblem(code=RECEIPT_NOT_SUCCEEDED, message=message, field="status"))
    return tuple(problems)


def _may_be_unknown(name: str, receipt: StepReceipt) -> bool:
    if receipt.status is StepStatus.REFUSED:
        return True
    if receipt.status is StepStatus.SUCCEEDED:
        return receipt.kind is StepKind.BUNDLE_VERIFY and name in _PER_PROCESS
    return name in (*_ONCE_KNOWN, *_IF_EXPECTED)


def _matches_expectation(name: str, receipt: StepReceipt, expectation: ReceiptExpectation) -> bool:
    expected = getattr(expectation, name)
    if name in ("dag_id", "dag_run_id"):
        expected = wire_id(expected)
    return bool(getattr(receipt, name) == expected)


def _mismatch(name: str) -> ReceiptProblem:
    message = f"the receipt belongs to another step or run: {name} differs"
    return ReceiptProblem(code=RECEIPT_MISMATCH, message=message, field=name)


def _is_read(written_by: str, read_by: str) -> bool:
    """Whether the contract versions fit: one major version, and no older minor one than is declared."""
    written, own = _major_and_minor(written_by), _major_and_minor(read_by)
    return written[0] == own[0] and written >= _OLDEST_DPONE


def _major_and_minor(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)
