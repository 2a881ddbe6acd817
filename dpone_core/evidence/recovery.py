"""The table of what is true after a failure and what an operator should do (FAIL-23).

Console, reports and documentation use the same table. It never assumes a rollback that was not confirmed: facts that
contradict each other are treated as an unknown outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dpone_core.evidence.outcome import LoadOutcome
from dpone_core.model.repetition import Repetition, repetition_of
from dpone_core.model.vocabulary import Boundary, RetryClassification, TargetState


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One row of the table: for these facts, what is true (`meaning`) and what to do (`action`).

    `repetition` is set exactly where the classification alone does not say what a repeat does to the target.
    """

    boundary: Boundary
    target_state: TargetState
    retry: RetryClassification
    meaning: str
    action: str
    repetition: Repetition | None = None


_UNKNOWN: Final = Recovery(
    boundary=Boundary.POST_COMMIT,
    target_state=TargetState.UNKNOWN,
    retry=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
    meaning="The commit was sent and its outcome is not known: the target may be old or new.",
    action="Stop automatic retries, compare target and evidence, then decide.",
)
RECOVERIES: Final = (
    Recovery(
        boundary=Boundary.PRE_COMMIT,
        target_state=TargetState.NOT_MUTATED,
        retry=RetryClassification.RETRY_BEFORE_TARGET_MUTATION,
        meaning="The target was not changed by this attempt.",
        action="Correct the cause, then run the same interval again; a retry is safe.",
    ),
    Recovery(
        boundary=Boundary.PRE_COMMIT,
        target_state=TargetState.NOT_MUTATED,
        retry=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
        meaning=(
            "The target was not changed by this attempt. A hook, or an earlier load, was started and did not prove "
            "its success."
        ),
        action=(
            "Find out what it did. Finish or undo a hook, then start a new run id; accept or remove the rows of a "
            "load, then set the cursor."
        ),
    ),
    Recovery(
        boundary=Boundary.POST_COMMIT,
        target_state=TargetState.MUTATION_RETURNED_SUCCESS,
        retry=RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION,
        repetition=Repetition.NOTHING,
        meaning=(
            "The load is complete: the target holds it and the source state has advanced. Only what comes behind is "
            "missing, a post-hook or the report."
        ),
        action=(
            "Repair nothing. Run the same run id again: it reads on behind this load, does what is missing and leaves "
            "a report."
        ),
    ),
    Recovery(
        boundary=Boundary.POST_COMMIT,
        target_state=TargetState.MUTATION_RETURNED_SUCCESS,
        retry=RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION,
        repetition=Repetition.REPLACES,
        meaning=(
            "The target mutation returned success; the target holds this load. A repeat writes it again in its place, "
            "so no row is doubled."
        ),
        action="Correct the cause, then run the same interval again, or restore the rows that it replaced.",
    ),
    Recovery(
        boundary=Boundary.POST_COMMIT,
        target_state=TargetState.MUTATION_RETURNED_SUCCESS,
        retry=RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION,
        repetition=Repetition.MERGES,
        meaning=(
            "The target mutation returned success; the target holds this load. A repeat reads the same rows and "
            "updates them by their key, so no row is doubled."
        ),
        action=(
            "Correct the cause, then run the same interval again. "
            "Do not advance the source state by hand to make the run look successful."
        ),
    ),
    Recovery(
        boundary=Boundary.POST_COMMIT,
        target_state=TargetState.MUTATION_RETURNED_SUCCESS,
        retry=RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION,
        repetition=Repetition.ADDS,
        meaning="The target mutation returned success; the target holds this load.",
        action=(
            "Inspect the exact interval and this evidence; restore, repair or deduplicate it before retrying. "
            "Do not advance the source state by hand to make the run look successful."
        ),
    ),
    Recovery(
        boundary=Boundary.POST_COMMIT,
        target_state=TargetState.MUTATION_RETURNED_SUCCESS,
        retry=RetryClassification.RETRY_VIA_NATIVE_RESUME,
        meaning="The target mutation returned success; committed partitions stay committed.",
        action="Run the same run id again: it resumes without touching the sink.",
    ),
    Recovery(
        boundary=Boundary.POST_COMMIT,
        target_state=TargetState.MUTATION_RETURNED_SUCCESS,
        retry=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
        meaning=(
            "The target mutation returned success; the target holds this load. "
            "A step behind the load did not prove its success."
        ),
        action=(
            "Do not load again. Find out what the failed step did, then run that step by itself: "
            "a post-hook with dpone hooks execute."
        ),
    ),
    _UNKNOWN,
    Recovery(
        boundary=Boundary.RESUME_VALIDATION,
        target_state=TargetState.NOT_MUTATED,
        retry=RetryClassification.RETRY_VIA_NATIVE_RESUME,
        meaning="Nothing was written in this attempt; what was committed before stays committed.",
        action="Correct what validation found, then run the same run id again: it does not touch the sink.",
    ),
)


def recovery_of(
    boundary: object, target_state: object, retry: object, source_state: object, strategy: object
) -> Recovery:
    """The row for these facts, given as enum members or as their text. Any other combination is the unknown outcome."""
    facts = (boundary, target_state, retry, repetition_of(retry, target_state, source_state, strategy))
    rows = (row for row in RECOVERIES if (row.boundary, row.target_state, row.retry, row.repetition) == facts)
    return next(rows, _UNKNOWN)


def recovery_advice(outcome: LoadOutcome) -> tuple[str, ...]:
    """Sentences for report and console: what is true, then what to do. () after success."""
    if outcome.passed:
        return ()
    row = recovery_of(outcome.boundary, outcome.target_state, outcome.retry, outcome.source_state, outcome.strategy)
    advice = [row.meaning, row.action]
    if outcome.failure is not None and outcome.failure.fix:
        advice.append(f"Way out: {outcome.failure.fix}.")
    return tuple(advice)


_BOUNDARY: Final = {
    Boundary.PRE_COMMIT: (
        "staging was aborted, the target was not published to and source state is unchanged.",
        "correct the cause, check that staging is gone, then run the same interval again.",
    ),
    Boundary.POST_COMMIT: (
        "the target may hold this load, whether or not the source state has moved; it was not rolled back.",
        "if the source state has advanced the load is complete; otherwise inspect the exact interval and the evidence.",
    ),
    Boundary.RESUME_VALIDATION: (
        "nothing was written in this attempt; what was committed before stays committed.",
        "correct what validation found, then run the same run id again: it does not touch the sink.",
    ),
}


def boundary_advice(boundary: Boundary) -> tuple[str, ...]:
    """What is true after any failure at a boundary, and what to do, for documentation and `dpone explain`."""
    return _BOUNDARY[boundary]
