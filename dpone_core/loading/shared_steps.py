"""Steps that several coordinators share: building requests, evaluating gates, recording acceptance snapshots.

Not here: the order of steps and the commit boundary. Each coordinator has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa

from dpone_core.acceptance.recorder import AcceptanceMetricsRecorder, SideDataset, SideProbes
from dpone_core.errors import ConnectorError
from dpone_core.evidence.audit import StepOutcome, utc_text
from dpone_core.loading.context import LoadContext
from dpone_core.loading.payload import ExtractedPayload, LoadInput
from dpone_core.loading.step_log import EVIDENCE_KIND, GOVERNANCE_KIND, GOVERNANCE_PHASE, EvidenceWriteError
from dpone_core.model import lineage
from dpone_core.model.column_rules import ColumnRule, FreshnessReference, FreshnessRule, RuleMeasure, StatementRule
from dpone_core.model.outcome import AcceptanceMetricSnapshot, LoadResult, QualityGateFailureOutcome
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import Boundary, Severity, Side, StrategyMode
from dpone_core.ports.rules import AskedRule
from dpone_core.ports.sink import LineageColumns, StagedHandle, StageRequest
from dpone_core.quality.execution import QualityGateExecution
from dpone_core.quality.failure import QualityGateFailure
from dpone_core.quality.gates import QualityGate, QualitySideSnapshot, evaluated_rows
from dpone_core.quality.receipt import QualityGateReceipt
from dpone_core.quality.scope import QualityScopeSummary

_OPERATION: Final = {StrategyMode.INCREMENTAL_APPEND: "insert", StrategyMode.INCREMENTAL_MERGE: "upsert"}


def stage_request(context: LoadContext, payload: LoadInput) -> StageRequest:
    """The request with which the sink stages, or directly loads, the rows of this attempt."""
    target = context.plan.target
    return StageRequest(
        identity=context.identity,
        target=target.table,
        staging_schema=target.staging_schema,
        schema=payload.extraction.target.payload,
        strategy=target.strategy,
        physical_design=target.physical_design,
        lineage=lineage_columns(context),
        unique_key=target.unique_key,
        target_only=payload.extraction.target.target_only,
        defaults=context.config.sink.target_defaults,
        added=payload.extraction.target.added,
        fence=None if context.lease is None else context.lease.row,
    )


def lineage_columns(context: LoadContext) -> LineageColumns:
    """Values of the planned technical columns that are the same for every row of this load.

    The sink computes the row id itself, from the unique key.
    """
    target, config = context.plan.target, context.config
    now = utc_text(context.runtime.clock.utc_now())
    values = {
        lineage.RUN_ID: str(context.identity.run_id),
        lineage.LOAD_ID: str(context.identity.load_id),
        lineage.LOADED_AT: now,
        lineage.EXTRACTED_AT: now,
        lineage.OPERATION: _OPERATION.get(target.strategy, "snapshot"),
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


def converted_details(result: LoadResult) -> dict[str, object]:
    """Step details with the counts of converted special values; empty when the manifest declares none."""
    converted = result.converted_values
    return {"converted_values": [each.as_json() for each in converted]} if converted else {}


def refuse_no_partition(context: LoadContext, rows: int) -> None:
    """Raises ConnectorError `partition_empty_refused` for a partition_replace load of no rows.

    The rows name the partitions to replace. `sink.strategy.allow_empty` says that an empty source is meant to be empty.
    """
    target = context.plan.target
    if target.strategy is StrategyMode.PARTITION_REPLACE and not rows and not target.allow_empty:
        raise ConnectorError(
            "the source has no rows, so partition_replace has no partition to replace",
            code="partition_empty_refused",
            fix="check the source, or set sink.strategy.allow_empty: true to accept that nothing is replaced",
        )


def source_dataset(context: LoadContext, payload: LoadInput) -> SideDataset:
    """The rows that this load reads, as acceptance measures them."""
    return SideDataset(
        side=Side.SOURCE,
        dataset=context.plan.source.dataset,
        schema=payload.extraction.schema,
        extract=payload.extraction.request,
    )


def target_dataset(context: LoadContext, schema: TableSchema) -> SideDataset:
    """The whole target as acceptance measures it, with the rows of earlier loads."""
    table = context.plan.target.table
    return SideDataset(side=Side.TARGET, dataset=str(table), schema=schema, table=table)


def acceptance_recorder(
    context: LoadContext, execution: QualityGateExecution, evidence: SnapshotSteps
) -> AcceptanceMetricsRecorder:
    return AcceptanceMetricsRecorder(
        policy=execution.snapshot.acceptance,
        load_path=context.plan.load_path,
        probes=SideProbes(source=context.sessions.source.metrics, sink=context.sessions.sink.metrics),
        evidence=evidence,
    )


def record_export(context: LoadContext, payload: ExtractedPayload) -> None:
    """Records how long the source took to deliver its rows: from its query to the last batch, waits for the sink
    included. Nothing is recorded of a source that has not come to its end.
    """
    counters, opened_at = payload.pump.counters, payload.opened_at
    if opened_at is None or counters.ended_at is None:
        return
    details: dict[str, object] = {"rows": counters.rows, "bytes": counters.size_bytes}
    context.step_log.record_success(
        "source_exported", "extract", "source_export", opened_at, counters.ended_at, details
    )


def snapshot_source(payload: ExtractedPayload) -> QualitySideSnapshot:
    """What the pump counted, and hashed when a gate asks for it, of the rows it handed to the sink."""
    rows = payload.pump.counters.rows
    return QualitySideSnapshot(row_count=rows) if payload.hashes is None else payload.hashes.snapshot(rows)


def snapshot_target(
    context: LoadContext,
    payload: ExtractedPayload,
    rows: int,
    read_back: Callable[[], Iterable[pa.RecordBatch]] | None,
) -> QualitySideSnapshot:
    """The rows of this load in the sink, with their hashes when a gate asks for them and `read_back` yields them.

    Rows that cannot be read back have no hash: a gate never takes a missing hash for an equal one.
    """
    if payload.hashes is None or read_back is None:
        return QualitySideSnapshot(row_count=rows)
    try:
        return payload.hashes.other_side().snapshot_of(read_back(), rows)
    except ConnectorError:
        context.step_log.warnings.append("typed_hash_unavailable")
        return QualitySideSnapshot(row_count=rows)


def measure_rules(
    context: LoadContext, execution: QualityGateExecution, handle: StagedHandle | None
) -> Mapping[str, RuleMeasure]:
    """What the sink counts in its staged rows for the rules of gates, by gate id; empty without such gates or without
    a handle.

    All rules about columns are asked together, each statement alone. Where the sink does not answer, the load ends when
    a gate of severity error asked; for warnings alone nothing was measured, which they say.
    """
    found: dict[str, RuleMeasure] = {}
    gates = [gate for gate in execution.snapshot.gates.gates if gate.rule is not None]
    together = [gate for gate in gates if not isinstance(gate.rule, StatementRule)]
    alone = [gate for gate in gates if isinstance(gate.rule, StatementRule)]
    for asking in (together, *([gate] for gate in alone)):
        found |= _judge(context, handle, asking)
    return found


def _judge(
    context: LoadContext, handle: StagedHandle | None, gates: Sequence[QualityGate]
) -> Mapping[str, RuleMeasure]:
    rules = context.sessions.sink.rules
    if not gates or rules is None or handle is None:
        return {}
    values = context.request.token_values
    asked = [
        AskedRule(gate_id=gate.id, rule=gate.rule, reference=_reference(context, gate.rule), token_values=values)
        for gate in gates
        if gate.rule is not None
    ]
    try:
        return rules.judge(handle, asked)
    except ConnectorError:
        if any(gate.severity is Severity.ERROR for gate in gates):
            raise
        context.step_log.warnings.append("rules_not_judged")
        return {}


def _reference(context: LoadContext, rule: ColumnRule) -> datetime | None:
    """The moment from which freshness counts; None for other rules, and for an interval that the run does not have."""
    if not isinstance(rule, FreshnessRule):
        return None
    if rule.reference is FreshnessReference.NOW:
        return context.runtime.clock.utc_now()
    end = context.request.token_values.get("data_interval_end")
    return None if end is None else datetime.fromisoformat(end)


def evaluate_gates(
    context: LoadContext,
    execution: QualityGateExecution,
    boundary: Boundary,
    source: QualitySideSnapshot,
    measure: Callable[[], QualitySideSnapshot],
    outcome: QualityGateFailureOutcome,
    scope: QualityScopeSummary | None = None,
) -> QualityGateReceipt:
    """Evaluates the gates of this load, once, and records the report as a step, passed or not.

    The step begins with `measure`, which gives what is known of the target: it takes most of the time. `outcome` goes
    into the QualityGateFailure that is raised when a gate blocks. `scope` is set for a native transfer.
    """
    with context.step_log.step("quality_checked", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
        target = measure()
        step.details["evaluated_rows"] = _evaluated_rows(execution, source, target)
        step.details["rows"] = target.row_count
        if scope is not None:
            step.details["quality_scope"] = scope.as_json()
        try:
            receipt = execution.evaluate(
                boundary=boundary, source=source, target=target, scope_summary=scope, outcome=outcome
            )
        except QualityGateFailure as failure:
            context.commit_state.gate_report = failure.report
            step.details |= {"quality_gates": failure.report.as_json()}
            raise
        context.commit_state.gate_report = receipt.report
        step.details |= {"quality_gates": receipt.report.as_json()}
    return receipt


def _evaluated_rows(
    execution: QualityGateExecution, source: QualitySideSnapshot, target: QualitySideSnapshot
) -> list[dict[str, object]]:
    """Rows each gate was evaluated over, in policy order; `gate` is its ordinal there."""
    return [
        {"gate": ordinal, "type": str(gate.type), "rows": evaluated_rows(gate, source=source, target=target)}
        for ordinal, gate in enumerate(execution.snapshot.gates.gates)
    ]


def record_finalized(
    context: LoadContext, added: TableSchema, started_at: datetime, finished_at: datetime, details: dict[str, object]
) -> None:
    """Records the step of a finished publication; `added` are the columns that it gave to the target.

    Raises EvidenceWriteError `finalized_evidence_failed`.
    """
    details |= {"atomic_for": context.plan.target.finaliser.atomic_for}
    if added.columns:
        details["columns_added"] = list(added.names)
    try:
        context.step_log.record_success(
            "finalized", GOVERNANCE_PHASE, GOVERNANCE_KIND, started_at, finished_at, details
        )
    except EvidenceWriteError as error:
        raise EvidenceWriteError(error.message, code="finalized_evidence_failed") from error


@dataclass(slots=True, kw_only=True)
class SnapshotSteps:
    """Records each acceptance snapshot as a load step, with the time its capture took. The recorder's evidence port."""

    context: LoadContext
    started_at: datetime | None = None

    def capture(self, recorder: AcceptanceMetricsRecorder, side: Side) -> None:
        """Lets `recorder` measure one side now and keeps the start time for its step."""
        self.started_at = self.context.runtime.clock.utc_now()
        recorder.capture(side)

    def record_snapshot(self, snapshot: AcceptanceMetricSnapshot, boundary: Boundary) -> None:
        """Writes the step of one side. Raises EvidenceWriteError `<side>_acceptance_metric_evidence_failed`."""
        side = snapshot.side.value
        try:
            self.context.step_log.note(
                f"{side}_metrics_captured",
                GOVERNANCE_PHASE,
                EVIDENCE_KIND,
                StepOutcome.SUCCEEDED if snapshot.succeeded else StepOutcome.WARNING,
                snapshot.as_json(),
                started_at=self.started_at,
            )
        except EvidenceWriteError as error:
            raise EvidenceWriteError(error.message, code=f"{side}_acceptance_metric_evidence_failed") from error
