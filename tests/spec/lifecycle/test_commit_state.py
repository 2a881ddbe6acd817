"""Where an attempt stands is said by what happened, not by what was expected. Contract: FAIL-27."""

from __future__ import annotations

from dpone_core.loading.commit_state import CommitState
from dpone_core.model.outcome import LoadResult
from dpone_core.model.vocabulary import Boundary, RetryClassification, TargetState


def test_a_committed_state_is_post_commit_whatever_came_before() -> None:
    commit_state = CommitState()
    commit_state.mark_refused()
    commit_state.mark_committed(LoadResult(inserted_rows=1))
    assert (commit_state.boundary, commit_state.target_state) == (
        Boundary.POST_COMMIT,
        TargetState.MUTATION_RETURNED_SUCCESS,
    )
    assert commit_state.retry is RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
