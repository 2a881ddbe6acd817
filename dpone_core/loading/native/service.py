"""Transfers an extraction in partitions and resumes where an earlier attempt of the same run stopped.

It plans, runs the coordinator that fits what is left to do, accepts its gate receipt, and only then publishes the
transfer report that says success.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Final

from dpone_core.errors import ETLConfigurationError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction
from dpone_core.loading.native.model import Transfer
from dpone_core.loading.native.plan import TransferPlanner
from dpone_core.loading.native.publish_legacy import NativeLegacyCoordinator
from dpone_core.loading.native.publish_staged import NativeStagedCoordinator
from dpone_core.loading.native.resume import ResumeOnlyCoordinator
from dpone_core.loading.native.stage import PartitionStager
from dpone_core.loading.native.stored_plan import StoredTransfer
from dpone_core.loading.payload import LoadedPayload
from dpone_core.loading.shared_steps import stage_request
from dpone_core.loading.step_log import GOVERNANCE_KIND, GOVERNANCE_PHASE
from dpone_core.model.load_config import PartitioningConfig
from dpone_core.model.partition import TransferRunState
from dpone_core.model.vocabulary import CheckpointState, LoadPath, TargetState
from dpone_core.native_transfer.checkpoints import CheckpointSupersededError
from dpone_core.native_transfer.report import CommitUnknown, TransferReport, publish_report
from dpone_core.ports.sink import LegacyLoadPort
from dpone_core.quality.execution import QualityGateExecution
from dpone_core.quality.scope import QualityScopeSummary

EXPORTED_SNAPSHOT: Final = "exported_snapshot"
NO_SNAPSHOT: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeLoad:
    """A committed transfer. `extraction` has the cursor window and the next cursor that the first attempt planned."""

    extraction: Extraction
    loaded: LoadedPayload
    transfer: Transfer

    def complete(self, context: LoadContext) -> None:
        """Marks the run as complete, once its source state is durable: the run id then loads anew.

        When another process has planned the run anew meanwhile, that plan stays and a warning is recorded.
        """
        ledger = self.transfer.ledger
        now = context.runtime.clock.utc_now()
        try:
            ledger.store.save_run(replace(ledger.run, state=TransferRunState.COMPLETE, updated_at=now), ledger.run)
        except CheckpointSupersededError:
            context.step_log.warnings.append("transfer_run_superseded")


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeTransferService:
    """Runs one attempt of a load whose plan splits the extraction into partitions."""

    context: LoadContext
    partitioning: PartitioningConfig

    def load(self, extraction: Extraction, execution: QualityGateExecution) -> NativeLoad:
        """Returns the committed transfer; its receipt is accepted and its report published.

        Raises the first failure. If it leaves a commit in doubt, the report says COMMIT_UNKNOWN.
        """
        with ExitStack() as stack:
            transfer = self._plan(extraction, stack)
            try:
                loaded = self._coordinate(transfer, execution)
                execution.accept_payload(loaded.receipt)
                execution.revalidate(self.context.config)
                publish_report(
                    self.context.runtime.evidence, self._build_report(transfer, loaded.receipt.scope_summary)
                )
            except BaseException:
                self._report_unknown(transfer)
                raise
        return NativeLoad(extraction=transfer.extraction, loaded=loaded, transfer=transfer)

    def _plan(self, extraction: Extraction, stack: ExitStack) -> Transfer:
        sessions = self.context.sessions
        source, store = sessions.source.ranges, sessions.checkpoints
        if source is None or store is None:
            raise ETLConfigurationError("this route does not transfer key ranges", code="DPONE_ROUTE_REFUSED")
        planner = TransferPlanner(context=self.context, store=store, source=source, partitioning=self.partitioning)
        self.context.runtime.progress.phase("plan_ranges")
        with self.context.step_log.step("transfer_planned", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
            snapshot = stack.enter_context(source.snapshot())
            expected = self.context.request.transfer_plan
            if expected is None:
                transfer = planner.plan(extraction, snapshot)
            else:
                stored = StoredTransfer(context=self.context, store=store, expected=expected)
                transfer = stored.resume_for_publishing(extraction, snapshot)
                step.details["transfer_plan"] = expected
            if store.has_torn_end(transfer.ledger.run.route, transfer.ledger.run.run_id):
                self.context.step_log.warnings.append("checkpoint_tail_torn")
            self.context.commit_state.window = transfer.extraction.read_window
            scope = transfer.scope
            step.details |= {
                "planned_count": len(scope.planned),
                "active_count": len(scope.active),
                "skipped_committed_count": len(scope.skipped),
                "reactivated_count": len(scope.reactivated),
                "scope_digest": scope.digest,
                "resumed": transfer.resumed,
                "consistency": consistency(transfer),
            }
        return transfer

    def _coordinate(self, transfer: Transfer, execution: QualityGateExecution) -> LoadedPayload:
        context, sink = self.context, self.context.sessions.sink
        if transfer.scope.is_resume_only:
            execution.select_path(LoadPath.RESUME)
            return ResumeOnlyCoordinator(context=context, transfer=transfer).load(execution)
        execution.select_path(context.plan.load_path)
        if sink.legacy is not None:
            return self._load_without_staging(transfer, sink.legacy, execution)
        if sink.staged is None or sink.ranges is None or context.sessions.open_reader is None:
            raise ETLConfigurationError("this route does not transfer key ranges", code="DPONE_ROUTE_REFUSED")
        request = stage_request(context, transfer)
        execution.revalidate(context.config)
        sink.target.preflight(request)
        stager = PartitionStager(
            context=context,
            transfer=transfer,
            staged=sink.staged,
            ranges=sink.ranges,
            open_reader=context.sessions.open_reader,
            partitioning=self.partitioning,
            base=request,
            reads=context.request.transfer_plan is None,
        )
        return NativeStagedCoordinator(
            context=context, transfer=transfer, staged=sink.staged, ranges=sink.ranges, stager=stager
        ).load(execution)

    def _load_without_staging(
        self, transfer: Transfer, legacy: LegacyLoadPort, execution: QualityGateExecution
    ) -> LoadedPayload:
        context, source = self.context, self.context.sessions.source.ranges
        if source is None:
            raise ETLConfigurationError("this route does not transfer key ranges", code="DPONE_ROUTE_REFUSED")
        request = stage_request(context, transfer)
        context.sessions.sink.target.preflight(request)
        execution.revalidate(context.config)
        return NativeLegacyCoordinator(
            context=context, transfer=transfer, legacy=legacy, source=source, base=request
        ).load(execution)

    def _build_report(
        self, transfer: Transfer, scope: QualityScopeSummary | None, unknown: CommitUnknown | None = None
    ) -> TransferReport:
        context, plan = self.context, self.context.plan
        planned = {partition.id for partition in transfer.resume.planned}
        return TransferReport(
            process=plan.process,
            run_id=str(context.identity.run_id),
            load_id=str(context.identity.load_id),
            source_type=plan.source.type.value,
            sink_type=plan.target.type.value,
            strategy=plan.target.strategy.value,
            created_at=context.runtime.clock.utc_now(),
            consistency=consistency(transfer),
            checkpoints=tuple(record for key, record in transfer.ledger.latest.items() if key in planned),
            resume=transfer.resume,
            result=context.commit_state.result,
            quality_scope=None if scope is None else scope.as_json(),
            warnings=tuple(context.step_log.warnings),
            unknown=unknown,
        )

    def _report_unknown(self, transfer: Transfer) -> None:
        """Publishes a COMMIT_UNKNOWN report when the target or its checkpoints are in doubt. Best effort."""
        commit_state = self.context.commit_state
        if commit_state.target_state is TargetState.UNKNOWN:
            unknown = CommitUnknown(failure_boundary="target_invocation", checkpoint_state="not_advanced")
        elif commit_state.native_checkpoint is CheckpointState.UNKNOWN:
            unknown = CommitUnknown(failure_boundary="checkpoint_persistence", checkpoint_state="incomplete")
        else:
            return
        with suppress(Exception), self.context.runtime.cancellation.shield():
            publish_report(self.context.runtime.evidence, self._build_report(transfer, None, unknown))


def consistency(transfer: Transfer) -> str:
    """`exported_snapshot` when all partitions were read from one source snapshot by this attempt, else `none`."""
    return EXPORTED_SNAPSHOT if transfer.snapshot is not None and not transfer.resumed else NO_SNAPSHOT
