"""What stands in the way of a load of a route: an open guard, or a run of which a part is published."""

from __future__ import annotations

from dpone_core.errors import ETLExecutionError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.native.model import range_identity
from dpone_core.model.artifacts import STAGING, artifact_name
from dpone_core.model.load_config import TableName
from dpone_core.model.partition import CheckpointStatus, PartitionCheckpoint, TransferRoute, TransferRun
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.native_transfer.guard import require_resolved
from dpone_core.planning.partitions import route_of


class TransferIncompleteError(ETLExecutionError):
    """Another run has published a part of its ranges: rows would come twice, or its resume put old ones back."""

    code = "native_transfer_run_incomplete"


def own_staging(context: LoadContext) -> frozenset[str]:
    """Names under which earlier attempts of this very run may have staged ranges: no leftovers, but what it resumes."""
    store, target = context.sessions.checkpoints, context.plan.target
    if store is None or context.plan.source.partitioning is None:
        return frozenset()
    run_id = str(context.identity.run_id)
    table = TableName(schema=target.table.schema or target.default_schema, name=target.table.name)
    records = store.latest(route_of(context.plan), run_id)
    return frozenset(artifact_name(table, range_identity(run_id, record.partition_id), STAGING) for record in records)


def refuse_open_transfers(context: LoadContext) -> None:
    """For a load that is not split: no transfer into this target stands half published, or nobody knows."""
    store, route = context.sessions.checkpoints, route_of(context.plan)
    try:
        for run in () if store is None else store.open_runs(route):
            records = store.latest(route, run.run_id) if store is not None else ()
            require_resolved(run.run_id, records)
            refuse_half_published(run, records)
    except ETLExecutionError:
        context.commit_state.unsettled_load = True
        raise


def refuse_unsettled_route(
    context: LoadContext,
    store: CheckpointStore,
    route: TransferRoute,
    run_id: str,
    known: tuple[PartitionCheckpoint, ...],
) -> None:
    """For a run that transfers ranges: no guard of the route is unresolved, no other run stands half published."""
    refuse_unsettled_run(context, run_id, known)
    try:
        for other in store.open_runs(route):
            if other.run_id != run_id:
                records = store.latest(route, other.run_id)
                require_resolved(other.run_id, records)
                refuse_half_published(other, records)
    except ETLExecutionError:
        context.commit_state.unsettled_load = True
        raise


def refuse_unsettled_run(context: LoadContext, run_id: str, known: tuple[PartitionCheckpoint, ...]) -> None:
    """No guard of this run is unresolved."""
    try:
        require_resolved(run_id, known)
    except ETLExecutionError:
        context.commit_state.unsettled_load = True
        raise


def committed_ranges(run: TransferRun, records: tuple[PartitionCheckpoint, ...]) -> frozenset[str]:
    """Partitions of this plan that are in the target. Records of an earlier plan under the run id count for nothing."""
    planned = {each.id for each in run.plan.partitions(run.route, run.plan.query_hash, run.plan.schema_hash)}
    committed = {record.partition_id for record in records if record.status is CheckpointStatus.COMMITTED}
    return frozenset(planned & committed)


def refuse_half_published(run: TransferRun, records: tuple[PartitionCheckpoint, ...]) -> None:
    committed = len(committed_ranges(run, records))
    if committed and run.route.strategy is not StrategyMode.FULL_REFRESH:
        raise TransferIncompleteError(
            f"run {run.run_id!r} has published {committed} of {len(run.plan.ranges)} ranges and has not finished",
            fix=f"run again with --run-id {run.run_id}, or remove its rows and say so with `dpone transfer reconcile`",
        )
