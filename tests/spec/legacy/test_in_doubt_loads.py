"""What a legacy load may claim when `sink.load` did not simply return: unknown stays unknown, unpublished is refused.

Contract: LIFE-46.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dpone_core.errors import CommitOutcomeUnknownError, RunTerminated
from dpone_core.model.vocabulary import RetryClassification, TargetState
from dpone_core.ports.sink import LegacyLoadResult, StageRequest
from dpone_core.testing.legacy_fakes import MemoryLegacy
from tests.spec.lifecycle.harness import HeldSignals

from .test_order import legacy_load, with_legacy_sink


class Unanswered(MemoryLegacy):
    """Its answer is lost before any row is visible: whether they will be nobody can tell."""

    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        raise CommitOutcomeUnknownError("the answer of the load is lost")


class BrokenAfterPublishing(MemoryLegacy):
    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        super().load(request, batches)
        raise RuntimeError("driver bug")


class Listening(MemoryLegacy):
    """Says in the journal that it holds the last row, before it asks for more."""

    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        return super().load(request, self._heard(batches))

    def _heard(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            if seen == 3:
                self._warehouse.journal.write("last row")
            yield batch


@pytest.mark.parametrize("kind", [Unanswered, BrokenAfterPublishing])
def test_a_load_of_which_something_may_be_visible_is_unknown(tmp_path: Path, kind: type[MemoryLegacy]) -> None:
    attempt = legacy_load(tmp_path)
    outcome = with_legacy_sink(attempt, kind(attempt.warehouse)).ran().outcome
    assert outcome.target_state is TargetState.UNKNOWN
    assert outcome.retry is RetryClassification.OPERATOR_VERIFICATION_REQUIRED
    assert attempt.state() == []


def test_a_termination_after_the_last_row_comes_before_the_rows_are_visible(tmp_path: Path) -> None:
    attempt = legacy_load(tmp_path)
    attempt.cancellation = HeldSignals(attempt.journal, after="last row", interruption=RunTerminated())
    outcome = with_legacy_sink(attempt, Listening(attempt.warehouse)).ran().outcome
    assert outcome.failure is not None and outcome.failure.exit_code == 143
    assert attempt.target_ids() is None and outcome.target_state is TargetState.NOT_MUTATED
