"""Loads through staging (staged path): gates are evaluated before `finalize`, the only call that changes the target.

The order of lines is the order of LIFE-01. Evidence or cleanup that fails after
the commit fails the run as a post-commit failure; the finalized target is never aborted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import pyarrow as pa

from dpone_core.acceptance.recorder import SideDataset
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError, DponeError
from dpone_core.evidence.audit import LoadStatus
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import refuse_rows_without_window
from dpone_core.loading.in_doubt import arm_commit, name_lost_lease, withdraw_commit
from dpone_core.loading.payload import ExtractedPayload, LoadedPayload
from dpone_core.loading.row_count_check import count_target_rows, refuse_wrong_row_count
from dpone_core.loading.shared_steps import (
    SnapshotSteps,
    acceptance_recorder,
    converted_details,
    evaluate_gates,
    measure_rules,
    record_export,
    record_finalized,
    refuse_no_partition,
    snapshot_source,
    snapshot_target,
    source_dataset,
    stage_request,
    target_dataset,
)
from dpone_core.loading.step_log import GOVERNANCE_KIND, GOVERNANCE_PHASE, EvidenceWriteError
from dpone_core.model.outcome import LoadResult, QualityGateFailureOutcome
from dpone_core.model.vocabulary import Boundary, FinalizationPhase, Side
from dpone_core.ports.sink import FinalizeResult, StagedHandle, StagedLoadPort, StageRequest
from dpone_core.quality.execution import QualityGateExecution
from dpone_core.quality.gates import QualitySideSnapshot
from dpone_core.quality.receipt import QualityGateReceipt


class StagedCleanupError(EvidenceWriteError):
    """The target is committed, but the staging objects of this load could not be removed."""

    code = "staged_cleanup_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGovernanceFinalizationCoordinator:
    """Coordinates one staged load of one attempt, and alone changes the CommitState at its commit boundary."""

    context: LoadContext
    staged: StagedLoadPort

    def load(self, payload: ExtractedPayload, execution: QualityGateExecution) -> LoadedPayload:
        """Stages, checks and publishes the payload; returns its counters with the gate receipt.

        Raises the first failure; `context.commit_state` says whether it came before, at, or after the commit.
        """
        context, sink = self.context, self.context.sessions.sink
        evidence = SnapshotSteps(context=context)
        recorder = acceptance_recorder(context, execution, evidence)
        request = stage_request(context, payload)
        execution.revalidate(context.config)
        sink.target.preflight(request)
        handle = self._stage(request, payload)
        try:
            record_export(context, payload)
            self._project_lineage(handle)
            receipt = self._evaluate_gates(execution, handle, payload)
            recorder.validate(self._list_datasets(payload, handle))
            evidence.capture(recorder, Side.SOURCE)
            evidence.capture(recorder, Side.STAGED)
            execution.revalidate(context.config)
            before = count_target_rows(context)
            context.runtime.cancellation.checkpoint()
            context.commit_shield.enter_context(context.runtime.cancellation.shield())
            arm_commit(context, payload.extraction, handle.staged_rows)
        except BaseException:
            self._abort(handle)
            raise
        started_at = context.runtime.clock.utc_now()
        finalized = self._finalize(handle)  # ------------------------------------------- the target commit boundary
        finished_at = context.runtime.clock.utc_now()
        refuse_wrong_row_count(context, finalized, handle.staged_rows, before)
        evidence.capture(recorder, Side.TARGET)
        self._record_finalized(finalized, request, started_at, finished_at)
        self._cleanup(handle)
        metrics = recorder.run_metrics(context.commit_state.result.loaded_rows)
        context.commit_state.result = context.commit_state.result.with_acceptance(metrics)
        return LoadedPayload(result=context.commit_state.result, receipt=receipt)

    def _stage(self, request: StageRequest, payload: ExtractedPayload) -> StagedHandle:
        context = self.context
        context.runtime.progress.phase("stage")
        with ExitStack() as unrecorded:
            with context.step_log.step("staged", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
                with ExitStack() as shield:
                    handle = self.staged.stage(request, self._stream_rows(payload, shield))
                    unrecorded.callback(self._abort, handle)
                context.runtime.cancellation.checkpoint()
                counters = payload.pump.counters
                context.commit_state.result = LoadResult(
                    extracted_rows=counters.rows,
                    staged_rows=handle.staged_rows,
                    attempts=context.identity.attempt,
                    governance_finalization=FinalizationPhase.PRE_FINALIZE,
                    converted_values=payload.pump.converted_values,
                )
                step.details |= {
                    "rows": handle.staged_rows,
                    "bytes": counters.size_bytes,
                    "extracted_rows": counters.rows,
                    "columns": len(request.schema.columns),
                    **converted_details(context.commit_state.result),
                }
                if handle.staged_rows != counters.rows:
                    raise ConnectorError(
                        f"{counters.rows} rows were sent to staging, but it holds {handle.staged_rows}",
                        code="staged_row_count_mismatch",
                    )
                refuse_rows_without_window(payload.extraction, counters.rows)
                refuse_no_partition(context, handle.staged_rows)
            context.step_log.record_load_status(
                LoadStatus.STAGED, extracted_rows=counters.rows, staged_rows=handle.staged_rows
            )
            unrecorded.pop_all()
        return handle

    def _stream_rows(self, payload: ExtractedPayload, shield: ExitStack) -> Iterator[pa.RecordBatch]:
        """The batches of the pump. After the last one a termination waits until there is a handle to remove staging."""
        yield from payload.pump.batches()
        shield.enter_context(self.context.runtime.cancellation.shield())

    def _project_lineage(self, handle: StagedHandle) -> None:
        context = self.context
        with context.step_log.step("lineage_projected", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
            projection = self.staged.project_lineage(handle)
            step.details |= {"rows": projection.rows, "projected_columns": list(projection.columns)}
            expected = handle.staged_rows if context.plan.target.lineage_columns else projection.rows
            if projection.rows != expected or set(projection.columns) != set(context.plan.target.lineage_columns):
                raise ConnectorError(
                    f"expected the planned lineage columns in {expected} staged rows, "
                    f"but {projection.rows} rows carry {len(projection.columns)} of them",
                    code="lineage_projection_incomplete",
                )

    def _evaluate_gates(
        self, execution: QualityGateExecution, handle: StagedHandle, payload: ExtractedPayload
    ) -> QualityGateReceipt:
        """Source rows are those the pump handed to the sink; target rows are those of this load in staging."""
        rows = self.context.sessions.sink.staged_rows

        def measured() -> QualitySideSnapshot:
            read_back = None if rows is None else partial(rows.read_back, handle)
            target = snapshot_target(self.context, payload, handle.staged_rows, read_back)
            return replace(target, rules=measure_rules(self.context, execution, handle))

        source, outcome = (
            snapshot_source(payload),
            QualityGateFailureOutcome.pre_commit(self.context.commit_state.result),
        )
        return evaluate_gates(self.context, execution, Boundary.PRE_COMMIT, source, measured, outcome)

    def _list_datasets(self, payload: ExtractedPayload, handle: StagedHandle) -> tuple[SideDataset, ...]:
        return (
            source_dataset(self.context, payload),
            SideDataset(side=Side.STAGED, dataset=str(handle.table), schema=handle.payload_schema, table=handle.table),
            target_dataset(self.context, handle.payload_schema),
        )

    def _finalize(self, handle: StagedHandle) -> FinalizeResult:
        commit_state = self.context.commit_state
        self.context.runtime.progress.phase("finalize")
        commit_state.mark_committing()
        try:
            finalized = self.staged.finalize(handle)
        except CommitOutcomeUnknownError:
            raise
        except ConnectorError as error:
            commit_state.mark_refused()
            withdraw_commit(self.context)
            self._abort(handle)
            raise name_lost_lease(self.context, error) from error.__cause__
        staged = commit_state.result
        commit_state.mark_committed(
            LoadResult(
                inserted_rows=finalized.inserted_rows,
                updated_rows=finalized.updated_rows,
                final_rows=finalized.total_rows,
                extracted_rows=staged.extracted_rows,
                staged_rows=staged.staged_rows,
                attempts=staged.attempts,
                governance_finalization=FinalizationPhase.PRE_FINALIZE,
                converted_values=staged.converted_values,
            )
        )
        return finalized

    def _record_finalized(
        self, finalized: FinalizeResult, request: StageRequest, started_at: datetime, finished_at: datetime
    ) -> None:
        details: dict[str, object] = {
            "finaliser": finalized.finaliser,
            "inserted_rows": finalized.inserted_rows,
            "updated_rows": finalized.updated_rows,
            "final_rows": finalized.total_rows,
        }
        record_finalized(self.context, request.added, started_at, finished_at, details)

    def _cleanup(self, handle: StagedHandle) -> None:
        with self.context.step_log.step("cleanup", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
            step.details["rows"] = handle.staged_rows
            try:
                self.staged.cleanup(handle.ref)
            except DponeError as error:
                raise StagedCleanupError("the load is committed, but its staging could not be removed") from error

    def _abort(self, handle: StagedHandle) -> None:
        """Removes the staging of a load that is not committed; a second signal waits meanwhile.

        A failure of the removal becomes the warning `staged_abort_incomplete` and never hides the first error.
        """
        try:
            with self.context.runtime.cancellation.shield():
                self.staged.cleanup(handle.ref)
        except Exception:  # noqa: BLE001 - cleanup must not hide the first error
            self.context.step_log.warnings.append("staged_abort_incomplete")
