"""Native transfer over several processes: one plans, one stages each range, and the load publishes what is staged.

Planning and staging change no row of a target and take no lease, so both may always be repeated. What they leave is
the stored plan, a checkpoint and a staging dataset for each range; the load looks at all three before it publishes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.audit import LoadStatus
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction, prepare_extraction
from dpone_core.loading.in_doubt import refuse_unsettled
from dpone_core.loading.native.model import StagedRange, Transfer, staged_result
from dpone_core.loading.native.plan import TransferPlanner
from dpone_core.loading.native.stage import RangeStager
from dpone_core.loading.native.stored_plan import CLEAR_THE_PLAN, StoredTransfer, TransferPlanMismatchError
from dpone_core.loading.shared_steps import add_columns, converted_details, stage_request
from dpone_core.loading.step_log import GOVERNANCE_KIND, GOVERNANCE_PHASE
from dpone_core.model.load_config import PartitioningConfig
from dpone_core.model.partition import TransferPartition, TransferPlan, TransferRun
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.ports.ranges import RangeSourcePort, RangeStagingPort
from dpone_core.ports.sink import StagedLoadPort
from dpone_core.ports.state import SavedCursor


class TransferPartitionRefusedError(ETLConfigurationError):
    """The partition asked for is none of an open plan of this run; nothing was read."""

    code = "DPONE_TRANSFER_PARTITION_REFUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeItem:
    """Which range a process stages: its index in the plan with this fingerprint; 0 holds the NULL keys."""

    index: int
    transfer_plan: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeLoad:
    """What became of one range. `extracted_rows` is 0 where an earlier process had staged or committed it."""

    run: TransferRun
    partition: TransferPartition
    state: str
    extracted_rows: int
    staged_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """The first two of the three processes, over the open sessions of one of them."""

    context: LoadContext
    partitioning: PartitioningConfig
    source: RangeSourcePort
    store: CheckpointStore
    staged: StagedLoadPort
    ranges: RangeStagingPort

    @classmethod
    def of(cls, context: LoadContext) -> FanOut:
        """Raises ETLConfigurationError where the route has no ranges, or no control tables that processes share."""
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
        """Stores the plan and its checkpoints, or finds those of an earlier try; prepares what all ranges share."""
        context = self.context
        if context.sessions.audit is not None:
            context.sessions.audit.open()
        saved = self._saved_cursor()
        refuse_unsettled(context, saved)
        context.runtime.progress.phase("plan_ranges")
        extraction = self._extraction(saved)
        planner = TransferPlanner(context=context, store=self.store, source=self.source, partitioning=self.partitioning)
        with self.source.snapshot() as snapshot:
            transfer = planner.plan(extraction, snapshot)
        request = stage_request(context, transfer)
        add_columns(context, transfer)
        context.sessions.sink.target.preflight(request)
        self.ranges.prepare(request)
        return transfer

    def load(self, item: RangeItem) -> RangeLoad:
        """Stages one range, unless it is staged or committed already.

        Raises TransferPartitionRefusedError before anything is read, and whatever fails while reading.
        """
        stored = StoredTransfer(context=self.context, store=self.store, expected=item.transfer_plan)
        try:
            run = stored.open_run()
            self.context.commit_state.stored_plan = run
            partition = _planned(run, item.index)
            transfer = stored.staging(run, self._extraction(self._saved_cursor(), run.plan))
        except TransferPlanMismatchError as error:
            raise TransferPartitionRefusedError(error.message, fix=error.fix) from error
        if partition not in transfer.resume.active:
            return self._committed(transfer, partition)
        return self._staged(transfer, partition)

    def _staged(self, transfer: Transfer, partition: TransferPartition) -> RangeLoad:
        context = self.context
        context.step_log.started(context.config.source.table)
        context.runtime.progress.phase("stage")
        with context.step_log.step("staged", GOVERNANCE_PHASE, GOVERNANCE_KIND) as step:
            (staged,) = self._stager(transfer).stage((partition,))
            result = staged_result(context, (staged,))
            step.details |= {
                "transfer_plan": transfer.ledger.run.plan_fingerprint,
                "partition_index": partition.bounds.partition_index,
                "rows": result.staged_rows,
                "extracted_rows": result.extracted_rows,
                "bytes": None if staged.done.reused else staged.done.bytes_exported,
                **converted_details(result),
            }
        context.step_log.load_status(
            LoadStatus.STAGED, extracted_rows=result.extracted_rows, staged_rows=result.staged_rows
        )
        return _range_load(transfer, staged)

    def _stager(self, transfer: Transfer) -> RangeStager:
        if self.context.sessions.open_reader is None:
            raise ETLConfigurationError("this route does not stage key ranges", code="DPONE_ROUTE_REFUSED")
        return RangeStager(
            context=self.context,
            transfer=transfer,
            staged=self.staged,
            ranges=self.ranges,
            open_reader=self.context.sessions.open_reader,
            partitioning=replace(self.partitioning, workers=1),
            base=stage_request(self.context, transfer),
        )

    def _committed(self, transfer: Transfer, partition: TransferPartition) -> RangeLoad:
        """An earlier load of this run published it; its rows are those of its checkpoint."""
        rows = transfer.ledger.latest[partition.id].rows_exported
        if rows is None:
            raise TransferPartitionRefusedError("the checkpoint of this committed range counts no rows")
        return RangeLoad(
            run=transfer.ledger.run, partition=partition, state="committed", extracted_rows=0, staged_rows=rows
        )

    def _saved_cursor(self) -> SavedCursor | None:
        cursor = self.context.sessions.cursor
        return cursor.read(self.context.config) if cursor is not None else None

    def _extraction(self, saved: SavedCursor | None, planned: TransferPlan | None = None) -> Extraction:
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


def _planned(run: TransferRun, index: int) -> TransferPartition:
    partitions = run.plan.partitions(run.route, run.plan.query_hash, run.plan.schema_hash)
    found = [partition for partition in partitions if partition.bounds.partition_index == index]
    if len(found) != 1:
        raise TransferPartitionRefusedError(
            f"partition {index} is none of the {len(partitions)} of this plan", fix=CLEAR_THE_PLAN
        )
    return found[0]


def _range_load(transfer: Transfer, staged: StagedRange) -> RangeLoad:
    done = staged.done
    return RangeLoad(
        run=transfer.ledger.run,
        partition=done.partition,
        state="reused" if done.reused else "staged",
        extracted_rows=0 if done.reused else done.rows_exported,
        staged_rows=staged.handle.staged_rows,
    )
