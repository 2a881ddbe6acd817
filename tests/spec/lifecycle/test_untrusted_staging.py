"""What a sink says of its own staging is compared with what was sent, before anything is published.

Contract: LIFE-37, LIFE-38.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from dpone_core.errors import RunTerminated
from dpone_core.model.artifacts import LoadRef
from dpone_core.model.outcome import LoadResult
from dpone_core.model.vocabulary import RetryClassification, TargetState
from dpone_core.ports.sink import LineageProjection, StagedHandle, StageRequest
from dpone_core.testing.fakes import MemoryStaging, MemoryWarehouse

from .harness import Attempt, HeldSignals
from .test_order import whole_load

LINEAGE = {"lineage": {"enabled": True, "preset": "minimal"}}


@dataclass(frozen=True, slots=True)
class Claiming:
    """StagedLoadPort that miscounts what it staged, or misreads the lineage it projected."""

    warehouse: MemoryWarehouse
    lost_rows: int = 0
    unmarked_rows: int = 0
    unmarked_columns: int = 0

    @property
    def inner(self) -> MemoryStaging:
        return MemoryStaging(self.warehouse)

    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        handle = self.inner.stage(request, batches)
        return replace(handle, staged_rows=handle.staged_rows - self.lost_rows)

    def project_lineage(self, handle: StagedHandle) -> LineageProjection:
        projection = self.inner.project_lineage(handle)
        columns = projection.columns[self.unmarked_columns :]
        return LineageProjection(columns=columns, rows=projection.rows - self.unmarked_rows)

    def finalize(self, handle: StagedHandle) -> object:
        return self.inner.finalize(handle)

    def cleanup(self, ref: LoadRef) -> None:
        self.inner.cleanup(ref)


def refused_with(attempt: Attempt, code: str) -> LoadResult:
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.code == code
    assert outcome.target_state is TargetState.NOT_MUTATED
    assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    assert attempt.target_ids() is None and attempt.staging() == [] and attempt.state() == []
    return outcome.result


def test_rows_that_were_sent_and_not_staged_stop_the_load_whatever_the_gates_tolerate(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path, quality={"gates": []})
    attempt.sink = replace(attempt.warehouse.ports(), staged=Claiming(attempt.warehouse, lost_rows=1))
    result = refused_with(attempt, "staged_row_count_mismatch")
    assert (result.extracted_rows, result.staged_rows) == (3, 2)


@pytest.mark.parametrize("unmarked", [{"unmarked_rows": 1}, {"unmarked_columns": 1}])
def test_rows_without_this_loads_lineage_are_not_published(tmp_path: Path, unmarked: dict[str, int]) -> None:
    attempt = whole_load(tmp_path, sink__options=LINEAGE)
    attempt.sink = replace(attempt.warehouse.ports(), staged=Claiming(attempt.warehouse, **unmarked))
    refused_with(attempt, "lineage_projection_incomplete")


def test_lineage_that_is_whole_is_published(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path, sink__options=LINEAGE)
    attempt.sink = replace(attempt.warehouse.ports(), staged=Claiming(attempt.warehouse))
    assert attempt.ran().outcome.passed


@pytest.mark.parametrize("moment", ["sink.stage", "metrics.staged"])
def test_a_termination_that_no_call_noticed_stops_the_load_before_its_commit(tmp_path: Path, moment: str) -> None:
    attempt = whole_load(tmp_path)
    attempt.cancellation = HeldSignals(attempt.journal, after=moment, interruption=RunTerminated())
    outcome = attempt.ran().outcome
    assert outcome.failure is not None and outcome.failure.exit_code == 143
    assert outcome.target_state is TargetState.NOT_MUTATED and "sink.finalize" not in attempt.lines
    assert attempt.staging() == []


def test_a_load_that_never_read_its_source_closes_it(tmp_path: Path) -> None:
    attempt = whole_load(tmp_path).fails("sink.preflight")
    assert not attempt.ran().outcome.passed
    assert "source.close" in attempt.journal.lines
