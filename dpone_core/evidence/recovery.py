"""What an operator should do after a failure, by observed boundary (S1 "failure diagnostics and recovery").

Never infers a rollback that nobody saw.
"""

from __future__ import annotations

from typing import Final

from dpone_core.evidence.outcome import LoadOutcome
from dpone_core.model.vocabulary import Boundary, RetryClassification, TargetState

_RETRY: Final = {
    RetryClassification.RETRY_BEFORE_TARGET_MUTATION: (
        "The target was not changed by this attempt. "
        "Correct the cause, then run the same interval again; a retry is safe."
    ),
    RetryClassification.RETRY_VIA_NATIVE_RESUME: (
        "Committed partitions stay committed. Run the same run id again: it resumes without touching the sink."
    ),
    RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION: (
        "The target already holds this load. Inspect the exact interval and this evidence; restore, repair or "
        "deduplicate it before retrying. Do not advance the source state by hand to make the run look successful."
    ),
    RetryClassification.OPERATOR_VERIFICATION_REQUIRED: (
        "What happened is not known. Stop automatic retries, compare target and evidence, then decide."
    ),
}
_TARGET: Final = {
    TargetState.NOT_MUTATED: "The target was not changed by this attempt.",
    TargetState.MUTATION_RETURNED_SUCCESS: "The target mutation returned success; the target holds this load.",
    TargetState.UNKNOWN: "The commit was sent and its outcome is not known: the target may be old or new.",
}


def recovery_advice(outcome: LoadOutcome) -> tuple[str, ...]:
    """Sentences for report and console: state of the target, then what a retry would do; () on success."""
    if outcome.passed:
        return ()
    said_by_retry = outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    advice = [] if said_by_retry else [_TARGET[outcome.target_state]]
    if outcome.retry is not None:
        advice.append(_RETRY[outcome.retry])
    if outcome.failure is not None and outcome.failure.fix:
        advice.append(f"Way out: {outcome.failure.fix}.")
    return tuple(advice)


_BOUNDARY: Final = {
    Boundary.PRE_COMMIT: (
        "staging was aborted, the target was not published to and source state is unchanged.",
        "correct the cause, check that staging is gone, then run the same interval again.",
    ),
    Boundary.POST_COMMIT: (
        "the target may hold this load although source state has not moved; it was not rolled back.",
        "inspect the exact interval and the evidence, repair or deduplicate, then decide on a retry.",
    ),
    Boundary.RESUME_VALIDATION: (
        "nothing was written in this attempt; what was committed before stays committed.",
        "correct what validation found, then run the same run id again: it does not touch the sink.",
    ),
}


def boundary_advice(boundary: Boundary) -> tuple[str, ...]:
    """What is true at a failure boundary, and what to do there, without a particular outcome at hand."""
    return _BOUNDARY[boundary]
