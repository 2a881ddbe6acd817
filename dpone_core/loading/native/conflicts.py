"""Refuses to load into a route where an earlier transfer is in doubt or partly published."""

from __future__ import annotations

from dpone_core.errors import ETLExecutionError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.native.model import staging_names
from dpone_core.model.partition import CheckpointStatus, PartitionCheckpoint, TransferRoute, TransferRun
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.native_transfer.guard import require_resolved
from dpone_core.planning.partitions import route_of


class TransferIncompleteError(ETLExecutionError):
    """Another run has published some of its partitions and has not finished.

    A load now would duplicate those rows, or the other run would later overwrite newer rows when it resumes.
    """

    code = "native_transfer_run_incomplete"


def find_own_staging(context: LoadContext) -> frozenset[str]:
    """Names of staging tables of earlier attempts of this run. They are no leftovers: this attempt may reuse them."""
    store = context.sessions.checkpoints
    if store is None or context.plan.source.partitioning is None:
        return frozenset()
    run_id = str(context.identity.run_id)
    records = store.latest(route_of(context.plan), run_id)
    return staging_names(context.plan, run_id, (record.partition_id for record in records))


def refuse_open_transfers(context: LoadContext) -> None:
    """For a load without partitions: raises when a transfer of this route is in doubt or partly published.

    Raises ManualReconciliationRequiredError, TransferIncompleteError, and marks the load as in doubt.
    """
    store, route = context.sessions.checkpoints, route_of(context.plan)
    try:
        for run in () if store is None else store.open_runs(route):
            records = store.latest(route, run.run_id) if store is not None else ()
            require_resolved(run.run_id, records)
            refuse_partly_published(run, records)
    except ETLExecutionError:
        context.commit_state.load_in_doubt = True
        raise


def refuse_route_in_doubt(
    context: LoadContext,
    store: CheckpointStore,
    route: TransferRoute,
    run_id: str,
    known: tuple[PartitionCheckpoint, ...],
) -> None:
    """For a run with partitions: raises when any guard of the route is unresolved or another run is partly published.

    `known` are the stored checkpoints of this run. Raises like `refuse_open_transfers`.
    """
    refuse_run_in_doubt(context, run_id, known)
    try:
        for other in store.open_runs(route):
            if other.run_id != run_id:
                records = store.latest(route, other.run_id)
                require_resolved(other.run_id, records)
                refuse_partly_published(other, records)
    except ETLExecutionError:
        context.commit_state.load_in_doubt = True
        raise


def refuse_run_in_doubt(context: LoadContext, run_id: str, known: tuple[PartitionCheckpoint, ...]) -> None:
    """Raises ManualReconciliationRequiredError when a guard of this run is unresolved; marks the load as in doubt."""
    try:
        require_resolved(run_id, known)
    except ETLExecutionError:
        context.commit_state.load_in_doubt = True
        raise


def committed_partitions(run: TransferRun, records: tuple[PartitionCheckpoint, ...]) -> frozenset[str]:
    """Ids of the plan's partitions that are committed. Records of an earlier plan of the run id do not count."""
    planned = {each.id for each in run.plan.partitions(run.route, run.plan.query_hash, run.plan.schema_hash)}
    committed = {record.partition_id for record in records if record.status is CheckpointStatus.COMMITTED}
    return frozenset(planned & committed)


def refuse_partly_published(run: TransferRun, records: tuple[PartitionCheckpoint, ...]) -> None:
    """Raises TransferIncompleteError when the run has committed partitions; a full refresh replaces them anyway."""
    committed = len(committed_partitions(run, records))
    if committed and run.route.strategy is not StrategyMode.FULL_REFRESH:
        raise TransferIncompleteError(
            f"run {run.run_id!r} has published {committed} of {len(run.plan.ranges)} partitions and is not finished",
            fix=f"finish it with --run-id {run.run_id}, or remove its rows and declare that with "
            "`dpone transfer reconcile`",
        )
