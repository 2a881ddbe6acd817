"""The legacy path: the sink has no staging, so everything that can be judged after `load` is judged after it.

Order of lines = order of S0 "Legacy/non-staged load". Whatever fails after `load` returned is a post-commit failure
with this load's real counters; nothing is rolled back, and there is nothing to clean up that could be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import refuse_unwindowed_rows
from dpone_core.loading.in_doubt import arm_commit, withdraw_commit
from dpone_core.loading.payload import ExtractedPayload, LoadedPayload
from dpone_core.loading.shared_steps import (
    SnapshotSteps,
    acceptance_recorder,
    add_columns,
    converted_details,
    judged,
    record_finalized,
    source_dataset,
    source_side,
    stage_request,
    target_dataset,
    target_side,
)
from dpone_core.loading.step_log import GOVERNANCE_KIND, GOVERNANCE_PHASE
from dpone_core.model.outcome import LoadResult, QualityGateFailureOutcome
from dpone_core.model.special_values import uncounted
from dpone_core.model.vocabulary import Boundary, FinalizationPhase, Side
from dpone_core.ports.sink import LegacyLoadPort, LegacyLoadResult, StageRequest
from dpone_core.quality.execution import QualityGateExecution
from dpone_core.quality.receipt import QualityGateReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyLoadGovernanceCoordinator:
    """Coordinates one legacy load of one attempt; owns the position around the commit boundary."""

    context: LoadContext
    legacy: LegacyLoadPort

    def load(self, payload: ExtractedPayload, execution: QualityGateExecution) -> LoadedPayload:
        """Raises whatever failed first; the context's position says on which side of the commit that was."""
        context = self.context
        evidence = SnapshotSteps(context=context)
        recorder = acceptance_recorder(context, execution, evidence)
        request = stage_request(context, payload)
        recorder.validate((source_dataset(context, payload), target_dataset(context, request.schema)))
        context.sessions.sink.target.preflight(request)
        evidence.timed(recorder, Side.SOURCE)
        execution.revalidate(context.config)
        context.runtime.cancellation.checkpoint()
        add_columns(context, payload)
        started_at = context.runtime.clock.utc_now()
        loaded = self._load(request, payload, started_at)  # ------------------------------- the target commit boundary
        finished_at = context.runtime.clock.utc_now()
        execution.revalidate(context.config)
        receipt = self._judge(execution, request, payload, loaded)
        self._refuse_lost_rows(payload, loaded)
        evidence.timed(recorder, Side.TARGET)
        details = {"rows": loaded.written_rows, "bytes": payload.pump.counters.size_bytes}
        record_finalized(context, started_at, finished_at, details | self._counters(loaded))
        context.commit_state.result = context.commit_state.result.with_acceptance(
            recorder.run_metrics(loaded.written_rows)
        )
        return LoadedPayload(result=context.commit_state.result, receipt=receipt)

    def _load(self, request: StageRequest, payload: ExtractedPayload, started_at: datetime) -> LegacyLoadResult:
        """From the call on its outcome is unknown, until it answers or the sink says that nothing is visible."""
        commit_state = self.context.commit_state
        self.context.runtime.progress.phase("load")
        commit_state.committing()
        try:
            loaded = self.legacy.load(request, self._rows(payload))
        except BaseException as error:
            commit_state.result = self._result(payload, None)
            if not isinstance(error, CommitOutcomeUnknownError):
                self._settle(request)
            self._record_failed_write(started_at, error)
            raise
        commit_state.committed(self._result(payload, loaded))
        return loaded

    def _rows(self, payload: ExtractedPayload) -> Iterator[pa.RecordBatch]:
        """The pump's batches. Once they end the sink makes them visible, and a termination waits for the record."""
        yield from payload.pump.batches()
        refuse_unwindowed_rows(payload.extraction, payload.pump.counters.rows)
        cancellation = self.context.runtime.cancellation
        cancellation.checkpoint()
        self.context.commit_shield.enter_context(cancellation.shielded())
        arm_commit(self.context, payload.extraction, payload.pump.counters.rows)

    def _settle(self, request: StageRequest) -> None:
        """A failed load that left nothing visible did not mutate the target; a sink that cannot say leaves unknown."""
        try:
            with self.context.runtime.cancellation.shielded():
                visible = self.legacy.has_rows(request.ref)
        except Exception:  # noqa: BLE001 - asking must not mask why the load failed
            return
        if not visible:
            self.context.commit_state.refused()
            withdraw_commit(self.context)

    def _record_failed_write(self, started_at: datetime, error: BaseException) -> None:
        """How long it took, how many rows were read for it, and what is known of the target; nothing is rolled back."""
        commit_state, record = self.context.commit_state, self.context.step_log
        details: dict[str, object] = {
            "extracted_rows": commit_state.result.extracted_rows,
            "target_state": commit_state.target_state.value,
        }
        with self.context.runtime.cancellation.shielded():
            record.failed("finalized", GOVERNANCE_PHASE, GOVERNANCE_KIND, started_at, details, error)

    def _judge(
        self,
        execution: QualityGateExecution,
        request: StageRequest,
        payload: ExtractedPayload,
        loaded: LegacyLoadResult,
    ) -> QualityGateReceipt:
        """Target rows are those of this load, re-read from the target."""
        target = target_side(self.context, payload, loaded.written_rows, lambda: self.legacy.read_back(request))
        outcome = QualityGateFailureOutcome.legacy_returned(self.context.commit_state.result)
        return judged(self.context, execution, Boundary.POST_COMMIT, source_side(payload), target, outcome)

    def _refuse_lost_rows(self, payload: ExtractedPayload, loaded: LegacyLoadResult) -> None:
        """A tolerance forgives differences between systems, never rows that were sent and are not there."""
        sent = payload.pump.counters.rows
        if loaded.written_rows != sent:
            raise ConnectorError(
                f"{sent} rows were sent and {loaded.written_rows} are in the target", code="written_row_count_mismatch"
            )

    def _result(self, payload: ExtractedPayload, loaded: LegacyLoadResult | None) -> LoadResult:
        return LoadResult(
            inserted_rows=None if loaded is None else loaded.written_rows,
            updated_rows=None if loaded is None else 0,
            final_rows=None if loaded is None else loaded.total_rows,
            extracted_rows=payload.pump.counters.rows,
            attempts=self.context.identity.attempt,
            governance_finalization=FinalizationPhase.LEGACY_POST_FINALIZE,
            converted_values=uncounted(payload.pump.special_values)
            if loaded is None
            else payload.pump.converted_values,
        )

    def _counters(self, loaded: LegacyLoadResult) -> dict[str, object]:
        result = self.context.commit_state.result
        return {
            "finaliser": loaded.finaliser,
            "extracted_rows": result.extracted_rows,
            "inserted_rows": result.inserted_rows,
            "updated_rows": result.updated_rows,
            "final_rows": result.final_rows,
            **converted_details(result),
        }
