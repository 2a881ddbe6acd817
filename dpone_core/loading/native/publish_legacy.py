"""Publishes a native transfer into a sink without staging: every partition is one load of the sink.

The guard of a partition is armed when all its rows are read, just before the sink makes them visible. Gates are
evaluated once, over all partitions, when every one is committed (NAT-15). A failure after that
leaves the checkpoints committed, and the next attempt validates without calling the sink.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import refuse_rows_without_window
from dpone_core.loading.in_doubt import arm_commit
from dpone_core.loading.native.completeness import refuse_lost_rows
from dpone_core.loading.native.model import Transfer, move_quietly, partition_request, total_converted_values
from dpone_core.loading.payload import LoadedPayload
from dpone_core.loading.pump import Pump
from dpone_core.loading.shared_steps import (
    SnapshotSteps,
    acceptance_recorder,
    converted_details,
    evaluate_gates,
    record_finalized,
    source_dataset,
    target_dataset,
)
from dpone_core.loading.step_log import code_of
from dpone_core.model.outcome import LoadResult, QualityGateFailureOutcome
from dpone_core.model.partition import TransferPartition
from dpone_core.model.vocabulary import Boundary, CheckpointState, FinalizationPhase, Side
from dpone_core.native_transfer.decision import artifact_checksum
from dpone_core.native_transfer.ledger import GuardedCommit, TransferredPartition
from dpone_core.ports.ranges import RangeSourcePort
from dpone_core.ports.sink import LegacyLoadPort, LegacyLoadResult, StageRequest
from dpone_core.quality.execution import QualityGateExecution
from dpone_core.quality.receipt import QualityGateReceipt


@dataclass(slots=True, kw_only=True)
class _PartitionWrite:
    """One partition while it is written. `guard` is None until all its rows are read."""

    partition: TransferPartition
    request: StageRequest
    pump: Pump
    started_at: datetime
    guard: GuardedCommit | None = None
    shield: ExitStack = field(default_factory=ExitStack)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeLegacyCoordinator:
    """Coordinates one attempt with at least one active partition. `base` is the stage request of the whole load."""

    context: LoadContext
    transfer: Transfer
    legacy: LegacyLoadPort
    source: RangeSourcePort
    base: StageRequest

    def load(self, execution: QualityGateExecution) -> LoadedPayload:
        """Loads the active partitions one by one, evaluates the gates, and returns counters with the receipt.

        Raises the first failure; `context.commit_state` says whether it came before, at, or after a commit.
        """
        context = self.context
        evidence = SnapshotSteps(context=context)
        recorder = acceptance_recorder(context, execution, evidence)
        payload = self.transfer.extraction.target.payload
        recorder.validate((source_dataset(context, self.transfer), target_dataset(context, payload)))
        evidence.capture(recorder, Side.SOURCE)
        execution.revalidate(context.config)
        started_at = context.runtime.clock.utc_now()
        done = (
            self._load_partitions()
        )  # --------------------------------------------------- the target commit boundaries
        finished_at = context.runtime.clock.utc_now()
        context.runtime.cancellation.checkpoint()
        context.commit_shield.enter_context(context.runtime.cancellation.shield())
        execution.revalidate(context.config)
        receipt = self._evaluate_gates(execution, done)
        refuse_lost_rows(context, self.transfer, {each.partition.id: each.rows_exported for each in done})
        evidence.capture(recorder, Side.TARGET)
        result = context.commit_state.result
        details: dict[str, object] = {
            "finaliser": context.plan.target.finaliser.name,
            "publications": len(done),
            "rows": result.inserted_rows,
            "extracted_rows": result.extracted_rows,
            "inserted_rows": result.inserted_rows,
            "final_rows": result.final_rows,
            **converted_details(result),
        }
        record_finalized(context, self.base.added, started_at, finished_at, details)
        context.commit_state.result = result.with_acceptance(recorder.run_metrics(result.loaded_rows))
        return LoadedPayload(result=context.commit_state.result, receipt=receipt)

    def _load_partitions(self) -> list[TransferredPartition]:
        """Loads the partitions one after the other, because each load of the sink describes the whole target anew."""
        context = self.context
        context.runtime.progress.phase("load")
        stamp = context.runtime.clock.utc_now()
        done: list[TransferredPartition] = []
        for partition in self.transfer.resume.active:
            context.runtime.cancellation.checkpoint()
            done.append(self._load(partition, stamp, done))
        return done

    def _load(
        self, partition: TransferPartition, stamp: datetime, earlier: list[TransferredPartition]
    ) -> TransferredPartition:
        context, commit_state, extraction = self.context, self.context.commit_state, self.transfer.extraction
        stream = self.source.open_range(
            extraction.request,
            extraction.schema,
            self.transfer.ledger.run.plan.column,
            partition.bounds,
            self.transfer.snapshot,
        )
        running = _PartitionWrite(
            partition=partition,
            request=partition_request(self.base, partition, str(context.identity.load_id), stamp),
            pump=Pump(
                stream=stream,
                payload=extraction.target.payload,
                progress=context.runtime.progress,
                cancellation=context.runtime.cancellation,
                special_values=extraction.request.special_values,
            ),
            started_at=context.runtime.clock.utc_now(),
        )
        before, checkpoint = commit_state.result, commit_state.native_checkpoint
        try:
            with running.shield:
                return self._commit(running, stamp, earlier)
        except BaseException as error:
            if running.guard is None:
                self.transfer.ledger.record_failed(partition, code_of(error))
                commit_state.mark_refused()
                if checkpoint is CheckpointState.COMMITTED:
                    commit_state.mark_partitions_committed(before, checkpoint)
            raise
        finally:
            stream.close()

    def _commit(
        self, running: _PartitionWrite, stamp: datetime, earlier: list[TransferredPartition]
    ) -> TransferredPartition:
        commit_state = self.context.commit_state
        before, checkpoint = commit_state.result, commit_state.native_checkpoint
        try:
            loaded = self.legacy.load(running.request, self._stream_rows(running, stamp))
        except BaseException as error:
            if running.guard is not None:
                visible = isinstance(error, CommitOutcomeUnknownError) or self._is_visible(running.request)
                move_quietly(running.guard.mark_unknown if visible else running.guard.mark_refused, error)
                if not visible:
                    commit_state.mark_refused()
                    if checkpoint is CheckpointState.COMMITTED:
                        commit_state.mark_partitions_committed(before, checkpoint)
            raise
        assert running.guard is not None  # a sink that returns has read all rows, and the last one armed the guard
        (done,) = running.guard.batch
        commit_state.mark_partitions_committed(self._build_result([*earlier, done], loaded), CheckpointState.UNKNOWN)
        if loaded.written_rows != done.rows_exported:
            lost = ConnectorError(
                f"{done.rows_exported} rows of partition {done.partition.bounds.partition_index} were sent to the "
                f"target, but it holds {loaded.written_rows} of them",
                code="written_row_count_mismatch",
            )
            move_quietly(running.guard.mark_unknown, lost)
            raise lost
        try:
            running.guard.commit()
        except BaseException as error:
            move_quietly(running.guard.mark_incomplete, error)
            raise
        commit_state.native_checkpoint = CheckpointState.COMMITTED
        return done

    def _stream_rows(self, running: _PartitionWrite, stamp: datetime) -> Iterator[pa.RecordBatch]:
        """The batches of the partition.

        After the last one the guard is armed, and then the sink makes the rows visible.
        """
        yield from running.pump.batches()
        context, rows = self.context, running.pump.counters.rows
        refuse_rows_without_window(self.transfer.extraction, rows)
        context.runtime.cancellation.checkpoint()
        running.shield.enter_context(context.runtime.cancellation.shield())
        arm_commit(context, self.transfer.extraction, 0)  # renews the lease; the guard below replaces the intent
        partition, request = running.partition, running.request
        done = TransferredPartition(
            partition=partition,
            rows_exported=rows,
            bytes_exported=running.pump.counters.size_bytes,
            rows_loaded=rows,
            artifact_sha256=artifact_checksum(str(request.target), rows, partition.query_hash, partition.schema_hash),
            load_id=str(context.identity.load_id),
            started_at=running.started_at,
            staged_at=stamp,
            converted_values=running.pump.converted_values,
        )
        witness = {"load_id": str(request.identity.load_id), "attempt": request.identity.attempt, "mark": None}
        guard = self.transfer.ledger.guard_commit([done], witness)
        guard.arm()
        running.guard = guard
        context.commit_state.mark_committing()

    def _is_visible(self, request: StageRequest) -> bool:
        """Whether rows of this partition may be visible; True also when the sink cannot say."""
        try:
            with self.context.runtime.cancellation.shield():
                return self.legacy.has_rows(request.ref)
        except Exception:  # noqa: BLE001 - asking must not hide why the load failed
            return True

    def _evaluate_gates(self, execution: QualityGateExecution, done: list[TransferredPartition]) -> QualityGateReceipt:
        snapshots = self.transfer.scope.committed_snapshots(
            extracted={each.partition.id: each.rows_exported for each in done},
            committed=self.transfer.ledger.committed_rows(),
        )
        outcome = QualityGateFailureOutcome.native_committed(self.context.commit_state.result)
        return evaluate_gates(
            self.context,
            execution,
            Boundary.POST_COMMIT,
            snapshots.source,
            lambda: snapshots.target,
            outcome,
            snapshots.summary,
        )

    def _build_result(self, done: list[TransferredPartition], loaded: LegacyLoadResult) -> LoadResult:
        rows = sum(each.rows_loaded for each in done)
        converted = {each.partition.id: each.converted_values for each in done}
        return LoadResult(
            inserted_rows=rows,
            updated_rows=0,
            final_rows=loaded.total_rows,
            extracted_rows=sum(each.rows_exported for each in done),
            attempts=self.context.identity.attempt,
            governance_finalization=FinalizationPhase.LEGACY_POST_FINALIZE,
            converted_values=total_converted_values(self.context, self.transfer, converted),
        )
