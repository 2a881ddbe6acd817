"""Stages partitions in parallel: `workers` threads, each with a source session of its own.

The threads read and stage; only the calling thread writes checkpoints and evidence, as results arrive. The first
failure stops the other threads at their next batch. What is staged by then keeps its checkpoint and is not read
again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dpone_core.errors import ConnectorError, DponeError, ETLExecutionError
from dpone_core.loading.context import LoadContext, OpenReader
from dpone_core.loading.native.model import StagedPartition, Transfer, partition_request
from dpone_core.loading.native.workers import (
    READER_ENDED,
    FailedPartition,
    PartitionWork,
    ReaderStoppedError,
    SharedProgress,
)
from dpone_core.loading.pump import Pump
from dpone_core.loading.step_log import code_of
from dpone_core.model.load_config import PartitioningConfig
from dpone_core.model.partition import CheckpointStatus, PartitionCheckpoint, TransferPartition
from dpone_core.model.special_values import read_counts
from dpone_core.native_transfer.checkpoints import CheckpointSupersededError
from dpone_core.native_transfer.decision import artifact_checksum, is_reusable
from dpone_core.native_transfer.ledger import CONVERTED_FIELD, TransferredPartition
from dpone_core.ports.ranges import RangeStagingPort
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.sink import StagedHandle, StagedLoadPort, StageRequest

_NAMED: Final = 5


class PartitionNotStagedError(ETLExecutionError):
    """Partitions that other processes should have staged are missing or differ from their checkpoints.

    Nothing was published.
    """

    code = "native_transfer_partition_not_staged"

    def __init__(self, indexes: Iterable[int]) -> None:
        missing = sorted(indexes)
        named = ", ".join(str(index) for index in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        super().__init__(
            f"{len(missing)} partitions are not staged as their checkpoints say: index {named}{more}",
            fix="clear the mapped tasks transfer_partition of these indexes, then the load",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStager:
    """Stages the active partitions of an attempt. `base` is the stage request of the whole load.

    With `reads=False` other processes have staged them: a partition that is missing is refused instead of read.
    """

    context: LoadContext
    transfer: Transfer
    staged: StagedLoadPort
    ranges: RangeStagingPort
    open_reader: OpenReader
    partitioning: PartitioningConfig
    base: StageRequest
    reads: bool = True

    def stage(self, only: tuple[TransferPartition, ...] | None = None) -> tuple[StagedPartition, ...]:
        """Stages every active partition, or `only` these, and returns them in plan order.

        Raises PartitionNotStagedError with `reads=False`, else the first failure, after its partition was recorded as
        failed.
        """
        self.ranges.prepare(self.base)
        active = self.transfer.resume.active if only is None else only
        found = {partition.id: reused for partition in active if (reused := self._find_reusable(partition)) is not None}
        missing = [partition for partition in active if partition.id not in found]
        if missing and not self.reads:
            raise PartitionNotStagedError(partition.bounds.partition_index for partition in missing)
        if missing:
            found.update((each.done.partition.id, each) for each in self._read(missing))
        return tuple(found[partition.id] for partition in active)

    def _find_reusable(self, partition: TransferPartition) -> StagedPartition | None:
        """The partition as an earlier attempt staged it, if its staging still matches the checkpoint; else None."""
        record = self.transfer.ledger.latest.get(partition.id)
        if record is None or record.status is not CheckpointStatus.LOADED:
            return None
        load_id, staged_at = _read_origin(record)
        if load_id is None or staged_at is None:
            return None
        handle = self.ranges.find(partition_request(self.base, partition, load_id, staged_at))
        if handle is None or not is_reusable(partition, record, _compute_checksum(handle, partition)):
            return None
        converted = read_counts(
            record.diagnostics.get(CONVERTED_FIELD), self.transfer.extraction.request.special_values
        )
        if converted is None or not self._carries_lineage(handle):
            return None
        done = TransferredPartition(
            partition=partition,
            rows_exported=handle.staged_rows,
            bytes_exported=record.bytes_exported,
            rows_loaded=handle.staged_rows,
            artifact_sha256=_compute_checksum(handle, partition),
            load_id=load_id,
            started_at=record.started_at,
            staged_at=staged_at,
            reused=True,
            converted_values=converted,
        )
        return StagedPartition(done=done, handle=handle)

    def _read(self, missing: Sequence[TransferPartition]) -> Iterator[StagedPartition]:
        """Reads and stages the missing partitions, and yields them when all reader threads have ended.

        Partitions that were staged before a failure are recorded all the same. Raises CheckpointSupersededError, before
        it touches staging or records a partition, when another process has written a checkpoint since it was read.
        """
        self.transfer.ledger.require_current(missing)
        work = PartitionWork(partitions=list(missing), workers=min(self.partitioning.workers, len(missing)))
        progress = SharedProgress(self.context.runtime.progress)
        stamp = self.context.runtime.clock.utc_now()
        threads = [
            threading.Thread(target=self._run_reader, args=(work, progress, stamp), name="dpone-range", daemon=True)
            for _ in range(work.workers)
        ]
        for thread in threads:
            thread.start()
        staged: list[StagedPartition] = []
        try:
            failure = self._collect(work, staged)
        except BaseException:
            with self.context.runtime.cancellation.shield():
                work.stop()
                for thread in threads:
                    thread.join()
                with suppress(DponeError):  # the first error must not be hidden
                    self._collect(work, staged, only_present=True)
            raise
        for thread in threads:
            thread.join()
        if failure is not None:
            if failure.partition is not None:
                with suppress(CheckpointSupersededError):  # what the other process wrote stays
                    self.transfer.ledger.record_failed(failure.partition, code_of(failure.error))
            raise failure.error
        yield from staged

    def _collect(
        self, work: PartitionWork, staged: list[StagedPartition], *, only_present: bool = False
    ) -> FailedPartition | None:
        """Records each staged partition as it arrives, until every reader has ended; returns the first failure."""
        failure: FailedPartition | None = None
        while work.running:
            try:
                result = work.results.get(block=not only_present)
            except queue.Empty:
                break
            if result is READER_ENDED:
                work.running -= 1
            elif isinstance(result, FailedPartition):
                failure = failure or result
            else:
                self._record(result)
                staged.append(result)
        return failure

    def _record(self, result: StagedPartition) -> None:
        """Writes the checkpoint of a staged partition.

        When another process has written it meanwhile, the staging is removed only if that process has published the
        partition: otherwise the staging of the same name may be the other process's.
        """
        ledger = self.transfer.ledger
        try:
            ledger.record_loaded(result.done)
        except CheckpointSupersededError:
            with suppress(DponeError):
                if ledger.is_published_by_other(result.done.partition):
                    self.staged.cleanup(result.handle.ref)
            raise

    def _run_reader(self, work: PartitionWork, progress: SharedProgress, stamp: datetime) -> None:
        partition: TransferPartition | None = None
        try:
            with self.open_reader() as reader:
                while (partition := work.next()) is not None:
                    work.results.put(self._transfer(reader, partition, work, progress, stamp))
        except ReaderStoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - carried to the calling thread, raised there
            work.stop()
            work.results.put(FailedPartition(partition=partition, error=error))
        finally:
            work.results.put(READER_ENDED)

    def _transfer(
        self,
        reader: SourcePorts,
        partition: TransferPartition,
        work: PartitionWork,
        progress: SharedProgress,
        stamp: datetime,
    ) -> StagedPartition:
        if reader.ranges is None:
            raise ConnectorError("this source does not read key ranges", code="source_request_invalid")
        extraction, started_at = self.transfer.extraction, self.context.runtime.clock.utc_now()
        request = partition_request(self.base, partition, str(self.base.identity.load_id), stamp)
        stream = reader.ranges.open_range(
            extraction.request, extraction.schema, self.partitioning.column, partition.bounds, self.transfer.snapshot
        )
        pump = Pump(
            stream=stream,
            payload=extraction.target.payload,
            progress=progress.of(partition.id),
            cancellation=work,
            special_values=extraction.request.special_values,
        )
        try:
            handle = self.staged.stage(request, pump.batches())
        finally:
            stream.close()
        sent = pump.counters.rows
        if handle.staged_rows != sent or not self._carries_lineage(handle):
            self.staged.cleanup(handle.ref)
            if handle.staged_rows != sent:
                raise ConnectorError(
                    f"{sent} rows of partition {partition.bounds.partition_index} were sent to staging, "
                    f"but it holds {handle.staged_rows}; the partition is not published",
                    code="staged_row_count_mismatch",
                )
            raise ConnectorError(
                f"some staged rows of partition {partition.bounds.partition_index} lack planned lineage columns",
                code="lineage_projection_incomplete",
            )
        done = TransferredPartition(
            partition=partition,
            rows_exported=sent,
            bytes_exported=pump.counters.size_bytes,
            rows_loaded=handle.staged_rows,
            artifact_sha256=_compute_checksum(handle, partition),
            load_id=str(self.base.identity.load_id),
            started_at=started_at,
            staged_at=stamp,
            converted_values=pump.converted_values,
        )
        return StagedPartition(done=done, handle=handle)

    def _carries_lineage(self, handle: StagedHandle) -> bool:
        planned = set(self.context.plan.target.lineage_columns)
        if not planned:
            return True
        projection = self.staged.project_lineage(handle)
        return projection.rows == handle.staged_rows and set(projection.columns) == planned


def _compute_checksum(handle: StagedHandle, partition: TransferPartition) -> str:
    return artifact_checksum(str(handle.table), handle.staged_rows, partition.query_hash, partition.schema_hash)


def _read_origin(record: PartitionCheckpoint) -> tuple[str | None, datetime | None]:
    """The load id that staged these rows, and when; each None when the checkpoint does not state it."""
    load_id, staged_at = record.diagnostics.get("load_id"), record.diagnostics.get("staged_at")
    try:
        moment = datetime.fromisoformat(staged_at) if isinstance(staged_at, str) else None
    except ValueError:
        moment = None
    return (load_id if isinstance(load_id, str) else None), moment
