"""`transfer show` and `transfer reconcile`: runs and ranges of a native transfer, and what became of a blocked batch.

The operator's declaration is durable as evidence before the checkpoints change, and says so after.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.audit import utc_text
from dpone_core.loading.native.model import staging_names
from dpone_core.model.identity import LoadId, LoadIdentity, RunId
from dpone_core.model.partition import CheckpointStatus, TransferRoute, TransferRun, TransferRunState
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.native_transfer.reconcile import (
    Finding,
    MarkerAnswer,
    NothingToReconcileError,
    ReconciliationContradictedError,
    UnresolvedBatch,
    resolve,
    unresolved_batches,
)
from dpone_core.native_transfer.report import checkpoint_summary
from dpone_core.planning.partitions import route_of
from dpone_core.ports.session import SinkPorts
from dpone_core.use_cases.operation import Operation, require_reason

__all__ = ["Finding", "ask_sink", "reconcile_transfer", "show_transfer"]

SHOW_KIND: Final = "dpone.transfer_show.v1"
RECONCILIATION_KIND: Final = "dpone.transfer_reconciliation.v1"
RECORDS: Final = "transfer_reconciliations"


def show_transfer(operation: Operation, run_id: str | None) -> dict[str, object]:
    """Open runs of the process's route, or one run whatever its state."""
    identity = operation.make_identity()
    with operation.lease_sink(identity) as sink:
        store, route = _require_store(operation, sink), route_of(operation.plan)
        runs = store.open_runs(route) if run_id is None else (_require_run(store, route, run_id),)
        return {
            "kind": SHOW_KIND,
            "process": operation.plan.process,
            "source_table": route.source_table,
            "target_table": route.target_table,
            "strategy": route.strategy.value,
            "runs": [_run_document(operation, sink, store, run) for run in runs],
        }


def reconcile_transfer(
    operation: Operation, run_id: str, found: Finding, reason: str, *, override_marker: bool
) -> dict[str, object]:
    """Resolves every unresolved batch of a run by what was found, or releases the run.

    Raises NothingToReconcileError, and ReconciliationContradictedError when the sink's marker says otherwise.
    """
    require_reason(reason)
    operation.require_record(RECORDS)
    identity = operation.make_identity()
    with operation.lease_sink(identity, lambda sink: _find_staged(operation, sink, run_id)) as sink:
        store, route = _require_store(operation, sink), route_of(operation.plan)
        run = _require_run(store, route, run_id)
        batches = unresolved_batches(store.latest(route, run_id))
        if not batches and found is not Finding.REMOVED:
            raise NothingToReconcileError(
                "no batch of this run is unresolved", fix="look at its ranges with `dpone transfer show`"
            )
        says = {batch.batch_id: ask_sink(operation, sink, run_id, batch) for batch in batches}
        if not override_marker and any(each.contradicts(found) for each in says.values()):
            raise ReconciliationContradictedError(
                f"the target's load marker says otherwise than '{found}'",
                fix="look again; if the target was repaired by hand since, pass --override-marker",
            )
        document = {
            "kind": RECONCILIATION_KIND,
            "process": operation.plan.process,
            "run_id": run_id,
            "target_table": route.target_table,
            "found": found.value,
            "override_marker": override_marker,
            "reason": operation.resolver.redactor.text(reason),
            "batches": [_batch_document(batch, says[batch.batch_id]) for batch in batches],
        }
        operation.publish_record(RECORDS, identity, {**document, "status": "requested"})
        now = operation.runtime.clock.utc_now()
        if found is Finding.REMOVED:
            store.save_run(replace(run, state=TransferRunState.RELEASED, updated_at=now), run)
        else:
            for batch in batches:
                before = {record.partition_id: (record,) for record in batch.records}
                store.append(route, run_id, resolve(batch, found, now), before)
        operation.publish_record(RECORDS, identity, {**document, "status": "applied"})
        return {
            **document,
            "status": "applied",
            "run": _run_document(operation, sink, store, _require_run(store, route, run_id)),
        }


def ask_sink(operation: Operation, sink: SinkPorts, run_id: str, batch: UnresolvedBatch) -> MarkerAnswer:
    """Returns what the load marker of the target says of a batch, under the identity the batch was published with.

    A batch without rows leaves no marker. A legacy sink can know that no row is visible, never that all are.
    """
    if batch.load_id is None or not batch.rows:
        return MarkerAnswer.CANNOT_SAY
    identity = LoadIdentity(run_id=RunId(run_id), load_id=LoadId(batch.load_id), attempt=batch.attempt)
    ref = operation.plan.target.ref(identity)
    if sink.legacy is not None:
        return MarkerAnswer.CANNOT_SAY if sink.legacy.has_rows(ref) else MarkerAnswer.NOT_PUBLISHED
    return MarkerAnswer.of(None if sink.publications is None else sink.publications.contains(ref, batch.mark))


def _find_staged(operation: Operation, sink: SinkPorts, run_id: str) -> frozenset[str]:
    """Names of staged ranges of the run that nobody was about to publish: its next attempt reuses them."""
    records = _require_store(operation, sink).latest(route_of(operation.plan), run_id)
    loaded = [record.partition_id for record in records if record.status is CheckpointStatus.LOADED]
    return staging_names(operation.plan, run_id, loaded)


def _require_store(operation: Operation, sink: SinkPorts) -> CheckpointStore:
    store = operation.checkpoint_store(sink)
    if store is None:
        raise ETLConfigurationError(
            "the sink of this process has no control tables, so it keeps no checkpoints",
            code="DPONE_TRANSFER_NOT_KEPT",
            fix="set source.options.partitioning.checkpoints: file",
        )
    return store


def _require_run(store: CheckpointStore, route: TransferRoute, run_id: str) -> TransferRun:
    run = store.run(route, run_id)
    if run is None:
        raise ETLConfigurationError(
            "this route knows no transfer of that run id", code="DPONE_RUN_UNKNOWN", fix="run: dpone transfer show"
        )
    return run


def _run_document(operation: Operation, sink: SinkPorts, store: CheckpointStore, run: TransferRun) -> dict[str, object]:
    records = store.latest(run.route, run.run_id)
    return {
        "run_id": run.run_id,
        "state": run.state.value,
        "planned_by_load_id": run.load_id,
        "transfer_plan": run.plan_fingerprint,
        "updated_at": utc_text(run.updated_at),
        "partitioning_column": run.plan.column,
        "planned_ranges": len(run.plan.ranges),
        "planned_rows": run.plan.rows,
        "checkpoint_summary": checkpoint_summary(records),
        "torn_record": store.has_torn_end(run.route, run.run_id),
        "unresolved": [
            _batch_document(batch, ask_sink(operation, sink, run.run_id, batch))
            for batch in unresolved_batches(records)
        ],
    }


def _batch_document(batch: UnresolvedBatch, says: MarkerAnswer) -> dict[str, object]:
    return {
        "checkpoint_batch_id": batch.batch_id,
        "phase": batch.phase.value,
        "partitions": [record.partition_id for record in batch.records],
        "rows": batch.rows,
        "load_marker_says": says.value,
    }
