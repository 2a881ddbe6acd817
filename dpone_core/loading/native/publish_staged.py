"""Native transfer into a sink with staging: all ranges are staged and judged as one workload before any is published.

A full refresh puts the ranges together and publishes once; an append publishes range by range, each committed by
itself. Around each publication stands an armed guard; its checkpoints are committed before anything else may fail
(S0 "Failure ordering" 2, 3, 5). A failure before the first publication keeps what is staged for the next attempt of the
same run, unless the rows themselves were refused.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace

from dpone_core.acceptance.policy import AcceptanceMetricError
from dpone_core.acceptance.recorder import SideDataset
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError, DponeError
from dpone_core.evidence.audit import LoadStatus
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import SourceRefusedError, refuse_unwindowed_rows
from dpone_core.loading.in_doubt import arm_commit
from dpone_core.loading.native.completeness import IncompleteRangesError, refuse_lost_rows
from dpone_core.loading.native.model import (
    StagedRange,
    Transfer,
    converted_in_all,
    published_result,
    quietly,
    range_batches,
    range_ref,
    staged_result,
)
from dpone_core.loading.native.stage import RangeStager
from dpone_core.loading.payload import LoadedPayload
from dpone_core.loading.row_count_check import refuse_wrong_growth, rows_in_target
from dpone_core.loading.shared_steps import (
    SnapshotSteps,
    acceptance_recorder,
    converted_details,
    judged,
    record_finalized,
    refuse_no_partition,
    source_dataset,
    target_dataset,
)
from dpone_core.loading.step_log import GOVERNANCE_KIND, GOVERNANCE_PHASE, EvidenceWriteError, code_of
from dpone_core.model.outcome import QualityGateFailureOutcome
from dpone_core.model.vocabulary import Boundary, CheckpointState, Side, StrategyMode
from dpone_core.native_transfer.ledger import GuardedCommit
from dpone_core.ports.ranges import RangeStagingPort
from dpone_core.ports.sink import FinalizeResult, StagedHandle, StagedLoadPort
from dpone_core.quality.execution import QualityGateExecution
from dpone_core.quality.failure import QualityGateFailure
from dpone_core.quality.receipt import QualityGateReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeStagedCoordinator:
    """Coordinates one attempt that has at least one active partition."""

    context: LoadContext
    transfer: Transfer
    staged: StagedLoadPort
    ranges: RangeStagingPort
    stager: RangeStager

    def load(self, execution: QualityGateExecution) -> LoadedPayload:
        """Raises whatever failed first; the context's position says on which side of which commit that was."""
        context = self.context
        evidence = SnapshotSteps(context=context)
        recorder = acceptance_recorder(context, execution, evidence)
        whole: StagedHandle | None = None
        staged = self._stage()
        try:
            rows = {each.done.partition.id: each.done.rows_exported for each in staged}
            refuse_lost_rows(context, self.transfer, rows)
            refuse_no_partition(context, sum(rows.values()) or len(self.transfer.scope.kept))
            refuse_unwindowed_rows(self.transfer.extraction, sum(each.handle.staged_rows for each in staged))
            whole = self._assembled(staged, execution)
            receipt = self._judge(execution, staged)
            recorder.validate(self._datasets(whole))
            evidence.timed(recorder, Side.SOURCE)
            evidence.timed(recorder, Side.STAGED)
            execution.revalidate(context.config)
            context.runtime.cancellation.checkpoint()
        except BaseException as error:
            self._abandon(staged, whole, error)
            raise
        started_at = context.runtime.clock.utc_now()
        finalized = self._publish(staged, whole)  # ------------------------------------ the target commit boundaries
        finished_at = context.runtime.clock.utc_now()
        evidence.timed(recorder, Side.TARGET)
        result = context.commit_state.result
        details: dict[str, object] = {
            "finaliser": finalized[-1].finaliser,
            "publications": len(finalized),
            "inserted_rows": result.inserted_rows,
            "updated_rows": result.updated_rows,
            "final_rows": result.final_rows,
        }
        record_finalized(context, started_at, finished_at, details)
        self._cleanup(whole)
        context.commit_state.result = result.with_acceptance(recorder.run_metrics(result.inserted_rows))
        return LoadedPayload(result=context.commit_state.result, receipt=receipt)

    def _stage(self) -> tuple[StagedRange, ...]:
        context = self.context
        context.runtime.progress.phase("stage")
        with context.step_log.step("staged", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
            staged = self.stager.stage()
            converted = {each.done.partition.id: each.done.converted_values for each in staged}
            result = replace(
                staged_result(context, staged), converted_values=converted_in_all(context, self.transfer, converted)
            )
            context.commit_state.result = result
            step.details |= {
                "rows": result.staged_rows,
                "bytes": sum(each.done.bytes_exported or 0 for each in staged if not each.done.reused),
                "extracted_rows": result.extracted_rows,
                "columns": len(self.stager.base.schema.columns),
                "partitions": len(staged),
                "partitions_reused": sum(each.done.reused for each in staged),
                "workers": self.stager.partitioning.workers,
                **converted_details(result),
            }
        context.step_log.load_status(
            LoadStatus.STAGED, extracted_rows=result.extracted_rows, staged_rows=result.staged_rows
        )
        return staged

    def _assembled(self, staged: tuple[StagedRange, ...], execution: QualityGateExecution) -> StagedHandle | None:
        """One dataset of all active ranges: what a full refresh publishes, and what staged acceptance measures."""
        measured = Side.STAGED in execution.snapshot.acceptance.requested_sides
        if not measured and self.context.plan.target.strategy is not StrategyMode.FULL_REFRESH:
            return None
        return self.ranges.assemble(self.stager.base, [each.handle for each in staged])

    def _judge(self, execution: QualityGateExecution, staged: tuple[StagedRange, ...]) -> QualityGateReceipt:
        snapshots = self.transfer.scope.projected_snapshots(
            extracted={each.done.partition.id: each.done.rows_exported for each in staged},
            staged={each.done.partition.id: each.handle.staged_rows for each in staged},
            committed=self.transfer.ledger.committed_rows(),
        )
        outcome = QualityGateFailureOutcome.pre_commit(self.context.commit_state.result)
        return judged(
            self.context,
            execution,
            Boundary.PRE_COMMIT,
            snapshots.source,
            snapshots.target,
            outcome,
            snapshots.summary,
        )

    def _datasets(self, whole: StagedHandle | None) -> tuple[SideDataset, ...]:
        payload = self.transfer.extraction.target.payload
        sides = (source_dataset(self.context, self.transfer), target_dataset(self.context, payload))
        if whole is None:
            return sides
        return (*sides, SideDataset(side=Side.STAGED, dataset=str(whole.table), schema=payload, table=whole.table))

    def _publish(self, staged: tuple[StagedRange, ...], whole: StagedHandle | None) -> list[FinalizeResult]:
        """One batch for a full refresh, one per range otherwise; a termination waits until a batch is committed."""
        context, cancellation = self.context, self.context.runtime.cancellation
        context.runtime.progress.phase("finalize")
        refreshes = context.plan.target.strategy is StrategyMode.FULL_REFRESH and whole is not None
        batches = [(staged, whole)] if refreshes else range_batches(staged)
        finalized: list[FinalizeResult] = []
        for number, (batch, handle) in enumerate(batches, 1):
            assert handle is not None  # a full refresh is assembled, a range has its own
            shield = context.commit_shield if number == len(batches) else ExitStack()
            shield.enter_context(cancellation.shielded())
            try:
                self._commit(batch, handle, finalized)
            finally:
                if shield is not context.commit_shield:
                    shield.close()
            if number < len(batches):
                cancellation.checkpoint()
        return finalized

    def _commit(self, batch: tuple[StagedRange, ...], handle: StagedHandle, finalized: list[FinalizeResult]) -> None:
        context, commit_state = self.context, self.context.commit_state
        before = rows_in_target(context)
        arm_commit(context, self.transfer.extraction, 0)  # the lease is still ours; the guard is armed below
        guard = self.transfer.ledger.guarded([each.done for each in batch], self._witness(handle))
        try:
            guard.arm()
        except BaseException as error:
            quietly(guard.refused, error)  # it may be durable although its answer was lost
            raise
        earlier, checkpoint = commit_state.result, commit_state.native_checkpoint
        commit_state.committing()
        try:
            done = self.staged.finalize(handle)
        except CommitOutcomeUnknownError as error:
            quietly(guard.unknown, error)
            raise
        except ConnectorError as error:
            commit_state.refused()
            if checkpoint is CheckpointState.COMMITTED:
                commit_state.committed_natively(earlier, checkpoint)
            quietly(guard.refused, error)
            raise
        except BaseException as error:
            quietly(guard.unknown, error)
            raise
        finalized.append(done)
        commit_state.committed_natively(published_result(earlier, finalized), CheckpointState.UNKNOWN)
        self._settle(guard, done, handle, before)
        commit_state.native_checkpoint = CheckpointState.COMMITTED

    def _settle(self, guard: GuardedCommit, done: FinalizeResult, handle: StagedHandle, before: int | None) -> None:
        """Checkpoints say COMMITTED only of a target that gained what was staged."""
        try:
            refuse_wrong_growth(self.context, done, handle.staged_rows, before)
        except DponeError as error:
            quietly(guard.unknown, error)
            raise
        try:
            guard.commit()
        except BaseException as error:
            quietly(guard.incomplete, error)
            raise

    def _witness(self, handle: StagedHandle) -> dict[str, object]:
        """What the sink is asked with, should this process not live to say what became of the batch."""
        publications, identity = self.context.sessions.sink.publications, handle.request.identity
        mark = None if publications is None else publications.last_marker(self.context.plan.target.table)
        return {"load_id": str(identity.load_id), "attempt": identity.attempt, "mark": mark}

    def _abandon(self, staged: tuple[StagedRange, ...], whole: StagedHandle | None, error: BaseException) -> None:
        """Before any publication. Refused rows are removed and read again next time; everything else is kept."""
        refused = isinstance(
            error, QualityGateFailure | AcceptanceMetricError | SourceRefusedError | IncompleteRangesError
        )
        try:
            with self.context.runtime.cancellation.shielded():
                if whole is not None:
                    self.staged.cleanup(whole.ref)
                for each in staged if refused else ():
                    self.transfer.ledger.failed(each.done.partition, code_of(error))
                    self.staged.cleanup(each.handle.ref)
        except Exception:  # noqa: BLE001 - cleanup must not mask what brought us here
            self.context.step_log.warnings.append("staged_abort_incomplete")

    def _cleanup(self, whole: StagedHandle | None) -> None:
        """Staging of every planned range, also of those an earlier attempt published and did not live to remove."""
        resume = self.transfer.resume
        partitions = resume.planned if self.transfer.resumed else resume.active
        with self.context.step_log.step("cleanup", GOVERNANCE_PHASE, GOVERNANCE_KIND):
            try:
                for handle in () if whole is None else (whole,):
                    self.staged.cleanup(handle.ref)
                for partition in partitions:
                    self.staged.cleanup(range_ref(self.context, partition.id))
            except DponeError as error:
                raise EvidenceWriteError(
                    "staging of this committed load could not be removed", code="staged_cleanup_failed"
                ) from error
