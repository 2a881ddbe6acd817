"""Plans which partitions an attempt transfers: it continues the open plan of the run or makes a new one.

An attempt that resumes reads the partitions and the cursor window that the first attempt planned. A run id whose
transfer is complete is not resumed: running it again loads again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpone_core.errors import ETLExecutionError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction
from dpone_core.loading.native.conflicts import committed_partitions, refuse_route_in_doubt
from dpone_core.loading.native.model import Transfer, partition_ref
from dpone_core.loading.shared_steps import refuse_no_partition
from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.load_config import LoadConfig, PartitioningConfig
from dpone_core.model.partition import (
    CheckpointStatus,
    KeyBounds,
    PartitionCheckpoint,
    TransferPlan,
    TransferRoute,
    TransferRun,
    TransferRunState,
)
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.native_transfer.decision import decide
from dpone_core.native_transfer.ledger import TransferLedger
from dpone_core.planning.key_scales import PartitionKeyError
from dpone_core.planning.partitions import apply_authored_bounds, plan_ranges, replaced_granularity, route_of
from dpone_core.ports.ranges import RangeSourcePort
from dpone_core.ports.source import CursorWindow
from dpone_core.ports.state import SavedCursor


class TransferChangedError(ETLExecutionError):
    """This run has published some partitions, and its query or columns have changed since."""

    code = "native_transfer_workload_changed"


class TransferStateMovedError(ETLExecutionError):
    """Another load saved a cursor after this run was planned, so the planned window is out of date."""

    code = "native_transfer_cursor_moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPlanner:
    """Plans one attempt of a transfer. Reads no rows and mutates no target."""

    context: LoadContext
    store: CheckpointStore
    source: RangeSourcePort
    partitioning: PartitioningConfig

    def plan(self, extraction: Extraction, snapshot: str | None) -> Transfer:
        """Stores the plan and the checkpoints of its partitions, and returns what this attempt does with them.

        `snapshot` names the shared source snapshot, None for none. Raises when the route is in doubt, when the saved
        cursor is not the planned one, and when published partitions belong to another query or schema.
        """
        route, run_id = route_of(self.context.plan), str(self.context.identity.run_id)
        run = self.store.run(route, run_id)
        resumes = run is not None and run.state is TransferRunState.OPEN
        stored = self.store.latest(route, run_id)
        known = stored if resumes else ()
        refuse_route_in_doubt(self.context, self.store, route, run_id, known)
        if run is not None and resumes:
            require_same_cursor(self.context, run, extraction, known)
            planned = use_planned_window(extraction, run.plan)
            if is_same_workload(self.context, run.plan, planned):
                transfer = build_transfer(self.context, self.store, run, planned, known, snapshot, resumed=True)
                transfer.ledger.record_planned(transfer.resume.planned)
                return transfer
            refuse_changed_workload(self.context, run, known)
        fresh = self._plan_anew(extraction, route, run_id, snapshot)
        transfer = build_transfer(self.context, self.store, fresh, extraction, known, snapshot, resumed=False)
        transfer.ledger.earlier.update((record.partition_id, record) for record in stored)
        partitions = transfer.resume.planned
        transfer.ledger.record_planned(partitions)
        self.store.save_run(fresh, run)
        planned_ids = {partition.id for partition in partitions}
        self._remove_stale_staging([record for record in known if record.partition_id not in planned_ids])
        return transfer

    def _plan_anew(
        self, extraction: Extraction, route: TransferRoute, run_id: str, snapshot: str | None
    ) -> TransferRun:
        column = self.partitioning.column
        key = extraction.schema.find(column)
        if key is None:
            raise PartitionKeyError(f"partitioning column '{column}' is not in the source")
        bounds = self.source.key_bounds(extraction.request, extraction.schema, column, snapshot)
        refuse_no_partition(self.context, bounds.rows)
        if self.partitioning.lower is not None and self.partitioning.upper is not None:
            given = KeyBounds(lower=self.partitioning.lower, upper=self.partitioning.upper, rows=0)
            bounds = apply_authored_bounds(key, given, bounds)
        window = extraction.request.window
        query_hash, schema_hash = _compute_hashes(self.context, column, extraction)
        return TransferRun(
            run_id=run_id,
            route=route,
            state=TransferRunState.OPEN,
            load_id=str(self.context.identity.load_id),
            updated_at=self.context.runtime.clock.utc_now(),
            plan=TransferPlan(
                column=column,
                ranges=plan_ranges(
                    key, bounds, self.partitioning.num_partitions, replaced_granularity(self.context.config)
                ),
                query_hash=query_hash,
                schema_hash=schema_hash,
                rows=bounds.rows,
                window_lower=None if window is None else window.lower,
                window_upper=None if window is None else window.upper,
                next_cursor=extraction.next_cursor,
                seen_load_id=None if extraction.saved_cursor is None else extraction.saved_cursor.load_id,
            ),
        )

    def _remove_stale_staging(self, stale: list[PartitionCheckpoint]) -> None:
        """Removes the staging of partitions that are no longer planned."""
        staged = self.context.sessions.sink.staged
        for record in stale:
            if staged is not None and record.status is CheckpointStatus.LOADED:
                staged.cleanup(partition_ref(self.context, record.partition_id))


def build_transfer(
    context: LoadContext,
    store: CheckpointStore,
    run: TransferRun,
    extraction: Extraction,
    known: tuple[PartitionCheckpoint, ...],
    snapshot: str | None,
    *,
    resumed: bool,
) -> Transfer:
    """Compares a stored plan with its checkpoints and decides what this attempt skips and reads. Writes nothing."""
    ledger = TransferLedger(store=store, run=run, clock=context.runtime.clock)
    partitions = run.plan.partitions(run.route, run.plan.query_hash, run.plan.schema_hash)
    planned = {partition.id for partition in partitions}
    ledger.latest.update((record.partition_id, record) for record in known if record.partition_id in planned)
    resume = decide(partitions, known, run.route.strategy)
    return Transfer(extraction=extraction, ledger=ledger, resume=resume, snapshot=snapshot, resumed=resumed)


def is_same_workload(context: LoadContext, plan: TransferPlan, extraction: Extraction) -> bool:
    """Whether the query and the columns are still those the plan was made for."""
    return _compute_hashes(context, plan.column, extraction) == (plan.query_hash, plan.schema_hash)


def refuse_changed_workload(context: LoadContext, run: TransferRun, known: tuple[PartitionCheckpoint, ...]) -> None:
    """For a changed workload: raises TransferChangedError when some of its partitions are already in the target."""
    committed = len(committed_partitions(run, known))
    if committed and run.route.strategy is not StrategyMode.FULL_REFRESH:
        context.commit_state.load_in_doubt = True
        raise TransferChangedError(
            f"{committed} partitions of this run are in the target, but its query or schema has changed since",
            fix="restore the query and run again, or remove the rows and declare that with `dpone transfer reconcile`",
        )


def require_same_cursor(
    context: LoadContext, run: TransferRun, extraction: Extraction, known: tuple[PartitionCheckpoint, ...]
) -> None:
    """Raises TransferStateMovedError when another load has saved a cursor since the run was planned."""
    if not is_same_cursor(run, extraction.saved_cursor, known):
        context.commit_state.load_in_doubt = True
        raise TransferStateMovedError(
            "another load saved a cursor after this run was planned, so the planned cursor window is out of date",
            fix="compare the target with the evidence of both loads, then load under another run id",
        )


def is_same_cursor(run: TransferRun, seen: SavedCursor | None, known: tuple[PartitionCheckpoint, ...]) -> bool:
    """Whether the saved cursor is still the one this run was planned with, or the one it saved itself at its end."""
    plan = run.plan
    if (
        seen is not None
        and seen.value == plan.next_cursor
        and len(committed_partitions(run, known)) == len(plan.ranges)
    ):
        return True
    return (None if seen is None else seen.load_id) == plan.seen_load_id


def use_planned_window(extraction: Extraction, plan: TransferPlan) -> Extraction:
    """The extraction with the cursor window and the next cursor of the plan, even if the source has newer rows."""
    window = extraction.request.window
    if window is None:
        return extraction
    planned = CursorWindow(column=window.column, lower=plan.window_lower, upper=plan.window_upper)
    return replace(extraction, request=replace(extraction.request, window=planned), next_cursor=plan.next_cursor)


def _compute_hashes(context: LoadContext, column: str, extraction: Extraction) -> tuple[str, str]:
    """Hashes of what the rows of a partition depend on besides its bounds: the query, and the columns as staged."""
    return query_hash(context.config, column, extraction), _hash_schema(context, extraction)


def query_hash(config: LoadConfig, column: str, extraction: Extraction) -> str:
    """Fingerprint of dataset, key column, query tokens, cursor window and special-value rules."""
    query, request = config.source.query, extraction.request
    tokens = {} if query is None else {name: request.token_values[name] for name in query.tokens}
    window, converts = request.window, bool(config.source.special_values)
    return fingerprint(
        {
            "dataset": config.source.dataset,
            "key": column,
            "tokens": tokens,
            "window": None if window is None else [window.column, window.lower, window.upper],
            **({"special_values": [rule.as_json() for rule in config.source.special_values]} if converts else {}),
            **({"rows": "visible"} if config.source.visible_rows else {}),
        }
    )


def _hash_schema(context: LoadContext, extraction: Extraction) -> str:
    target = context.plan.target
    return fingerprint(
        {
            "source": _columns(extraction.schema),
            "payload": _columns(extraction.target.payload),
            "lineage": list(target.lineage_columns),
            "order_by": list(target.physical_design.order_by),
        }
        | _whole(context.config)
    )


def _whole(config: LoadConfig) -> dict[str, object]:
    """The partitioning of the target, when a plan has to hold its partitions whole; changing it changes the plan."""
    whole = replaced_granularity(config)
    return {} if whole is None else {"whole": whole}


def _columns(schema: TableSchema) -> list[object]:
    return [[column.name, str(column.type), column.nullable] for column in schema.columns]
