"""The staged path: everything is judged before `finalize`, and `finalize` is the only line that changes the target.

Order of lines = order of S1 "Acceptance lifecycle" and S0 "Staged load". Evidence and cleanup failures after the
commit are reported as such; the finalized target is never aborted.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime

from dpone_core.acceptance.recorder import AcceptanceMetricsRecorder, SideDataset, SideProbes
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError, DponeError
from dpone_core.evidence.audit import LoadStatus, StepOutcome, utc_text
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import refuse_unwindowed_rows
from dpone_core.loading.payload import ExtractedPayload, PayloadLoad
from dpone_core.loading.record import EVIDENCE_KIND, GOVERNANCE_KIND, GOVERNANCE_PHASE, EvidenceWriteError
from dpone_core.model import lineage
from dpone_core.model.outcome import AcceptanceMetricSnapshot, LoadResult, QualityGateFailureOutcome
from dpone_core.model.vocabulary import Boundary, FinalizationPhase, LoadPath, Side, StrategyMode
from dpone_core.ports.sink import FinalizeResult, LineageColumns, StagedHandle, StageRequest
from dpone_core.quality.execution import QualityGateExecution
from dpone_core.quality.failure import QualityGateFailure
from dpone_core.quality.gates import QualitySideSnapshot
from dpone_core.quality.receipt import QualityGateReceipt


class StagedCleanupError(EvidenceWriteError):
    """The target is committed and this load's staging objects are still there."""

    code = "staged_cleanup_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGovernanceFinalizationCoordinator:
    """Coordinates one staged load of one attempt; owns the position around the commit boundary."""

    context: LoadContext

    def load(self, payload: ExtractedPayload, execution: QualityGateExecution) -> PayloadLoad:
        """Raises whatever failed first; the context's position says on which side of the commit that was."""
        context, sink = self.context, self.context.sessions.sink
        evidence = _SnapshotSteps(context=context)
        recorder = self._recorder(execution, evidence)
        request = self._stage_request(payload)
        execution.revalidate(context.config)
        self._add_columns(payload)
        sink.target.preflight(request)
        handle = self._stage(request, payload)
        try:
            self._project_lineage(handle)
            receipt = self._judge(execution, handle, payload)
            recorder.validate(self._datasets(payload, handle))
            evidence.timed(recorder, Side.SOURCE)
            evidence.timed(recorder, Side.STAGED)
            execution.revalidate(context.config)
            context.environment.cancellation.checkpoint()
        except BaseException:
            self._abort(handle)
            raise
        context.commit_shield.enter_context(context.environment.cancellation.shielded())
        started_at = context.environment.clock.utc_now()
        finalized = self._finalize(handle)  # ------------------------------------------- the target commit boundary
        finished_at = context.environment.clock.utc_now()
        evidence.timed(recorder, Side.TARGET)
        self._record_finalized(finalized, started_at, finished_at)
        self._cleanup(handle)
        metrics = recorder.run_metrics(finalized.inserted_rows)
        context.position.result = context.position.result.with_acceptance(metrics)
        return PayloadLoad(result=context.position.result, receipt=receipt)

    def _recorder(self, execution: QualityGateExecution, evidence: _SnapshotSteps) -> AcceptanceMetricsRecorder:
        sessions = self.context.sessions
        return AcceptanceMetricsRecorder(
            policy=execution.snapshot.acceptance,
            load_path=LoadPath.STAGED,
            probes=SideProbes(source=sessions.source.metrics, sink=sessions.sink.metrics),
            evidence=evidence,
        )

    def _stage_request(self, payload: ExtractedPayload) -> StageRequest:
        context, target = self.context, self.context.plan.target
        return StageRequest(
            identity=context.identity,
            target=target.table,
            staging_schema=target.staging_schema,
            schema=payload.extraction.target.payload,
            strategy=target.strategy,
            physical_design=target.physical_design,
            lineage=lineage_columns(context),
        )

    def _stage(self, request: StageRequest, payload: ExtractedPayload) -> StagedHandle:
        context = self.context
        context.environment.progress.phase("stage")
        with ExitStack() as unrecorded:
            with context.record.step("staged", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
                handle = context.sessions.sink.staged.stage(request, payload.pump.batches())
                unrecorded.callback(self._abort, handle)
                counters = payload.pump.counters
                context.position.result = LoadResult(
                    extracted_rows=counters.rows,
                    staged_rows=handle.staged_rows,
                    attempts=context.identity.attempt,
                    governance_finalization=FinalizationPhase.PRE_FINALIZE,
                )
                step.details |= {
                    "rows": handle.staged_rows,
                    "bytes": counters.size_bytes,
                    "extracted_rows": counters.rows,
                    "columns": len(request.schema.columns),
                }
                if handle.staged_rows != counters.rows:
                    raise ConnectorError(
                        f"{counters.rows} rows were sent and {handle.staged_rows} are staged",
                        code="staged_row_count_mismatch",
                    )
                refuse_unwindowed_rows(payload.extraction, counters.rows)
            context.record.load_status(LoadStatus.STAGED, extracted_rows=counters.rows, staged_rows=handle.staged_rows)
            unrecorded.pop_all()
        return handle

    def _project_lineage(self, handle: StagedHandle) -> None:
        context = self.context
        with context.record.step("lineage_projected", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
            projection = context.sessions.sink.staged.project_lineage(handle)
            step.details |= {"rows": projection.rows, "projected_columns": list(projection.columns)}
            expected = handle.staged_rows if context.plan.target.lineage_columns else projection.rows
            if projection.rows != expected or set(projection.columns) != set(context.plan.target.lineage_columns):
                raise ConnectorError(
                    "staged rows do not carry this load's lineage", code="lineage_projection_incomplete"
                )

    def _judge(
        self, execution: QualityGateExecution, handle: StagedHandle, payload: ExtractedPayload
    ) -> QualityGateReceipt:
        """Source rows are those that flowed to the sink, target rows those of this load in staging."""
        context = self.context
        with context.record.step("quality_checked", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
            try:
                receipt = execution.evaluate(
                    boundary=Boundary.PRE_COMMIT,
                    source=QualitySideSnapshot(row_count=payload.pump.counters.rows),
                    target=QualitySideSnapshot(row_count=handle.staged_rows),
                    outcome=QualityGateFailureOutcome.pre_commit(context.position.result),
                )
            except QualityGateFailure as failure:
                step.details |= {"quality_gates": failure.report.as_json()}
                raise
            step.details |= {"quality_gates": receipt.report.as_json()}
        return receipt

    def _datasets(self, payload: ExtractedPayload, handle: StagedHandle) -> tuple[SideDataset, ...]:
        context = self.context
        return (
            SideDataset(
                side=Side.SOURCE,
                dataset=context.plan.source.dataset,
                schema=payload.extraction.schema,
                extract=payload.extraction.request,
            ),
            SideDataset(side=Side.STAGED, dataset=str(handle.table), schema=handle.payload_schema, table=handle.table),
            SideDataset(
                side=Side.TARGET,
                dataset=str(context.plan.target.table),
                schema=handle.payload_schema,
                table=context.plan.target.table,
            ),
        )

    def _add_columns(self, payload: ExtractedPayload) -> None:
        """Before staging, which takes the target's shape. Nullable columns only: no row of the target changes."""
        added = payload.extraction.target.added
        if added.columns:
            with self.context.record.step("columns_added", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
                step.details["columns"] = list(added.names)
                self.context.sessions.sink.target.add_columns(self.context.plan.target.table, added)

    def _finalize(self, handle: StagedHandle) -> FinalizeResult:
        position = self.context.position
        self.context.environment.progress.phase("finalize")
        position.committing()
        try:
            finalized = self.context.sessions.sink.staged.finalize(handle)
        except CommitOutcomeUnknownError:
            raise
        except ConnectorError:
            position.refused()
            self._abort(handle)
            raise
        staged = position.result
        position.committed(
            LoadResult(
                inserted_rows=finalized.inserted_rows,
                updated_rows=finalized.updated_rows,
                final_rows=finalized.total_rows,
                extracted_rows=staged.extracted_rows,
                staged_rows=staged.staged_rows,
                attempts=staged.attempts,
                governance_finalization=FinalizationPhase.PRE_FINALIZE,
            )
        )
        return finalized

    def _record_finalized(self, finalized: FinalizeResult, started_at: datetime, finished_at: datetime) -> None:
        record = self.context.record
        details: dict[str, object] = {
            "finaliser": finalized.finaliser,
            "inserted_rows": finalized.inserted_rows,
            "updated_rows": finalized.updated_rows,
            "final_rows": finalized.total_rows,
            "atomic_for": self.context.plan.target.finaliser.atomic_for,
        }
        try:
            record.completed("finalized", GOVERNANCE_PHASE, GOVERNANCE_KIND, started_at, finished_at, details)
        except EvidenceWriteError as error:
            raise EvidenceWriteError(error.message, code="finalized_evidence_failed") from error

    def _cleanup(self, handle: StagedHandle) -> None:
        with self.context.record.step("cleanup", GOVERNANCE_PHASE, GOVERNANCE_KIND):
            try:
                self.context.sessions.sink.staged.cleanup(handle)
            except DponeError as error:
                raise StagedCleanupError("staging of this committed load could not be removed") from error

    def _abort(self, handle: StagedHandle) -> None:
        """Removes staging before the commit; its own failure is noted and never hides the primary error.

        A second signal waits until it is done.
        """
        try:
            with self.context.environment.cancellation.shielded():
                self.context.sessions.sink.staged.cleanup(handle)
        except Exception:  # noqa: BLE001 - cleanup must not mask what brought us here
            self.context.record.warnings.append("staged_abort_incomplete")


def lineage_columns(context: LoadContext) -> LineageColumns:
    """Load-constant values of the planned technical columns; the sink computes the row id from the unique key."""
    target, config = context.plan.target, context.config
    now = utc_text(context.environment.clock.utc_now())
    values = {
        lineage.RUN_ID: str(context.identity.run_id),
        lineage.LOAD_ID: str(context.identity.load_id),
        lineage.LOADED_AT: now,
        lineage.EXTRACTED_AT: now,
        lineage.OPERATION: "insert" if target.strategy is StrategyMode.INCREMENTAL_APPEND else "snapshot",
        lineage.META: "{}",
    }
    table = config.source.table
    return LineageColumns(
        constants={name: values[name] for name in target.lineage_columns if name != lineage.ROW_ID},
        row_id_columns=target.unique_key if lineage.ROW_ID in target.lineage_columns else (),
        source_type=config.source.type.value,
        source_schema=(table.schema or "") if table is not None else "",
        source_table=table.name if table is not None else config.source.dataset,
    )


@dataclass(slots=True, kw_only=True)
class _SnapshotSteps:
    """Acceptance snapshots as load steps, one per requested side, with the time each capture took."""

    context: LoadContext
    started_at: datetime | None = None

    def timed(self, recorder: AcceptanceMetricsRecorder, side: Side) -> None:
        self.started_at = self.context.environment.clock.utc_now()
        recorder.capture(side)

    def record_snapshot(self, snapshot: AcceptanceMetricSnapshot, boundary: Boundary) -> None:
        side = snapshot.side.value
        try:
            self.context.record.note(
                f"{side}_metrics_captured",
                GOVERNANCE_PHASE,
                EVIDENCE_KIND,
                StepOutcome.SUCCEEDED if snapshot.succeeded else StepOutcome.WARNING,
                snapshot.as_json(),
                started_at=self.started_at,
            )
        except EvidenceWriteError as error:
            raise EvidenceWriteError(error.message, code=f"{side}_acceptance_metric_evidence_failed") from error
