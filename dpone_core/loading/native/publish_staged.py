"""Publishes a native transfer through staging: gates are evaluated over all staged partitions before any is
published.

A full refresh assembles the partitions and publishes once; other strategies publish partition by partition, each with
a commit of its own. A guard is armed before each publication, and its checkpoints are committed right after it (NAT-10,
NAT-12). A failure before the first publication keeps the staged partitions for the next attempt of the run, unless the
rows themselves were refused.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace

from dpone_core.acceptance.policy import AcceptanceMetricError
from dpone_core.acceptance.recorder import SideDataset
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError, DponeError
from dpone_core.evidence.audit import LoadStatus
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import SourceRefusedError, refuse_rows_without_window
from dpone_core.loading.in_doubt import arm_commit, name_lost_lease
from dpone_core.loading.native.completeness import IncompleteRangesError, refuse_lost_rows
from dpone_core.loading.native.model import (
    StagedPartition,
    Transfer,
    add_publications,
    move_quietly,
    partition_ref,
    split_into_batches,
    summarise_staging,
    total_converted_values,
)
from dpone_core.loading.native.stage import PartitionStager
from dpone_core.loading.payload import LoadedPayload
from dpone_core.loading.row_count_check import count_target_rows, refuse_wrong_row_count
from dpone_core.loading.shared_steps import (
    SnapshotSteps,
    acceptance_recorder,
    converted_details,
    evaluate_gates,
    measure_rules,
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
    """Coordinates one attempt with at least one active partition, and changes the CommitState at each commit."""

    context: LoadContext
    transfer: Transfer
    staged: StagedLoadPort
    ranges: RangeStagingPort
    stager: PartitionStager

    def load(self, execution: QualityGateExecution) -> LoadedPayload:
        """Stages, checks and publishes the active partitions; returns counters with the gate receipt.

        Raises the first failure; `context.commit_state` says whether it came before, at, or after a commit.
        """
        context = self.context
        evidence = SnapshotSteps(context=context)
        recorder = acceptance_recorder(context, execution, evidence)
        whole: StagedHandle | None = None
        staged = self._stage()
        try:
            rows = {each.done.partition.id: each.done.rows_exported for each in staged}
            refuse_lost_rows(context, self.transfer, rows)
            refuse_no_partition(context, sum(rows.values()) or len(self.transfer.scope.kept))
            refuse_rows_without_window(self.transfer.extraction, sum(each.handle.staged_rows for each in staged))
            whole = self._assemble(staged, execution)
            receipt = self._evaluate_gates(execution, staged, whole)
            recorder.validate(self._list_datasets(whole))
            evidence.capture(recorder, Side.SOURCE)
            evidence.capture(recorder, Side.STAGED)
            execution.revalidate(context.config)
            context.runtime.cancellation.checkpoint()
        except BaseException as error:
            self._abandon(staged, whole, error)
            raise
        started_at = context.runtime.clock.utc_now()
        finalized = self._publish(staged, whole)  # ------------------------------------ the target commit boundaries
        finished_at = context.runtime.clock.utc_now()
        evidence.capture(recorder, Side.TARGET)
        result = context.commit_state.result
        details: dict[str, object] = {
            "finaliser": finalized[-1].finaliser,
            "publications": len(finalized),
            "inserted_rows": result.inserted_rows,
            "updated_rows": result.updated_rows,
            "final_rows": result.final_rows,
        }
        record_finalized(context, self.stager.base.added, started_at, finished_at, details)
        self._cleanup(whole)
        context.commit_state.result = result.with_acceptance(recorder.run_metrics(result.loaded_rows))
        return LoadedPayload(result=context.commit_state.result, receipt=receipt)

    def _stage(self) -> tuple[StagedPartition, ...]:
        context = self.context
        context.runtime.progress.phase("stage")
        with context.step_log.step("staged", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
            staged = self.stager.stage()
            converted = {each.done.partition.id: each.done.converted_values for each in staged}
            result = replace(
                summarise_staging(context, staged),
                converted_values=total_converted_values(context, self.transfer, converted),
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
        context.step_log.record_load_status(
            LoadStatus.STAGED, extracted_rows=result.extracted_rows, staged_rows=result.staged_rows
        )
        return staged

    def _assemble(self, staged: tuple[StagedPartition, ...], execution: QualityGateExecution) -> StagedHandle | None:
        """One dataset of all active partitions, for a full refresh and for acceptance of the staged side; else None."""
        measured = Side.STAGED in execution.snapshot.acceptance.requested_sides
        if not measured and self.context.plan.target.strategy is not StrategyMode.FULL_REFRESH:
            return None
        return self.ranges.assemble(self.stager.base, [each.handle for each in staged])

    def _evaluate_gates(
        self, execution: QualityGateExecution, staged: tuple[StagedPartition, ...], whole: StagedHandle | None
    ) -> QualityGateReceipt:
        """Rules about columns are judged over the whole; where there is none, a plan with such rules was refused."""
        snapshots = self.transfer.scope.projected_snapshots(
            extracted={each.done.partition.id: each.done.rows_exported for each in staged},
            staged={each.done.partition.id: each.handle.staged_rows for each in staged},
            committed=self.transfer.ledger.committed_rows(),
        )
        outcome = QualityGateFailureOutcome.pre_commit(self.context.commit_state.result)
        return evaluate_gates(
            self.context,
            execution,
            Boundary.PRE_COMMIT,
            snapshots.source,
            lambda: replace(snapshots.target, rules=measure_rules(self.context, execution, whole)),
            outcome,
            snapshots.summary,
        )

    def _list_datasets(self, whole: StagedHandle | None) -> tuple[SideDataset, ...]:
        payload = self.transfer.extraction.target.payload
        sides = (source_dataset(self.context, self.transfer), target_dataset(self.context, payload))
        if whole is None:
            return sides
        return (*sides, SideDataset(side=Side.STAGED, dataset=str(whole.table), schema=payload, table=whole.table))

    def _publish(self, staged: tuple[StagedPartition, ...], whole: StagedHandle | None) -> list[FinalizeResult]:
        """Publishes one batch for a full refresh, else one per partition.

        A termination waits until its batch is committed.
        """
        context, cancellation = self.context, self.context.runtime.cancellation
        context.runtime.progress.phase("finalize")
        refreshes = context.plan.target.strategy is StrategyMode.FULL_REFRESH and whole is not None
        batches = [(staged, whole)] if refreshes else split_into_batches(staged)
        finalized: list[FinalizeResult] = []
        for number, (batch, handle) in enumerate(batches, 1):
            assert handle is not None  # a full refresh was assembled, a partition has its own handle
            shield = context.commit_shield if number == len(batches) else ExitStack()
            shield.enter_context(cancellation.shield())
            try:
                self._commit(batch, handle, finalized)
            finally:
                if shield is not context.commit_shield:
                    shield.close()
            if number < len(batches):
                cancellation.checkpoint()
        return finalized

    def _commit(
        self, batch: tuple[StagedPartition, ...], handle: StagedHandle, finalized: list[FinalizeResult]
    ) -> None:
        context, commit_state = self.context, self.context.commit_state
        before = count_target_rows(context)
        arm_commit(context, self.transfer.extraction, 0)  # renews the lease; the guard below replaces the intent
        guard = self.transfer.ledger.guard_commit([each.done for each in batch], self._name_publication(handle))
        try:
            guard.arm()
        except BaseException as error:
            move_quietly(guard.mark_refused, error)  # it may be stored although the answer was lost
            raise
        earlier, checkpoint = commit_state.result, commit_state.native_checkpoint
        commit_state.mark_committing()
        try:
            done = self.staged.finalize(handle)
        except CommitOutcomeUnknownError as error:
            move_quietly(guard.mark_unknown, error)
            raise
        except ConnectorError as error:
            commit_state.mark_refused()
            if checkpoint is CheckpointState.COMMITTED:
                commit_state.mark_partitions_committed(earlier, checkpoint)
            move_quietly(guard.mark_refused, error)
            raise name_lost_lease(context, error) from error.__cause__
        except BaseException as error:
            move_quietly(guard.mark_unknown, error)
            raise
        finalized.append(done)
        commit_state.mark_partitions_committed(add_publications(earlier, finalized), CheckpointState.UNKNOWN)
        self._commit_checkpoints(guard, done, handle, before)
        commit_state.native_checkpoint = CheckpointState.COMMITTED

    def _commit_checkpoints(
        self, guard: GuardedCommit, done: FinalizeResult, handle: StagedHandle, before: int | None
    ) -> None:
        """Commits the checkpoints of a published batch, after the target was counted and gained the staged rows."""
        try:
            refuse_wrong_row_count(self.context, done, handle.staged_rows, before)
        except DponeError as error:
            move_quietly(guard.mark_unknown, error)
            raise
        try:
            guard.commit()
        except BaseException as error:
            move_quietly(guard.mark_incomplete, error)
            raise

    def _name_publication(self, handle: StagedHandle) -> dict[str, object]:
        """Names the publication for the sink, so that `dpone transfer reconcile` can ask for it after a crash."""
        publications, identity = self.context.sessions.sink.publications, handle.request.identity
        mark = None if publications is None else publications.last_marker(self.context.plan.target.table)
        return {"load_id": str(identity.load_id), "attempt": identity.attempt, "mark": mark}

    def _abandon(self, staged: tuple[StagedPartition, ...], whole: StagedHandle | None, error: BaseException) -> None:
        """Cleans up after a failure before any publication.

        Partitions whose rows were refused lose their staging and are read again; otherwise staging is kept for the next
        attempt. A failure of the cleanup becomes the warning `staged_abort_incomplete`.
        """
        refused = isinstance(
            error, QualityGateFailure | AcceptanceMetricError | SourceRefusedError | IncompleteRangesError
        )
        try:
            with self.context.runtime.cancellation.shield():
                if whole is not None:
                    self.staged.cleanup(whole.ref)
                for each in staged if refused else ():
                    self.transfer.ledger.record_failed(each.done.partition, code_of(error))
                    self.staged.cleanup(each.handle.ref)
        except Exception:  # noqa: BLE001 - cleanup must not hide the first error
            self.context.step_log.warnings.append("staged_abort_incomplete")

    def _cleanup(self, whole: StagedHandle | None) -> None:
        """Removes the staging of every planned partition, also of those that an earlier attempt published and left
        behind.
        """
        resume = self.transfer.resume
        partitions = resume.planned if self.transfer.resumed else resume.active
        with self.context.step_log.step("cleanup", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
            step.details["rows"] = self.context.commit_state.result.staged_rows
            try:
                for handle in () if whole is None else (whole,):
                    self.staged.cleanup(handle.ref)
                for partition in partitions:
                    self.staged.cleanup(partition_ref(self.context, partition.id))
            except DponeError as error:
                raise EvidenceWriteError(
                    "the load is committed, but its staging could not be removed", code="staged_cleanup_failed"
                ) from error
