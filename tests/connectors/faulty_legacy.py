"""Legacy sinks that each break one promise; the conformance suite must turn red for every one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from dpone_core.model.artifacts import LoadRef
from dpone_core.ports.sink import LegacyLoadResult, StageRequest
from dpone_core.testing.builders import load_identity
from dpone_core.testing.fakes import MemoryWarehouse
from dpone_core.testing.legacy_fakes import MemoryLegacy


class Broken(MemoryLegacy):
    """Sound; subclasses break one thing. Batches are collected so that a fault can act on them."""

    def __init__(self, warehouse: MemoryWarehouse) -> None:
        super().__init__(warehouse)
        self.warehouse = warehouse


class CountsWhatItWasSent(Broken):
    """Loses the last row and reports all of them."""

    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        sent = list(batches)
        result = super().load(request, [batch.slice(0, batch.num_rows - 1) for batch in sent if batch.num_rows])
        return replace(result, written_rows=sum(batch.num_rows for batch in sent))


class AppendsInsteadOfReplacing(Broken):
    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        before = self.warehouse.tables.get(request.target)
        old = list(before.rows) if before is not None else []
        result = super().load(request, batches)
        self.warehouse.tables[request.target].rows[:0] = old
        return result


class LeavesRowsOfAFailedLoad(Broken):
    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        kept: list[pa.RecordBatch] = []
        try:
            for batch in batches:
                kept.append(batch)
        except BaseException:
            super().load(request, kept)
            raise
        return super().load(request, kept)


class ForgetsWhoseRowsTheyAre(Broken):
    """Every load writes under one identity, so a second one takes the first one's rows for its own."""

    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        return super().load(replace(request, identity=load_identity("same")), batches)

    def has_rows(self, ref: LoadRef) -> bool:
        return super().has_rows(replace(ref, identity=load_identity("same")))

    def read_back(self, request: StageRequest) -> Iterator[pa.RecordBatch]:
        return super().read_back(replace(request, identity=load_identity("same")))


class SaysNothingIsVisible(Broken):
    def has_rows(self, ref: LoadRef) -> bool:
        return False


class ReadsNothingBack(Broken):
    def read_back(self, request: StageRequest) -> Iterator[pa.RecordBatch]:
        return iter(())


class SkipsEmptyLoads(Broken):
    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        sent = list(batches)
        if not sent:
            return LegacyLoadResult(finaliser="memory", written_rows=0, total_rows=0)
        return super().load(request, sent)


class DropsEqualBatches(Broken):
    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        kept: list[pa.RecordBatch] = []
        for batch in batches:
            if not any(batch.equals(other) for other in kept):
                kept.append(batch)
        return super().load(request, kept)


class WritesNullAsEmptyText(Broken):
    def load(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> LegacyLoadResult:
        result = super().load(request, batches)
        for row in self.warehouse.tables[request.target].rows:
            row["name"] = row.get("name") or ""
        return result


class DiscardsTheTarget(Broken):
    def discard(self, ref: LoadRef) -> None:
        self.warehouse.tables.pop(ref.target, None)


FAULTS: dict[type[Broken], str] = {
    CountsWhatItWasSent: "test_written_rows_are_the_rows_sent",
    AppendsInsteadOfReplacing: "test_full_refresh_replaces",
    LeavesRowsOfAFailedLoad: "test_a_failing_reader_leaves_the_target_as_it_was",
    ForgetsWhoseRowsTheyAre: "test_append_adds_and_counts_its_own_rows",
    SaysNothingIsVisible: "test_only_a_load_that_is_visible_has_rows",
    ReadsNothingBack: "test_read_back_gives_this_load_s_payload_and_no_other",
    SkipsEmptyLoads: "test_zero_rows_are_a_load",
    DropsEqualBatches: "test_written_rows_are_the_rows_sent",
    WritesNullAsEmptyText: "test_null_and_empty_text_stay_apart",
    DiscardsTheTarget: "test_discarding_spares_the_target_and_can_be_repeated",
}
