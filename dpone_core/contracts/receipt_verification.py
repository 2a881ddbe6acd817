"""Is this *the* receipt: of this step, run, map index, run-spec, bundle, policy and dpone version?

One judgment for the load step (hook receipts), the operator and the outcome gate. It detects mix-ups and stale
receipts, not forgery. Contract: AIR-15, AIR-27, AIR-28, AIR-29.
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
RECEIPT_NOT_SUCCEEDED: Final = ErrorCode("DPONE_RECEIPT_NOT_SUCCEEDED")

_ALWAYS: Final = ("dag_id", "dag_run_id", "map_index", "run_spec_fingerprint", "step_id", "kind")
_ONCE_KNOWN: Final = ("process", "pack_fingerprint", "policy_snapshot_id", "sql_hash")
_IF_EXPECTED: Final = ("transfer_plan",)
_PER_PROCESS: Final = ("process", "policy_snapshot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptExpectation:
    """What the receipt must say; ids as the scheduler gives them, `sql_hash` null where the step runs no SQL text.

    `transfer_plan` is what the receipt of the plan said, null where the step belongs to no plan or makes it.
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
    """Why a receipt is not accepted; `message` is one safe line."""

    code: ErrorCode
    message: str
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptExamination:
    """The receipt, present only if it is this step's own, and everything wrong with it."""

    receipt: StepReceipt | None
    problems: tuple[ReceiptProblem, ...]

    @property
    def is_accepted(self) -> bool:
        """The step's own receipt and it says succeeded."""
        return self.receipt is not None and not self.problems


def examine(value: object, expectation: ReceiptExpectation) -> ReceiptExamination:
    """Parse and verify an untrusted value (mapping, JSON text, None); never raises for what it holds."""
    if value is None or value in ("", "null"):
        problem = ReceiptProblem(code=RECEIPT_REQUIRED, message=f"step {expectation.step_id} left no receipt")
        return ReceiptExamination(receipt=None, problems=(problem,))
    try:
        receipt = parse_receipt(value)
    except ContractInvalidError as error:
        code = RECEIPT_VERSION_UNSUPPORTED if isinstance(error, ReceiptVersionError) else RECEIPT_INVALID
        problem = ReceiptProblem(code=code, message=error.message, field=error.path or None)
        return ReceiptExamination(receipt=None, problems=(problem,))
    problems = verify(receipt, expectation)
    is_own = all(problem.code == RECEIPT_NOT_SUCCEEDED for problem in problems)
    return ReceiptExamination(receipt=receipt if is_own else None, problems=problems)


def verify(receipt: StepReceipt, expectation: ReceiptExpectation) -> tuple[ReceiptProblem, ...]:
    """Every reason not to accept `receipt`, empty if there is none.

    A receipt that did not succeed may leave unknown (null) what it had not read yet, and a refusal, which nothing ever
    repeats, everything but its kind; a success may not. bundle_verify judges the whole bundle, so its process and
    policy may be null.
    """
    problems: list[ReceiptProblem] = []
    if _minor(receipt.dpone_version) != _minor(expectation.dpone_version):
        message = f"the receipt is of dpone {receipt.dpone_version}, expected {expectation.dpone_version}"
        problems.append(ReceiptProblem(code=RECEIPT_VERSION_UNSUPPORTED, message=message, field="dpone_version"))
    succeeded = receipt.status is StepStatus.SUCCEEDED
    expected = tuple(name for name in _IF_EXPECTED if getattr(expectation, name) is not None)
    for name in (*_ALWAYS, *_ONCE_KNOWN, *expected):
        if getattr(receipt, name) is None and _may_be_unknown(name, receipt):
            continue
        if not _same(name, receipt, expectation):
            problems.append(_mismatch(name))
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


def _same(name: str, receipt: StepReceipt, expectation: ReceiptExpectation) -> bool:
    expected = getattr(expectation, name)
    if name in ("dag_id", "dag_run_id"):
        expected = wire_id(expected)
    return bool(getattr(receipt, name) == expected)


def _mismatch(name: str) -> ReceiptProblem:
    message = f"the receipt belongs to another step or run: {name} differs"
    return ReceiptProblem(code=RECEIPT_MISMATCH, message=message, field=name)


def _minor(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])
