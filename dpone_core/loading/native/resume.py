"""Validates a transfer whose partitions earlier attempts have all committed, without writing to the sink.

Gates are evaluated over the committed rows, and acceptance measures source and target (NAT-01, NAT-71).
A failure leaves checkpoints and target as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpone_core.acceptance.recorder import AcceptanceMetricsRecorder, SideProbes
from dpone_core.errors import ConnectorError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.native.completeness import refuse_lost_rows
from dpone_core.loading.native.model import Transfer, total_converted_values
from dpone_core.loading.native.target_check import refuse_replaced_target
from dpone_core.loading.payload import LoadedPayload
from dpone_core.loading.row_count_check import count_target_rows
from dpone_core.loading.shared_steps import (
    SnapshotSteps,
    evaluate_gates,
    measure_rules,
    source_dataset,
    stage_request,
    target_dataset,
)
from dpone_core.model.outcome import LoadResult, QualityGateFailureOutcome
from dpone_core.model.vocabulary import Boundary, LoadPath, Side
from dpone_core.ports.sink import StagedHandle
from dpone_core.quality.execution import QualityGateExecution
from dpone_core.quality.receipt import QualityGateReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOnlyCoordinator:
    """Coordinates one attempt without active partitions."""

    context: LoadContext
    transfer: Transfer

    def load(self, execution: QualityGateExecution) -> LoadedPayload:
        """Checks the target, the gates and acceptance; returns zero rows written, with the gate receipt.

        Raises the first check that fails. Nothing but evidence is written.
        """
        context = self.context
        context.commit_state.mark_resuming()
        self._refuse_missing_target()
        refuse_replaced_target(context, self.transfer)
        context.commit_state.result = LoadResult(
            inserted_rows=0,
            updated_rows=0,
            final_rows=count_target_rows(context),
            extracted_rows=0,
            staged_rows=0,
            attempts=context.identity.attempt,
            governance_finalization=context.plan.finalization_phase,
            converted_values=total_converted_values(context, self.transfer, {}),
        )
        evidence = SnapshotSteps(context=context)
        recorder = AcceptanceMetricsRecorder(
            policy=execution.snapshot.acceptance,
            load_path=LoadPath.RESUME,
            probes=SideProbes(source=context.sessions.source.metrics, sink=context.sessions.sink.metrics),
            evidence=evidence,
        )
        payload = self.transfer.extraction.target.payload
        recorder.validate((source_dataset(context, self.transfer), target_dataset(context, payload)))
        receipt = self._evaluate_gates(execution)
        refuse_lost_rows(context, self.transfer, {})
        evidence.capture(recorder, Side.SOURCE)
        evidence.capture(recorder, Side.TARGET)
        context.runtime.cancellation.checkpoint()
        context.commit_shield.enter_context(context.runtime.cancellation.shield())
        context.commit_state.result = context.commit_state.result.with_acceptance(recorder.run_metrics(0))
        return LoadedPayload(result=context.commit_state.result, receipt=receipt)

    def _evaluate_gates(self, execution: QualityGateExecution) -> QualityGateReceipt:
        """Rules about columns are judged over the target: they are planned for loads alone that replace all of it."""
        snapshots = self.transfer.scope.resume_snapshots(committed=self.transfer.ledger.committed_rows())
        outcome = QualityGateFailureOutcome.resume_validation(self.context.commit_state.result)
        return evaluate_gates(
            self.context,
            execution,
            Boundary.RESUME_VALIDATION,
            snapshots.source,
            lambda: replace(snapshots.target, rules=measure_rules(self.context, execution, self._published())),
            outcome,
            snapshots.summary,
        )

    def _published(self) -> StagedHandle:
        request = stage_request(self.context, self.transfer)
        rows = self.context.commit_state.result.final_rows
        return StagedHandle(request=request, table=request.target, payload_schema=request.schema, staged_rows=rows or 0)

    def _refuse_missing_target(self) -> None:
        if self.transfer.extraction.target.created:
            self.context.commit_state.load_in_doubt = True
            raise ConnectorError(
                "the checkpoints say that every partition is in the target, but the target does not exist",
                code="native_transfer_target_missing",
                fix="find out who removed the target, then load under another run id",
            )
