"""Receipts and task states -> a verdict on the run. Pure.

Fail closed: a run passes only if every step has a task that succeeded *and* its own receipt that says succeeded; of a
mapped step, one for each partition of the plan whose own receipt was accepted, and no others.
Contract: AIR-03, AIR-05, AIR-10, AIR-12, AIR-15, AIR-16.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from dpone_airflow.mapping import FanOut, fan_out_of
from dpone_airflow.outcome import POD_NOT_STARTED, RECEIPT_OUT_OF_ORDER, StepContract
from dpone_airflow.verdict import StepVerdict, Verdict, effect
from dpone_core.contracts.receipt_verification import (
    RECEIPT_MISMATCH,
    RECEIPT_NOT_SUCCEEDED,
    ReceiptExpectation,
    examine,
)
from dpone_core.contracts.step_receipt import RECEIPT_INVALID, StepReceipt, upstream_fingerprint
from dpone_core.errors import ErrorCode
from dpone_core.model.vocabulary import StepKind, StepStatus, WithoutReceipt

POD_EXIT: Final = ErrorCode("DPONE_POD_EXIT_NONZERO")
TASK_NOT_SUCCESSFUL: Final = ErrorCode("DPONE_TASK_NOT_SUCCESSFUL")
TASK_STATE_UNKNOWN: Final = ErrorCode("DPONE_TASK_STATE_UNKNOWN")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepObservation:
    """What the gate reads of one task: the raw XCom value (untrusted), the task state, the end its operator recorded.

    `not_started` and `tries_before` are those of `StepEnd`. `is_surplus`: the task has a map index that the plan does
    not have.
    """

    contract: StepContract
    expectation: ReceiptExpectation
    received: object
    task_state: str | None
    exit_code: int | None = None
    operator_problem: str | None = None
    not_started: str | None = None
    tries_before: bool = False
    is_surplus: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskObservation:
    """What the gate reads of a task that runs in the worker and leaves no receipt: its state and its refusal code."""

    task: str
    task_state: str | None
    operator_problem: str | None = None


Observation = StepObservation | TaskObservation


def plan_of(seen: StepObservation) -> FanOut | None:
    """The fan-out that a plan step's receipt states; None unless that step passed without any finding."""
    judged = _judge_step(seen)
    return fan_out_of(judged.receipt) if judged.passed else None


def expected_indexes(plan: FanOut, found: Collection[int]) -> tuple[range, tuple[int, ...]]:
    """The indexes that must have a task with a receipt, and those found beyond them."""
    return range(plan.partitions), tuple(sorted(index for index in found if not 0 <= index < plan.partitions))


def is_skipped(observations: tuple[Observation, ...]) -> bool:
    """Whether something before the process skipped all of it: every task is skipped, and none left anything."""
    return all(
        seen.task_state == "skipped" and (isinstance(seen, TaskObservation) or (seen.received is None))
        for seen in observations
    )


def judge(observations: tuple[Observation, ...]) -> Verdict:
    """The verdict on all tasks, given in run-spec order; an empty run does not pass."""
    steps = _chained(
        tuple(_judge_step(seen) if isinstance(seen, StepObservation) else _judge_task(seen) for seen in observations),
        {seen.contract.step_id: seen.contract for seen in observations if isinstance(seen, StepObservation)},
    )
    failed = [step for step in steps if not step.passed]
    first = next(seen for seen in observations if isinstance(seen, StepObservation))
    plan = next(
        (fan_out_of(step.receipt) for step in steps if step.kind is StepKind.TRANSFER_PLAN and step.passed), None
    )
    return Verdict(
        process=first.contract.process,
        dag_run_id=first.expectation.dag_run_id,
        run_spec_fingerprint=first.contract.run_spec_fingerprint,
        steps=steps,
        primary=next((step for step in failed if not step.never_started), failed[0] if failed else None),
        load=next((step.receipt for step in steps if step.kind is StepKind.LOAD), None),
        partitions=plan.partitions if plan is not None else None,
    )


def _judge_step(seen: StepObservation) -> StepVerdict:
    examined = examine(seen.received, seen.expectation)
    receipt = examined.receipt or examined.of_another_run_spec
    findings: list[tuple[str, str]] = []
    if seen.is_surplus:
        findings.append((RECEIPT_MISMATCH, "the plan has no partition of this index"))
    if receipt is not None and receipt.status is not StepStatus.SUCCEEDED:
        findings.append((receipt.error_code or RECEIPT_INVALID, f"exit {receipt.exit_code}, {effect(receipt)}"))
    if seen.exit_code:
        findings.append((POD_EXIT, f"the container ended with exit code {seen.exit_code}"))
    not_started = seen.not_started if receipt is None and seen.exit_code is None else None
    if not_started is not None:
        findings.append((POD_NOT_STARTED, f"{not_started}: no container of the last try ran"))
    elif receipt is None and seen.operator_problem:
        findings.append((seen.operator_problem, "the operator refused what the pod left"))
    findings.extend(
        (problem.code, problem.message) for problem in examined.problems if problem.code != RECEIPT_NOT_SUCCEEDED
    )
    if seen.task_state is None:
        findings.append((TASK_STATE_UNKNOWN, "the state of the task is not known"))
    elif seen.task_state != "success":
        truth = "task failed, but " + effect(receipt) if receipt else "the task did not succeed"
        findings.append((TASK_NOT_SUCCESSFUL, truth))
    also = tuple(dict.fromkeys(code for code, _ in findings[1:] if code != findings[0][0]))
    code, reason = findings[0] if findings else (None, effect(receipt) if receipt else "")
    is_mapped = seen.contract.mapped_over is not None and seen.expectation.map_index >= 0
    may_have_run = not_started is None or seen.tries_before
    return StepVerdict(
        step_id=seen.contract.step_id,
        code=code,
        reason=reason,
        task_state=seen.task_state,
        receipt=receipt,
        also=also,
        map_index=seen.expectation.map_index if is_mapped else None,
        kind=seen.contract.kind,
        may_have_run=may_have_run,
        is_repeated_unproven=seen.contract.without_receipt is WithoutReceipt.RETRY,
    )


def _chained(steps: tuple[StepVerdict, ...], contracts: Mapping[str, StepContract]) -> tuple[StepVerdict, ...]:
    """The verdicts, with a finding for each step that passed and followed other receipts than this run holds.

    A step whose own predecessors failed says nothing new.
    """
    passed = {step.step_id: step.receipt for step in steps if step.passed and step.receipt and step.map_index is None}
    return tuple(_follows(step, contracts[step.step_id].upstream, passed) if step.receipt else step for step in steps)


def _follows(step: StepVerdict, upstream: tuple[str, ...], passed: Mapping[str, StepReceipt]) -> StepVerdict:
    if step.receipt is None or not step.passed or any(needed not in passed for needed in upstream):
        return step
    held = upstream_fingerprint({needed: passed[needed].digest for needed in upstream}) if upstream else None
    if step.receipt.upstream == held:
        return step
    reason = (
        f"it ran before {' and '.join(upstream)} left the receipt that this run holds"
        if upstream
        else "it follows nothing"
    )
    return replace(step, code=RECEIPT_OUT_OF_ORDER, reason=reason)


def _judge_task(seen: TaskObservation) -> StepVerdict:
    code: str | None = seen.operator_problem or TASK_NOT_SUCCESSFUL
    if seen.task_state in (None, "success"):
        code = None if seen.task_state else TASK_STATE_UNKNOWN
    reason = "the task did not succeed" if code else ""
    return StepVerdict(step_id=seen.task, code=code, reason=reason, task_state=seen.task_state, receipt=None)
