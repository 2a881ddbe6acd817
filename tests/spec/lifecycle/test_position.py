"""Where an attempt stands is said by what happened, not by what was expected. S1 "Failure boundary"."""

from __future__ import annotations

from dpone_core.loading.position import LoadPosition
from dpone_core.model.outcome import LoadResult
from dpone_core.model.vocabulary import Boundary, RetryClassification, TargetState


def test_a_committed_position_is_post_commit_whatever_came_before() -> None:
    position = LoadPosition()
    position.refused()
    position.committed(LoadResult(inserted_rows=1))
    assert (position.boundary, position.target_state) == (Boundary.POST_COMMIT, TargetState.MUTATION_RETURNED_SUCCESS)
    assert position.retry is RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
