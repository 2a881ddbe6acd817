"""A failure tells what is true of the target, in a closed vocabulary, or says nothing (FAIL-01, FAIL-24)."""

from __future__ import annotations

import dataclasses

import pytest

from dpone_core.errors import ExitClass
from dpone_core.model.outcome import LoadResult, QualityGateFailureOutcome
from dpone_core.model.vocabulary import Boundary, SourceState
from dpone_core.quality.failure import QualityGateFailure
from dpone_core.quality.report import QualityGateReport
from tests.spec.quality.builders import MIN_ROWS, execution, rows

RESULT = LoadResult(inserted_rows=7, updated_rows=0, final_rows=9, extracted_rows=7, staged_rows=None, attempts=2)
CONTEXTS = {
    "pre_commit": ("pre_commit", "not_mutated", "not_advanced", "retry_before_target_mutation"),
    "legacy_returned": (
        "post_commit",
        "mutation_returned_success",
        "not_applicable",
        "retry_may_repeat_target_mutation",
    ),
    "native_committed": ("post_commit", "mutation_returned_success", "committed", "retry_via_native_resume"),
    "native_uncommitted": (
        "post_commit",
        "mutation_returned_success",
        "unknown",
        "operator_verification_required",
    ),
    "resume_validation": ("resume_validation", "not_mutated", "committed", "retry_via_native_resume"),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_every_boundary_owner_states_its_truth(name: str) -> None:
    outcome: QualityGateFailureOutcome = getattr(QualityGateFailureOutcome, name)(RESULT)
    boundary, target, checkpoint, retry = CONTEXTS[name]
    assert outcome.failure_context() == {
        "failure_boundary": boundary,
        "target_state": target,
        "checkpoint_state": checkpoint,
        "source_state": "not_advanced",
        "retry_classification": retry,
    }
    assert (outcome.inserted_rows, outcome.final_rows, outcome.staged_rows, outcome.attempts) == (7, 9, None, 2)


@pytest.mark.parametrize("hostile", [True, -1, 1.5, "7", [7], 2**63])
@pytest.mark.parametrize("value", [RESULT, QualityGateFailureOutcome.pre_commit(RESULT)], ids=["result", "outcome"])
def test_an_invalid_counter_is_unknown_and_attempts_are_at_least_one(value: object, hostile: object) -> None:
    changed = dataclasses.replace(value, inserted_rows=hostile, attempts=hostile)  # type: ignore[type-var, call-arg]
    assert (changed.inserted_rows, changed.attempts) == (None, 1)  # type: ignore[attr-defined]


def test_zero_attempts_are_one() -> None:
    assert LoadResult(attempts=0).attempts == 1


def test_states_come_from_the_closed_vocabulary() -> None:
    outcome = QualityGateFailureOutcome.pre_commit(RESULT)
    with pytest.raises(TypeError):
        dataclasses.replace(outcome, failure_boundary="pre_commit")  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        dataclasses.replace(outcome, source_state=SourceState.ADVANCED)


def test_the_old_constructor_claims_nothing() -> None:
    failure = QualityGateFailure(QualityGateReport(()))
    assert failure.outcome is None
    assert failure.failure_context() is None
    assert str(failure) == "DPONE_QUALITY_GATES_FAILED: quality gates failed"
    assert failure.exit_class is ExitClass.EXECUTED


@pytest.mark.parametrize("outcome", [{"target_state": "not_mutated"}, "pre_commit", RESULT])
def test_a_mapping_is_never_an_outcome(outcome: object) -> None:
    with pytest.raises(TypeError):
        QualityGateFailure(QualityGateReport(()), outcome)  # type: ignore[arg-type]


def test_the_first_outcome_stays() -> None:
    first = QualityGateFailureOutcome.legacy_returned(RESULT)
    enriched = QualityGateFailure(QualityGateReport(())).with_outcome(first)
    assert enriched.with_outcome(QualityGateFailureOutcome.pre_commit(RESULT)).outcome is first


def test_the_outcome_given_to_evaluate_travels_with_the_failure() -> None:
    outcome = QualityGateFailureOutcome.pre_commit(RESULT)
    with pytest.raises(QualityGateFailure) as failure:
        execution(MIN_ROWS).evaluate(boundary=Boundary.PRE_COMMIT, source=rows(1), target=rows(0), outcome=outcome)
    assert failure.value.outcome is outcome
