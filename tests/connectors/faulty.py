"""Staged sinks that each break one promise; the conformance suite must turn red for every one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from dpone_core.model.load_config import TableName
from dpone_core.ports.session import SinkPorts
from dpone_core.ports.sink import (
    FinalizeResult,
    Leftover,
    LineageProjection,
    StagedHandle,
    StagedLoadPort,
    StageRequest,
    TargetPort,
)
from dpone_core.testing.builders import load_identity
from dpone_core.testing.fakes import MemoryStaging, MemoryTable, MemoryWarehouse


@dataclass(frozen=True, slots=True)
class Passing:
    """Delegates everything; subclasses break one thing."""

    warehouse: MemoryWarehouse

    @property
    def inner(self) -> MemoryStaging:
        return MemoryStaging(self.warehouse)

    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        return self.inner.stage(request, batches)

    def project_lineage(self, handle: StagedHandle) -> LineageProjection:
        return self.inner.project_lineage(handle)

    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        return self.inner.finalize(handle)

    def cleanup(self, handle: StagedHandle) -> None:
        self.inner.cleanup(handle)


class SharedStagingName(Passing):
    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        handle = Passing.stage(self, replace(request, identity=load_identity("same")), batches)
        return replace(handle, request=request)


class StagingLeftBehind(Passing):
    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        try:
            return Passing.stage(self, request, batches)
        except BaseException:
            self.warehouse.tables[self.inner.staging_name(request)] = MemoryTable(schema=request.schema)
            raise


class AppendsInsteadOfReplacing(Passing):
    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        before = self.warehouse.tables.get(handle.request.target)
        old = list(before.rows) if before is not None else []
        result = Passing.finalize(self, handle)
        self.warehouse.tables[handle.request.target].rows[:0] = old
        return result


class WritesThroughStaging(Passing):
    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        handle = Passing.stage(self, request, batches)
        target = self.warehouse.tables.setdefault(request.target, MemoryTable(schema=request.schema))
        target.rows.extend(self.warehouse.tables[handle.table].rows)
        return handle


class CleansNothing(Passing):
    def cleanup(self, handle: StagedHandle) -> None:
        return


class CountsWhatItWasTold(Passing):
    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        handle = Passing.stage(self, request, batches)
        return replace(handle, staged_rows=handle.staged_rows + 1)


class DropsEqualBatches(Passing):
    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        kept: list[pa.RecordBatch] = []
        for batch in batches:
            if not any(batch.equals(other) for other in kept):
                kept.append(batch)
        return Passing.stage(self, request, kept)


class PublishesAgain(Passing):
    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        target = self.warehouse.tables.get(handle.request.target)
        if target is not None:
            target.marker = None
        return Passing.finalize(self, handle)


FAULTS: tuple[type[Passing], ...] = (
    SharedStagingName,
    StagingLeftBehind,
    AppendsInsteadOfReplacing,
    WritesThroughStaging,
    CleansNothing,
    CountsWhatItWasTold,
    DropsEqualBatches,
    PublishesAgain,
)


class ForgetsLeftovers:
    """A target that never reports what dead loads left."""

    def __init__(self, inner: TargetPort) -> None:
        self.describe_target = inner.describe_target
        self.preflight = inner.preflight
        self.add_columns = inner.add_columns

    def leftovers(self, table: TableName, staging_schema: str | None) -> tuple[Leftover, ...]:
        return ()


def ports_with(warehouse: MemoryWarehouse, staged: StagedLoadPort, target: TargetPort | None = None) -> SinkPorts:
    whole = warehouse.ports()
    return replace(whole, staged=staged, target=target if target is not None else whole.target)
