"""Plans a native transfer, or stages one of its partitions, in a process of its own; a later load publishes them.

Neither changes a row of the target or takes its lease, so both may be repeated at any time. They leave the stored plan,
and for each partition a checkpoint and a staging dataset, which the publishing load checks before it publishes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.audit import LoadStatus
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction, prepare_extraction
from dpone_core.loading.in_doubt import read_settled_cursor
from dpone_core.loading.native.model import StagedPartition, Transfer, summarise_staging
from dpone_core.loading.native.plan import TransferPlanner
from dpone_core.loading.native.stage import PartitionStager
from dpone_core.loading.native.stored_plan import CLEAR_THE_PLAN, StoredTransfer, TransferPlanMismatchError
from dpone_core.loading.shared_steps import converted_details, stage_request
from dpone_core.loading.step_log import GOVERNANCE_KIND, GOVERNANCE_PHASE
from dpone_core.model.load_config import PartitioningConfig
from dpone_core.model.partition import TransferPartition, TransferPlan, TransferRun
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.ports.ranges import RangeSourcePort, RangeStagingPort
from dpone_core.ports.sink import StagedLoadPort
from dpone_core.ports.state import SavedCursor


class TransferPartitionRefusedError(ETLConfigurationError):
    """The requested partition does not belong to an open plan of this run. Nothing was read."""

    code = "DPONE_TRANSFER_PARTITION_REFUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionItem:
    """The partition that a process stages: its index in the plan with this fingerprint. Index 0 holds the NULL keys."""

    index: int
    transfer_plan: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """The result for one partition: `state` is `staged`, `reused` or `committed`.

    `extracted_rows` is 0 unless this process read the rows; `staged_rows` counts them whoever did.
    """

    run: TransferRun
    partition: TransferPartition
    state: str
    extracted_rows: int
    staged_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """Plans a transfer (`plan`) or stages one partition (`stage`) over the open sessions of one process."""

    context: LoadContext
    partitioning: PartitioningConfig
    source: RangeSourcePort
    store: CheckpointStore
    staged: StagedLoadPort
    ranges: RangeStagingPort

    @classmethod
    def of(cls, context: LoadContext) -> FanOut:
        """Raises ETLConfigurationError `DPONE_ROUTE_REFUSED` unless source and sink transfer partitions over shared
        state.
        """
        sessions, partitioning = context.sessions, context.plan.source.partitioning
        source, sink, store = sessions.source.ranges, sessions.sink, sessions.checkpoints
        if partitioning is None or source is None or store is None or sink.staged is None or sink.ranges is None:
            raise ETLConfigurationError(
                "this route does not stage key ranges",
                code="DPONE_ROUTE_REFUSED",
                fix="run it in one process: dpone run",
            )
        return cls(
            context=context,
            partitioning=partitioning,
            source=source,
            store=store,
            staged=sink.staged,
            ranges=sink.ranges,
        )

    def plan(self) -> Transfer:
        """Stores the plan and the checkpoints of its partitions, or continues the open plan of this run id.

        Also prepares the staging that all partitions share.
        """
        context = self.context
        if context.sessions.audit is not None:
            context.sessions.audit.open()
        saved = read_settled_cursor(context)
        context.runtime.progress.phase("plan_ranges")
        extraction = self._prepare_extraction(saved)
        planner = TransferPlanner(context=context, store=self.store, source=self.source, partitioning=self.partitioning)
        with self.source.snapshot() as snapshot:
            transfer = planner.plan(extraction, snapshot)
        request = stage_request(context, transfer)
        context.sessions.sink.target.preflight(request)
        self.ranges.prepare(request)
        return transfer

    def stage(self, item: PartitionItem) -> PartitionLoad:
        """Stages one partition, unless it is staged or committed already.

        Raises TransferPartitionRefusedError before anything is read, and whatever fails while reading or staging.
        """
        stored = StoredTransfer(context=self.context, store=self.store, expected=item.transfer_plan)
        try:
            run = stored.open_run()
            self.context.commit_state.stored_plan = run
            partition = _find_partition(run, item.index)
            transfer = stored.resume_for_staging(run, self._prepare_extraction(self._read_saved_cursor(), run.plan))
        except TransferPlanMismatchError as error:
            raise TransferPartitionRefusedError(error.message, fix=error.fix) from error
        if partition not in transfer.resume.active:
            return self._describe_committed(transfer, partition)
        return self._stage(transfer, partition)

    def _stage(self, transfer: Transfer, partition: TransferPartition) -> PartitionLoad:
        context = self.context
        context.step_log.record_start(context.config.source.table)
        context.runtime.progress.phase("stage")
        with context.step_log.step("staged", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
            (staged,) = self._create_stager(transfer).stage((partition,))
            result = summarise_staging(context, (staged,))
            step.details |= {
                "transfer_plan": transfer.ledger.run.plan_fingerprint,
                "partition_index": partition.bounds.partition_index,
                "rows": result.staged_rows,
                "extracted_rows": result.extracted_rows,
                "bytes": None if staged.done.reused else staged.done.bytes_exported,
                **converted_details(result),
            }
        context.step_log.record_load_status(
            LoadStatus.STAGED, extracted_rows=result.extracted_rows, staged_rows=result.staged_rows
        )
        return _describe_staged(transfer, staged)

    def _create_stager(self, transfer: Transfer) -> PartitionStager:
        if self.context.sessions.open_reader is None:
            raise ETLConfigurationError("this route does not stage key ranges", code="DPONE_ROUTE_REFUSED")
        return PartitionStager(
            context=self.context,
            transfer=transfer,
            staged=self.staged,
            ranges=self.ranges,
            open_reader=self.context.sessions.open_reader,
            partitioning=replace(self.partitioning, workers=1),
            base=stage_request(self.context, transfer),
        )

    def _describe_committed(self, transfer: Transfer, partition: TransferPartition) -> PartitionLoad:
        """The result for a partition that an earlier load of this run has published, with its checkpoint's rows."""
        rows = transfer.ledger.latest[partition.id].rows_exported
        if rows is None:
            raise TransferPartitionRefusedError(
                f"partition {partition.bounds.partition_index} is committed, but its checkpoint states no row count"
            )
        return PartitionLoad(
            run=transfer.ledger.run, partition=partition, state="committed", extracted_rows=0, staged_rows=rows
        )

    def _read_saved_cursor(self) -> SavedCursor | None:
        cursor = self.context.sessions.cursor
        return cursor.read(self.context.config) if cursor is not None else None

    def _prepare_extraction(self, saved: SavedCursor | None, planned: TransferPlan | None = None) -> Extraction:
        context = self.context
        return prepare_extraction(
            context.config,
            context.plan,
            context.sessions.source,
            context.sessions.sink,
            saved,
            context.request.token_values,
            planned=planned,
        )


def _find_partition(run: TransferRun, index: int) -> TransferPartition:
    partitions = run.plan.partitions(run.route, run.plan.query_hash, run.plan.schema_hash)
    found = [partition for partition in partitions if partition.bounds.partition_index == index]
    if len(found) != 1:
        raise TransferPartitionRefusedError(
            f"expected the index of one of the {len(partitions)} partitions of this plan, but got {index}",
            fix=CLEAR_THE_PLAN,
        )
    return found[0]


def _describe_staged(transfer: Transfer, staged: StagedPartition) -> PartitionLoad:
    done = staged.done
    return PartitionLoad(
        run=transfer.ledger.run,
        partition=done.partition,
        state="reused" if done.reused else "staged",
        extracted_rows=0 if done.reused else done.rows_exported,
        staged_rows=staged.handle.staged_rows,
    )
