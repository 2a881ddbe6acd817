"""Receipts and task states -> a verdict on the run; one step's end -> retry, stop or pass. Pure.

Fail closed: a run passes only if every step has a task that succeeded *and* its own receipt that says succeeded.
Source: design 12; kpo.md 3.1; cases A01, A06, A15, A21.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from textwrap import wrap
from typing import Final

from dpone_core.contracts.receipt_verification import (
    RECEIPT_NOT_SUCCEEDED,
    ReceiptExpectation,
    examine,
)
from dpone_core.contracts.run_spec import RunSpec, RunSpecStep
from dpone_core.contracts.step_receipt import RECEIPT_INVALID, StepReceipt
from dpone_core.errors import ErrorCode
from dpone_core.model.vocabulary import (
    RetryClassification,
    SourceState,
    StepKind,
    StepStatus,
    TargetState,
    WithoutReceipt,
)

VERDICT_SCHEMA: Final = "dpone.verdict.v1"
POD_EXIT: Final = ErrorCode("DPONE_POD_EXIT_NONZERO")
TASK_NOT_SUCCESSFUL: Final = ErrorCode("DPONE_TASK_NOT_SUCCESSFUL")
TASK_STATE_UNKNOWN: Final = ErrorCode("DPONE_TASK_STATE_UNKNOWN")

STEP_END_KEY: Final = "dpone_step_end"
"""XCom key under which an operator leaves exit code and receipt problem of a failed try."""

_LINE_CHARACTERS: Final = 86
_REFUSED_EXIT: Final = 2
_NOT_STARTED: Final = frozenset({"upstream_failed", "skipped", "removed"})


class RetryDecision(StrEnum):
    """What the operator does after one try."""

    PASS = "pass"
    RETRY = "retry"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContract:
    """What is known of a step while the DAG file is parsed; with the run's identity it becomes an expectation."""

    step_id: str
    kind: StepKind
    process: str
    run_spec_fingerprint: str
    pack_fingerprint: str
    policy_snapshot_id: str
    sql_hash: str | None
    without_receipt: WithoutReceipt
    dpone_version: str

    def expectation(self, *, dag_id: str, dag_run_id: str, map_index: int) -> ReceiptExpectation:
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
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnd:
    """What an operator saw of one try: the step's own receipt, the container's exit code, an interruption."""

    receipt: StepReceipt | None
    exit_code: int | None
    interrupted: bool = False


