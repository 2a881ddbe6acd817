"""Native transfer into a sink without staging: every range is a load of its own, with its own files.

The guard of a range is armed when its rows have ended, just before the sink makes them visible. Gates are judged once,
over the whole workload, when every range is committed (S0 "For legacy native loads"); what fails after that leaves the
checkpoints committed, and the next attempt validates without calling the sink.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import refuse_unwindowed_rows
from dpone_core.loading.in_doubt import arm_commit
from dpone_core.loading.native.completeness import refuse_lost_rows
from dpone_core.loading.native.model import Transfer, converted_in_all, quietly, range_request
from dpone_core.loading.payload import LoadedPayload
from dpone_core.loading.pump import Pump
from dpone_core.loading.shared_steps import (
    SnapshotSteps,
    acceptance_recorder,
    converted_details,
    judged,
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
class _RangeLoad:
    """One range on its way; `guard` is None until its rows have ended."""

    partition: TransferPartition
    request: StageRequest
    pump: Pump
    started_at: datetime
    guard: GuardedCommit | None = None
    shield: ExitStack = field(default_factory=ExitStack)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeLegacyCoordinator:
    """Coordinates one attempt that has at least one active partition; `base` is the request of the whole load."""

    context: LoadContext
    transfer: Transfer
    legacy: LegacyLoadPort
    source: RangeSourcePort
    base: StageRequest

    def load(self, execution: QualityGateExecution) -> LoadedPayload:
        """Raises whatever failed first; the context's position says on which side of which commit that was."""
        context = self.context
        evidence = SnapshotSteps(context=context)
        recorder = acceptance_recorder(context, execution, evidence)
        payload = self.transfer.extraction.target.payload
        recorder.validate((source_dataset(context, self.transfer), target_dataset(context, payload)))
        evidence.timed(recorder, Side.SOURCE)
        execution.revalidate(context.config)
        started_at = context.runtime.clock.utc_now()
        done = self._load_ranges()  # --------------------------------------------------- the target commit boundaries
        finished_at = context.runtime.clock.utc_now()
        context.runtime.cancellation.checkpoint()
        context.commit_shield.enter_context(context.runtime.cancellation.shielded())
        execution.revalidate(context.config)
        receipt = self._judge(execution, done)
        refuse_lost_rows(context, self.transfer, {each.partition.id: each.rows_exported for each in done})
        evidence.timed(recorder, Side.TARGET)
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
        record_finalized(context, started_at, finished_at, details)
        context.commit_state.result = result.with_acceptance(recorder.run_metrics(result.inserted_rows))
        return LoadedPayload(result=context.commit_state.result, receipt=receipt)

    def _load_ranges(self) -> list[TransferredPartition]:
        """One after the other: two of them must not describe one target at the same time."""
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
        running = _RangeLoad(
            partition=partition,
            request=range_request(self.base, partition, str(context.identity.load_id), stamp),
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
                return self._committed(running, stamp, earlier)
        except BaseException as error:
            if running.guard is None:
                self.transfer.ledger.failed(partition, code_of(error))
                commit_state.refused()
                if checkpoint is CheckpointState.COMMITTED:
                    commit_state.committed_natively(before, checkpoint)
            raise
        finally:
            stream.close()

    def _committed(
        self, running: _RangeLoad, stamp: datetime, earlier: list[TransferredPartition]
    ) -> TransferredPartition:
        commit_state = self.context.commit_state
        before, checkpoint = commit_state.result, commit_state.native_checkpoint
        try:
            loaded = self.legacy.load(running.request, self._rows(running, stamp))
        except BaseException as error:
            if running.guard is not None:
                visible = isinstance(error, CommitOutcomeUnknownError) or self._is_visible(running.request)
                quietly(running.guard.unknown if visible else running.guard.refused, error)
                if not visible:
                    commit_state.refused()
                    if checkpoint is CheckpointState.COMMITTED:
                        commit_state.committed_natively(before, checkpoint)
            raise
        assert running.guard is not None  # a sink that returns has read the rows to their end
        (done,) = running.guard.batch
        commit_state.committed_natively(self._result([*earlier, done], loaded), CheckpointState.UNKNOWN)
        if loaded.written_rows != done.rows_exported:
            lost = ConnectorError(
                f"{done.rows_exported} rows of a range were sent and {loaded.written_rows} are in the target",
                code="written_row_count_mismatch",
            )
            quietly(running.guard.unknown, lost)
            raise lost
        try:
            running.guard.commit()
        except BaseException as error:
            quietly(running.guard.incomplete, error)
            raise
        commit_state.native_checkpoint = CheckpointState.COMMITTED
        return done

    def _rows(self, running: _RangeLoad, stamp: datetime) -> Iterator[pa.RecordBatch]:
        """The range's batches. Once they end the sink makes them visible, behind the armed guard."""
        yield from running.pump.batches()
        context, rows = self.context, running.pump.counters.rows
        refuse_unwindowed_rows(self.transfer.extraction, rows)
        context.runtime.cancellation.checkpoint()
        running.shield.enter_context(context.runtime.cancellation.shielded())
        arm_commit(context, self.transfer.extraction, 0)  # the lease is still ours; the guard is armed below
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
        guard = self.transfer.ledger.guarded([done], witness)
        guard.arm()
        running.guard = guard
        context.commit_state.committing()

    def _is_visible(self, request: StageRequest) -> bool:
        """A sink that cannot say leaves it unknown."""
        try:
            with self.context.runtime.cancellation.shielded():
                return self.legacy.has_rows(request.ref)
        except Exception:  # noqa: BLE001 - asking must not mask why the load failed
            return True

    def _judge(self, execution: QualityGateExecution, done: list[TransferredPartition]) -> QualityGateReceipt:
        snapshots = self.transfer.scope.committed_snapshots(
            extracted={each.partition.id: each.rows_exported for each in done},
            committed=self.transfer.ledger.committed_rows(),
        )
        outcome = QualityGateFailureOutcome.native_committed(self.context.commit_state.result)
        return judged(
            self.context,
            execution,
            Boundary.POST_COMMIT,
            snapshots.source,
            snapshots.target,
            outcome,
            snapshots.summary,
        )

    def _result(self, done: list[TransferredPartition], loaded: LegacyLoadResult) -> LoadResult:
        rows = sum(each.rows_loaded for each in done)
        converted = {each.partition.id: each.converted_values for each in done}
        return LoadResult(
            inserted_rows=rows,
            updated_rows=0,
            final_rows=loaded.total_rows,
            extracted_rows=sum(each.rows_exported for each in done),
            attempts=self.context.identity.attempt,
            governance_finalization=FinalizationPhase.LEGACY_POST_FINALIZE,
            converted_values=converted_in_all(self.context, self.transfer, converted),
        )
