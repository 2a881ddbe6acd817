"""Loads into a sink without staging (legacy path): rows go straight to the target, gates are evaluated afterwards.

The order of lines is the order of LIFE-49. Whatever fails after `load` returned is a post-commit
failure with the real counters of this load; nothing is rolled back and there is no staging to clean up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import pyarrow as pa

from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import refuse_rows_without_window
from dpone_core.loading.in_doubt import arm_commit, name_lost_lease, withdraw_commit
from dpone_core.loading.payload import ExtractedPayload, LoadedPayload
from dpone_core.loading.shared_steps import (
    SnapshotSteps,
    acceptance_recorder,
    converted_details,
    evaluate_gates,
    measure_rules,
    record_export,
    record_finalized,
    snapshot_source,
    snapshot_target,
    source_dataset,
    stage_request,
    target_dataset,
)
from dpone_core.loading.step_log import GOVERNANCE_KIND, GOVERNANCE_PHASE
from dpone_core.model.outcome import LoadResult, QualityGateFailureOutcome
from dpone_core.model.special_values import unknown_counts
from dpone_core.model.vocabulary import Boundary, FinalizationPhase, Side, TargetState
from dpone_core.ports.sink import LegacyLoadPort, LegacyLoadResult, StagedHandle, StageRequest
from dpone_core.quality.execution import QualityGateExecution
from dpone_core.quality.gates import QualitySideSnapshot
from dpone_core.quality.receipt import QualityGateReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyLoadGovernanceCoordinator:
    """Coordinates one legacy load of one attempt, and alone changes the CommitState at its commit boundary."""

    context: LoadContext
    legacy: LegacyLoadPort

    def load(self, payload: ExtractedPayload, execution: QualityGateExecution) -> LoadedPayload:
        """Loads the payload and returns its counters with the gate receipt.

        Raises the first failure; `context.commit_state` says whether it came before, at, or after the commit.
        """
        context = self.context
        evidence = SnapshotSteps(context=context)
        recorder = acceptance_recorder(context, execution, evidence)
        request = stage_request(context, payload)
        recorder.validate((source_dataset(context, payload), target_dataset(context, request.schema)))
        context.sessions.sink.target.preflight(request)
        evidence.capture(recorder, Side.SOURCE)
        execution.revalidate(context.config)
        context.runtime.cancellation.checkpoint()
        started_at = context.runtime.clock.utc_now()
        loaded = self._load(request, payload, started_at)  # ------------------------------- the target commit boundary
        finished_at = context.runtime.clock.utc_now()
        execution.revalidate(context.config)
        receipt = self._evaluate_gates(execution, request, payload, loaded)
        self._refuse_lost_rows(payload, loaded)
        evidence.capture(recorder, Side.TARGET)
        details = {"rows": loaded.written_rows, "bytes": payload.pump.counters.size_bytes}
        record_finalized(context, request.added, started_at, finished_at, details | self._list_counters(loaded))
        context.commit_state.result = context.commit_state.result.with_acceptance(
            recorder.run_metrics(loaded.written_rows)
        )
        return LoadedPayload(result=context.commit_state.result, receipt=receipt)

    def _load(self, request: StageRequest, payload: ExtractedPayload, started_at: datetime) -> LegacyLoadResult:
        """Calls the sink's `load`.

        The target state is unknown until it returns, or until after an error the sink says that no row of this load
        is visible.
        """
        commit_state = self.context.commit_state
        self.context.runtime.progress.phase("load")
        commit_state.mark_committing()
        try:
            loaded = self.legacy.load(request, self._stream_rows(payload))
        except BaseException as error:
            commit_state.result = self._build_result(payload, None)
            if not isinstance(error, CommitOutcomeUnknownError):
                self._mark_refused_if_invisible(request)
            self._record_failed_write(started_at, error)
            if isinstance(error, ConnectorError) and commit_state.target_state is TargetState.NOT_MUTATED:
                raise name_lost_lease(self.context, error) from error.__cause__
            raise
        commit_state.mark_committed(self._build_result(payload, loaded))
        return loaded

    def _stream_rows(self, payload: ExtractedPayload) -> Iterator[pa.RecordBatch]:
        """The batches of the pump.

        After the last one the sink makes all of them visible, so just before that the commit is prepared; from then
        on a termination waits until the source state is durable.
        """
        yield from payload.pump.batches()
        record_export(self.context, payload)
        refuse_rows_without_window(payload.extraction, payload.pump.counters.rows)
        cancellation = self.context.runtime.cancellation
        cancellation.checkpoint()
        self.context.commit_shield.enter_context(cancellation.shield())
        arm_commit(self.context, payload.extraction, payload.pump.counters.rows)

    def _mark_refused_if_invisible(self, request: StageRequest) -> None:
        """After a failed load: marks the commit as refused when the sink shows no row of it.

        When the sink cannot say, the target state stays unknown.
        """
        try:
            with self.context.runtime.cancellation.shield():
                visible = self.legacy.has_rows(request.ref)
        except Exception:  # noqa: BLE001 - asking must not hide why the load failed
            return
        if not visible:
            self.context.commit_state.mark_refused()
            withdraw_commit(self.context)

    def _record_failed_write(self, started_at: datetime, error: BaseException) -> None:
        """Records the failed write as a step: its duration, the rows read so far, and the target state."""
        commit_state, record = self.context.commit_state, self.context.step_log
        details: dict[str, object] = {
            "extracted_rows": commit_state.result.extracted_rows,
            "target_state": commit_state.target_state.value,
        }
        with self.context.runtime.cancellation.shield():
            record.record_failure("finalized", GOVERNANCE_PHASE, GOVERNANCE_KIND, started_at, details, error)

    def _evaluate_gates(
        self,
        execution: QualityGateExecution,
        request: StageRequest,
        payload: ExtractedPayload,
        loaded: LegacyLoadResult,
    ) -> QualityGateReceipt:
        """Source rows are those the pump counted; target rows are those of this load, read back from the target."""

        def measured() -> QualitySideSnapshot:
            read_back = partial(self.legacy.read_back, request)
            target = snapshot_target(self.context, payload, loaded.written_rows, read_back)
            written = StagedHandle(
                request=request,
                table=request.target,
                payload_schema=request.schema,
                staged_rows=loaded.written_rows,
            )
            return replace(target, rules=measure_rules(self.context, execution, written))

        source, outcome = (
            snapshot_source(payload),
            QualityGateFailureOutcome.legacy_returned(self.context.commit_state.result),
        )
        return evaluate_gates(self.context, execution, Boundary.POST_COMMIT, source, measured, outcome)

    def _refuse_lost_rows(self, payload: ExtractedPayload, loaded: LegacyLoadResult) -> None:
        """Raises ConnectorError `written_row_count_mismatch` unless the sink wrote as many rows as were sent.

        A gate's tolerance never excuses this: it is meant for differences between systems, not for lost rows.
        """
        sent = payload.pump.counters.rows
        if loaded.written_rows != sent:
            raise ConnectorError(
                f"{sent} rows of this load were sent to the target, but it holds {loaded.written_rows} of them",
                code="written_row_count_mismatch",
                fix="inspect the target: this load is published and was not rolled back",
            )

    def _build_result(self, payload: ExtractedPayload, loaded: LegacyLoadResult | None) -> LoadResult:
        return LoadResult(
            inserted_rows=None if loaded is None else loaded.written_rows,
            updated_rows=None if loaded is None else 0,
            final_rows=None if loaded is None else loaded.total_rows,
            extracted_rows=payload.pump.counters.rows,
            attempts=self.context.identity.attempt,
            governance_finalization=FinalizationPhase.LEGACY_POST_FINALIZE,
            converted_values=unknown_counts(payload.pump.special_values)
            if loaded is None
            else payload.pump.converted_values,
        )

    def _list_counters(self, loaded: LegacyLoadResult) -> dict[str, object]:
        result = self.context.commit_state.result
        return {
            "finaliser": loaded.finaliser,
            "extracted_rows": result.extracted_rows,
            "inserted_rows": result.inserted_rows,
            "updated_rows": result.updated_rows,
            "final_rows": result.final_rows,
            **converted_details(result),
        }