def decide_retry(end: StepEnd, contract: StepContract) -> RetryDecision:
    """Pass only on exit 0 with a succeeded receipt; otherwise retry only where a repeat is known to be safe."""
    receipt = end.receipt
    if end.exit_code == _REFUSED_EXIT:
        return RetryDecision.STOP
    if receipt is None:
        return RetryDecision.RETRY if contract.without_receipt is WithoutReceipt.RETRY else RetryDecision.STOP
    if receipt.status is StepStatus.SUCCEEDED:
        if end.exit_code == 0 and not end.interrupted:
            return RetryDecision.PASS
        return RetryDecision.RETRY if contract.kind is StepKind.BUNDLE_VERIFY else RetryDecision.STOP
    if receipt.status is StepStatus.REFUSED:
        return RetryDecision.STOP
    if receipt.retry_classification is not None:
        safe = receipt.retry_classification.allows_automatic_retry
        return RetryDecision.RETRY if safe else RetryDecision.STOP
    return RetryDecision.RETRY if contract.kind is StepKind.BUNDLE_VERIFY else RetryDecision.STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class StepObservation:
    """One step as the gate sees it: raw XCom value (untrusted), task state, exit code and problem from the operator."""

    contract: StepContract
    expectation: ReceiptExpectation
    received: object
    task_state: str | None
    exit_code: int | None = None
    operator_problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepVerdict:
    """`code` is None exactly when the step passed; `also` names secondary findings."""

    step_id: str
    code: str | None
    reason: str
    task_state: str | None
    receipt: StepReceipt | None
    also: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.code is None

    @property
    def never_started(self) -> bool:
        return self.task_state in _NOT_STARTED and self.receipt is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgment on one run of one run-spec; `primary` is the first failing step in run-spec order."""

    process: str
    dag_run_id: str
    run_spec_fingerprint: str
    steps: tuple[StepVerdict, ...]
    primary: StepVerdict | None
    load: StepReceipt | None

    @property
    def passed(self) -> bool:
        return bool(self.steps) and all(step.passed for step in self.steps)

    def mapping(self) -> dict[str, object]:
        """The XCom value: flat, bounded, safe to print."""
        load = self.load
        return {
            "schema": VERDICT_SCHEMA,
            "passed": self.passed,
            "process": self.process,
            "dag_run_id": self.dag_run_id,
            "run_spec_fingerprint": self.run_spec_fingerprint,
            "steps": len(self.steps),
            "steps_passed": sum(step.passed for step in self.steps),
            "primary_step": self.primary.step_id if self.primary else None,
            "primary_code": self.primary.code if self.primary else None,
            "target_state": load.target_state.value if load and load.target_state else None,
            "source_state": load.source_state.value if load and load.source_state else None,
            "retry_classification": self.retry_classification,
            "load_id": load.load_id if load else None,
            "final_rows": load.final_rows if load else None,
            "evidence_path": load.evidence_path if load else None,
            "advice": self.advice,
        }

    @property
    def retry_classification(self) -> str | None:
        """None on success; a run that failed around a succeeded step asks for a look before anything is repeated.

        Behind a committed load, what allows the repeat of a hook does not allow that of the run.
        """
        if self.passed or self.primary is None:
            return None
        found = _classification_of(self.primary.receipt)
        committed = self.load is not None and self.load.status is StepStatus.SUCCEEDED
        if committed and found.allows_automatic_retry:
            return RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION.value
        return found.value

    @property
    def advice(self) -> str:
        """One sentence for the person who has to decide, in the words of the Airflow UI."""
        primary = self.primary
        if self.passed or primary is None:
            return "nothing is left to do"
        if self.load is not None and self.load.status is StepStatus.SUCCEEDED:
            if primary.receipt is self.load:
                return "the load is committed: compare the evidence, mark its task as success, then clear the gate"
            return f"the load is committed: correct and clear {primary.step_id} and the gate, never the load's task"
        found = self.retry_classification
        return next(text for known, text in _ADVICE.items() if known == found)

    def summary(self) -> tuple[str, ...]:
        """Lines for the task log, short enough to be read there: headline, what is true and what to do, every step."""
        lines = [f"dpone gate {'PASSED' if self.passed else 'FAILED'}: process {self.process}, run {self.dag_run_id}"]
        if self.primary is not None:
            lines.append(f"primary cause: step {self.primary.step_id}: {self.primary.code}")
        lines.append(f"target: {_effect(self.load) if self.load else 'no receipt of the load tells'}")
        lines += wrap(f"what to do: {self.advice}", _LINE_CHARACTERS, subsequent_indent="  ")
        for step in self.steps:
            lines.append(f"step {step.step_id}: {step.code or 'passed'}, task {step.task_state}")
            if not step.passed:
                lines += wrap(step.reason, _LINE_CHARACTERS, initial_indent="  ", subsequent_indent="  ")
            if step.also:
                lines.append(f"  also: {', '.join(step.also)}")
        return tuple(lines)


_ADVICE: Final = {
    RetryClassification.RETRY_BEFORE_TARGET_MUTATION: (
        "correct the cause, then clear the failed task and the gate; a retry repeats nothing in the target"
    ),
    RetryClassification.RETRY_VIA_NATIVE_RESUME: (
        "clear the failed task and the gate; a retry resumes without touching the target"
    ),
    RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION: (
        "a retry may write this load a second time: repair or deduplicate the target before any task is cleared"
    ),
    RetryClassification.OPERATOR_VERIFICATION_REQUIRED: (
        "clear no task before a person has compared target and evidence"
    ),
}


def judge(observations: tuple[StepObservation, ...]) -> Verdict:
    """The verdict on all steps, given in run-spec order; an empty run does not pass."""
    steps = tuple(_judge_step(item) for item in observations)
    failed = [step for step in steps if not step.passed]
    primary = next((step for step in failed if not step.never_started), failed[0] if failed else None)
    load = next(
        (step.receipt for step, item in zip(steps, observations, strict=True) if item.contract.kind is StepKind.LOAD),
        None,
    )
    first = observations[0]
    return Verdict(
        process=first.contract.process,
        dag_run_id=first.expectation.dag_run_id,
        run_spec_fingerprint=first.contract.run_spec_fingerprint,
        steps=steps,
        primary=primary,
        load=load,
    )


def _classification_of(receipt: StepReceipt | None) -> RetryClassification:
    """What the first failing step says of its own repeat."""
    if receipt is not None and receipt.retry_classification is not None:
        return receipt.retry_classification
    if receipt is not None and receipt.status is StepStatus.REFUSED:
        return RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    return RetryClassification.OPERATOR_VERIFICATION_REQUIRED


def _judge_step(seen: StepObservation) -> StepVerdict:
    examined = examine(seen.received, seen.expectation)
    receipt = examined.receipt
    findings: list[tuple[str, str]] = []
    if receipt is not None and receipt.status is not StepStatus.SUCCEEDED:
        findings.append((receipt.error_code or RECEIPT_INVALID, f"exit {receipt.exit_code}, {_effect(receipt)}"))
    if seen.exit_code:
        findings.append((POD_EXIT, f"the container ended with exit code {seen.exit_code}"))
    if receipt is None and seen.operator_problem:
        findings.append((seen.operator_problem, "the operator refused what the pod left"))
    findings.extend(
        (problem.code, problem.message) for problem in examined.problems if problem.code != RECEIPT_NOT_SUCCEEDED
    )
    if seen.task_state is None:
        findings.append((TASK_STATE_UNKNOWN, "the state of the task is not known"))
    elif seen.task_state != "success":
        truth = "task failed, but " + _effect(receipt) if receipt else "the task did not succeed"
        findings.append((TASK_NOT_SUCCESSFUL, truth))
    also = tuple(dict.fromkeys(code for code, _ in findings[1:] if code != findings[0][0]))
    code, reason = findings[0] if findings else (None, _effect(receipt) if receipt else "")
    return StepVerdict(
        step_id=seen.contract.step_id,
        code=code,
        reason=reason,
        task_state=seen.task_state,
        receipt=receipt,
        also=also,
    )


def _effect(receipt: StepReceipt) -> str:
    """What is true of the target and the source, in words an operator can act on."""
    if receipt.kind is not StepKind.LOAD:
        return f"step {receipt.status.value}"
    match receipt.target_state:
        case TargetState.MUTATION_RETURNED_SUCCESS:
            target = "load committed"
        case TargetState.NOT_MUTATED:
            target = "target not mutated"
        case _:
            target = "target state unknown"
    source = "source state advanced" if receipt.source_state is SourceState.ADVANCED else "source state not advanced"
    if receipt.source_state is SourceState.NOT_APPLICABLE:
        source = "no source state"
    rows = f", {receipt.final_rows} rows" if receipt.final_rows is not None else ""
    return f"{target}, {source}{rows}"
