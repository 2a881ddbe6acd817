"""A receipt is judged once and consumed once, in order, whoever asks at the same time (RCPT-07, RCPT-11)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType

import pytest

from dpone_core.quality.execution import ExecutionState, QualityGateExecution
from dpone_core.quality.receipt import (
    QualityGateReceipt,
    QualityGateReceiptError,
    QualityGateReceiptInvalidError,
    QualityGateReceiptMismatchError,
    QualityGateReceiptRequiredError,
)
from tests.spec.quality.builders import MIN_ROWS, execution, judged

REQUIRED = QualityGateReceiptRequiredError


MISMATCH = QualityGateReceiptMismatchError


INVALID = QualityGateReceiptInvalidError


def test_a_receipt_is_not_replayed() -> None:
    owner = execution(MIN_ROWS)
    receipt = judged(owner)
    owner.accept_payload(receipt)
    with pytest.raises(INVALID):
        owner.accept_payload(receipt)
    with pytest.raises(INVALID):
        owner.accept_state(receipt)


def test_state_is_not_accepted_twice() -> None:
    owner = execution(MIN_ROWS)
    receipt = judged(owner)
    owner.accept_payload(receipt)
    owner.accept_state(receipt)
    with pytest.raises(INVALID):
        owner.accept_state(receipt)


def test_state_is_not_accepted_before_the_payload() -> None:
    owner = execution(MIN_ROWS)
    receipt = judged(owner)
    with pytest.raises(INVALID):
        owner.accept_state(receipt)
    assert owner.state is ExecutionState.INVALID


@pytest.mark.parametrize("accept", [QualityGateExecution.accept_payload, QualityGateExecution.accept_state])
def test_only_one_of_many_concurrent_consumers_wins(
    accept: Callable[[QualityGateExecution, QualityGateReceipt], None],
) -> None:
    owner = execution(MIN_ROWS)
    receipt = judged(owner)
    if accept is QualityGateExecution.accept_state:
        owner.accept_payload(receipt)
    start = threading.Barrier(8)
    outcomes: list[str] = []

    def consume() -> None:
        start.wait()
        try:
            accept(owner, receipt)
        except QualityGateReceiptError as error:
            outcomes.append(error.code)
        else:
            outcomes.append("accepted")

    threads = [threading.Thread(target=consume) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["DPONE_QUALITY_GATE_RECEIPT_INVALID"] * 7 + ["accepted"]
    assert owner.state is ExecutionState.INVALID


class PausedAt:
    """A trace function: at the n-th line inside the execution module it lets another thread go first, if it can."""

    def __init__(self, line: int, other: threading.Thread) -> None:
        self.remaining = line
        self.other = other

    def __call__(self, frame: FrameType, event: str, argument: object) -> PausedAt | None:
        if not frame.f_code.co_filename.endswith("quality/execution.py"):
            return None
        if event == "line":
            self.remaining -= 1
            if self.remaining == 0:
                self.other.start()
                self.other.join(0.02)
        return self


def consumed_while_paused(line: int, consume: Callable[[], object]) -> tuple[int, bool]:
    """How many of two consumers succeeded when the second ran at that line of the first; False past the last line."""
    successes: list[object] = []

    def attempt() -> None:
        try:
            successes.append(consume())
        except QualityGateReceiptError:
            pass

    second = threading.Thread(target=attempt)

    def attempt_traced() -> None:
        sys.settrace(PausedAt(line, second))
        attempt()

    first = threading.Thread(target=attempt_traced)
    first.start()
    first.join()
    was_paused = second.ident is not None
    if was_paused:
        second.join()
    return len(successes), was_paused


@pytest.mark.parametrize("step", ["evaluate", "accept_payload", "accept_state"])
def test_no_interleaving_of_two_consumers_lets_both_through(step: str) -> None:
    for line in range(1, 100):
        owner = execution(MIN_ROWS)
        receipt = None if step == "evaluate" else judged(owner)
        if step == "accept_state":
            owner.accept_payload(receipt)
        consume = {
            "evaluate": lambda owner=owner: judged(owner),
            "accept_payload": lambda owner=owner, receipt=receipt: owner.accept_payload(receipt),
            "accept_state": lambda owner=owner, receipt=receipt: owner.accept_state(receipt),
        }[step]
        successes, was_paused = consumed_while_paused(line, consume)
        assert successes == 1
        if not was_paused:
            assert line > 5
            return
    raise AssertionError("the step never ended")


def test_concurrent_judges_issue_one_receipt() -> None:
    owner = execution(MIN_ROWS)
    start = threading.Barrier(8)
    issued: list[QualityGateReceipt] = []

    def judge_once() -> None:
        start.wait()
        try:
            issued.append(judged(owner))
        except QualityGateReceiptError:
            pass

    threads = [threading.Thread(target=judge_once) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(issued) == 1
