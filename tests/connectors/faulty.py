"""Staged sinks that each break one promise; the conformance suite must turn red for every one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import LoadRef
from dpone_core.model.load_config import PartitionGranularity, TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import StrategyMode
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

    def cleanup(self, ref: LoadRef) -> None:
        self.inner.cleanup(ref)


class SharedStagingName(Passing):
    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        handle = Passing.stage(self, replace(request, identity=load_identity("same")), batches)
        return replace(handle, request=request)


class StagingLeftBehind(Passing):
    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        try:
            return Passing.stage(self, request, batches)
        except BaseException:
            self.warehouse.tables[self.inner.staging_name(request.ref)] = MemoryTable(schema=request.schema)
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
    def cleanup(self, ref: LoadRef) -> None:
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


class MergesByTheFirstKeyColumn(Passing):
    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        request = replace(handle.request, unique_key=handle.request.unique_key[:1])
        return Passing.finalize(self, replace(handle, request=request))


class MergesWithoutLooking(Passing):
    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        if handle.request.strategy is StrategyMode.INCREMENTAL_MERGE:
            rows = self.warehouse.tables.get(handle.request.target, MemoryTable(schema=handle.request.schema)).rows
            distinct = {tuple(row[name] for name in handle.request.unique_key): row for row in rows}
            rows[:] = list(distinct.values())
        return Passing.finalize(self, handle)


class CountsUpdatesAsInserts(Passing):
    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        result = Passing.finalize(self, handle)
        return replace(result, inserted_rows=handle.staged_rows, updated_rows=0)


class ForgetsColumnsOfTheTarget(Passing):
    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        return Passing.finalize(self, replace(handle, request=replace(handle.request, target_only=())))


class TakesRepeatedKeys(Passing):
    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        return _staged_as_an_append(self, request, batches, "merge_key_duplicate")


class TakesNullKeys(Passing):
    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        return _staged_as_an_append(self, request, batches, "merge_key_null")


class ReplacesTheWholeTarget(Passing):
    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        return Passing.finalize(self, _published_as(handle, StrategyMode.FULL_REFRESH))


class ReplacesWhereAppended(Passing):
    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        return Passing.finalize(self, _published_as(handle, StrategyMode.INCREMENTAL_APPEND))


class TakesEveryDayForAMonth(Passing):
    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        design = handle.request.physical_design
        if design.partition_by is not None:
            by = replace(design.partition_by, granularity=PartitionGranularity.VALUE)
            request = replace(handle.request, physical_design=replace(design, partition_by=by))
            handle = replace(handle, request=request)
        return Passing.finalize(self, handle)


def _staged_as_an_append(
    sink: Passing, request: StageRequest, batches: Iterable[pa.RecordBatch], code: str
) -> StagedHandle:
    """Stages what was refused with `code`, without looking at keys."""
    held = list(batches)
    try:
        return Passing.stage(sink, request, held)
    except ConnectorError as error:
        if error.code != code:
            raise
    loose = TableSchema(columns=tuple(replace(column, nullable=True) for column in request.schema.columns))
    append = replace(request, strategy=StrategyMode.INCREMENTAL_APPEND, schema=loose)
    return replace(Passing.stage(sink, append, held), request=request)


def _published_as(handle: StagedHandle, strategy: StrategyMode) -> StagedHandle:
    if handle.request.strategy is not StrategyMode.PARTITION_REPLACE:
        return handle
    return replace(handle, request=replace(handle.request, strategy=strategy))


FAULTS: tuple[type[Passing], ...] = (
    SharedStagingName,
    StagingLeftBehind,
    AppendsInsteadOfReplacing,
    WritesThroughStaging,
    CleansNothing,
    CountsWhatItWasTold,
    DropsEqualBatches,
    PublishesAgain,
    MergesByTheFirstKeyColumn,
    MergesWithoutLooking,
    CountsUpdatesAsInserts,
    ForgetsColumnsOfTheTarget,
    TakesRepeatedKeys,
    TakesNullKeys,
    ReplacesTheWholeTarget,
    ReplacesWhereAppended,
    TakesEveryDayForAMonth,
)


class ForgetsLeftovers:
    """A target that never reports what dead loads left."""

    def __init__(self, inner: TargetPort) -> None:
        self.describe_target = inner.describe_target
        self.preflight = inner.preflight

    def leftovers(self, table: TableName, staging_schema: str | None) -> tuple[Leftover, ...]:
        return ()


def ports_with(warehouse: MemoryWarehouse, staged: StagedLoadPort, target: TargetPort | None = None) -> SinkPorts:
    whole = warehouse.ports()
    return replace(whole, staged=staged, target=target if target is not None else whole.target)
