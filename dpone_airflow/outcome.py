"""What the DAG file knows of a step, and the decision after one try: pass, retry or stop. Pure.

A retry happens only where it is known to harm nothing. Contract: AIR-04, AIR-20, AIR-21, AIR-22, AIR-23.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dpone_core.contracts.receipt_verification import (
    RECEIPT_NOT_SUCCEEDED,
    RECEIPT_REQUIRED,
    ReceiptExpectation,
    ReceiptProblem,
)
from dpone_core.contracts.run_spec import RunSpec, RunSpecStep
from dpone_core.contracts.step_receipt import StepReceipt
from dpone_core.errors import ErrorCode
from dpone_core.model.repetition import Repetition
from dpone_core.model.vocabulary import StepKind, StepStatus, WithoutReceipt

STEP_END_KEY: Final = "dpone_step_end"
"""XCom key under which an operator leaves how a failed try ended: `StepEnd.wire`."""

POD_NOT_STARTED: Final = ErrorCode("DPONE_POD_NOT_STARTED")
RECEIPT_OUT_OF_ORDER: Final = ErrorCode("DPONE_RECEIPT_OUT_OF_ORDER")

LEAVES_THE_TARGET: Final = frozenset({StepKind.BUNDLE_VERIFY, StepKind.TRANSFER_PLAN, StepKind.TRANSFER_PARTITION})
"""Steps whose repeat changes neither source nor target."""

_REFUSED_EXIT: Final = 2


class RetryDecision(StrEnum):
    """What the operator does after one try."""

    PASS = "pass"
    RETRY = "retry"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContract:
    """What is known of a step while the DAG file is parsed; with the run's identity it becomes an expectation.

    `mapped_over` is the step whose plan says how many tasks this one becomes, None for a single task. `upstream` are
    the steps whose receipts it is given the digests of.
    """

    step_id: str
    kind: StepKind
    process: str
    run_spec_fingerprint: str
    pack_fingerprint: str
    policy_snapshot_id: str
    sql_hash: str | None
    without_receipt: WithoutReceipt
    dpone_version: str
    mapped_over: str | None = None
    upstream: tuple[str, ...] = ()

    def expectation(
        self, *, dag_id: str, dag_run_id: str, map_index: int, transfer_plan: str | None = None
    ) -> ReceiptExpectation:
        return ReceiptExpectation(
            dag_id=dag_id,
            dag_run_id=dag_run_id,
            map_index=map_index,
            run_spec_fingerprint=self.run_spec_fingerprint,
            pack_fingerprint=self.pack_fingerprint,
            policy_snapshot_id=self.policy_snapshot_id,
            step_id=self.step_id,
            kind=self.kind,
            process=self.process,
            sql_hash=self.sql_hash,
            dpone_version=self.dpone_version,
            transfer_plan=transfer_plan,
        )


def step_contract(spec: RunSpec, step: RunSpecStep, dpone_version: str) -> StepContract:
    return StepContract(
        step_id=step.step_id,
        kind=step.kind,
        process=spec.process,
        run_spec_fingerprint=spec.fingerprint,
        pack_fingerprint=spec.pack_fingerprint,
        policy_snapshot_id=spec.policy_snapshot_id,
        sql_hash=step.hook.sql_hash if step.hook else None,
        without_receipt=step.without_receipt,
        dpone_version=dpone_version,
        mapped_over=step.mapped_over,
        upstream=spec.upstream_of(step),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnd:
    """How one try ended: the step's own verified receipt, the container's exit code, whether it was interrupted.

    `problem` is why what was received is no receipt of this step. `not_started` is a word of Kubernetes where the
    container of this try is known to have never run; `tries_before` then says whether an earlier try may have.
    """

    receipt: StepReceipt | None
    exit_code: int | None
    interrupted: bool = False
    problem: ReceiptProblem | None = None
    not_started: str | None = None
    tries_before: bool = False

    def wire(self) -> dict[str, object]:
        """What the gate reads of it beside the receipt."""
        problem = self.problem.code if self.problem is not None and self.receipt is None else None
        return {
            "exit_code": self.exit_code,
            "receipt_problem": problem,
            "not_started": self.not_started,
            "tries_before": self.tries_before,
        }


def decide_retry(end: StepEnd, contract: StepContract) -> RetryDecision:
    """Pass only on exit 0 with a succeeded receipt; otherwise retry only where a repeat is known to be safe.

    A try whose container never ran is repeated whatever the step does.
    """
    receipt = end.receipt
    if end.not_started is not None and receipt is None and end.exit_code is None:
        return RetryDecision.RETRY
    if end.exit_code == _REFUSED_EXIT:
        return RetryDecision.STOP
    if receipt is None:
        return RetryDecision.RETRY if contract.without_receipt is WithoutReceipt.RETRY else RetryDecision.STOP
    if receipt.status is StepStatus.SUCCEEDED:
        if end.exit_code == 0 and not end.interrupted:
            return RetryDecision.PASS
        return RetryDecision.RETRY if contract.kind in LEAVES_THE_TARGET else RetryDecision.STOP
    if receipt.status is StepStatus.REFUSED:
        return RetryDecision.STOP
    if receipt.retry_classification is not None:
        safe = receipt.retry_classification.allows_automatic_retry or receipt.repetition is Repetition.NOTHING
        return RetryDecision.RETRY if safe else RetryDecision.STOP
    return RetryDecision.RETRY if contract.kind in LEAVES_THE_TARGET else RetryDecision.STOP


def failure_message(end: StepEnd, decision: RetryDecision, contract: StepContract) -> str:
    """One line for the person who looks at the failed task: what is known, and whether it is repeated."""
    parts: list[str] = []
    if end.interrupted:
        parts.append("the task was interrupted, its outcome is not proven")
    if end.exit_code:
        parts.append(f"exit code {end.exit_code}")
    receipt = end.receipt
    if receipt is not None and receipt.error_code is not None:
        classification = receipt.retry_classification
        parts.append(f"{receipt.error_code} ({classification.value if classification else 'unclassified'})")
    elif receipt is not None:
        parts.append("the receipt says succeeded")
    elif end.not_started is not None:
        parts.append(f"{POD_NOT_STARTED}: {end.not_started}: no container of this try ran")
    elif end.problem is not None and end.problem.code != RECEIPT_NOT_SUCCEEDED:
        parts.append(f"{end.problem.code}: {end.problem.message}")
    advice = "no automatic retry" if decision is RetryDecision.STOP else "it may be retried"
    return f"dpone step {contract.step_id}: {'; '.join(parts) or f'{RECEIPT_REQUIRED}: no receipt'}; {advice}"
