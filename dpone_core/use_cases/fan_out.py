"""One process of a fan-out: it plans the key ranges of a run, or stages one of them. `run` publishes what is staged.

Neither takes the lease of the target, because neither mutates it. What can be refused before the sessions open raises;
what happens after that is in the result, like the outcome of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final, Literal

from dpone_core.declared.registry import descriptor_of, is_embedded
from dpone_core.errors import ETLConfigurationError, ExitClass
from dpone_core.evidence.outcome import failure_facts
from dpone_core.invocation import InvocationInvalidError, RunInvocation
from dpone_core.loading.attempt import OpenSessions, prefer_interruption
from dpone_core.loading.commit_state import CommitState
from dpone_core.loading.context import LoadContext, LoadRequest
from dpone_core.loading.native.fan_out import FanOut, PartitionItem, PartitionLoad
from dpone_core.loading.native.model import Transfer
from dpone_core.loading.step_log import StepLog
from dpone_core.model.fingerprint import is_fingerprint
from dpone_core.model.partition import TransferRun
from dpone_core.model.vocabulary import RetryClassification, StepKind
from dpone_core.native_transfer.report import checkpoint_summary
from dpone_core.planning.fan_out import refuse_fan_out
from dpone_core.ports.runtime import Runtime
from dpone_core.use_cases.plan import PlannedProcess
from dpone_core.use_cases.prepare import PreparedProcess, make_load_identity

PLAN_KIND: Final = "dpone.transfer_plan.v1"
PARTITION_KIND: Final = "dpone.transfer_partition.v1"
MAPPING_MODE: Final = "native_transfer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferExecution:
    """What one process of a fan-out did. `document` is what it prints; None after a failure, which is `error`.

    `transfer_plan` and `partitions` are None until the plan is known, the rows None where none were to be staged.
    """

    kind: Literal[StepKind.TRANSFER_PLAN, StepKind.TRANSFER_PARTITION]
    process: str
    policy_snapshot_id: str
    load_id: str
    invocation: RunInvocation
    document: dict[str, object] | None = None
    transfer_plan: str | None = None
    partitions: int | None = None
    extracted_rows: int | None = None
    staged_rows: int | None = None
    retry: RetryClassification | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOutProcess:
    """`prepared` passed `require_fan_out` and `require_shared_sink`; `sessions` None = over its connections."""

    prepared: PreparedProcess
    invocation: RunInvocation
    runtime: Runtime
    sessions: OpenSessions | None = None

    def plan(self) -> TransferExecution:
        """Plans the ranges of this run id, or returns the plan that was stored before."""

        def plan_ranges(fan_out: FanOut, stated: TransferExecution) -> TransferExecution:
            transfer = fan_out.plan()
            return replace(_name_plan(stated, transfer.ledger.run), document=_plan_document(stated, transfer))

        return self._over_sessions(StepKind.TRANSFER_PLAN, plan_ranges)

    def load(self, item: PartitionItem) -> TransferExecution:
        """Stages one range, unless it is staged or committed already."""

        def stage_range(fan_out: FanOut, stated: TransferExecution) -> TransferExecution:
            done = fan_out.stage(item)
            return replace(
                _name_plan(stated, done.run),
                document=_partition_document(stated, item, done),
                extracted_rows=done.extracted_rows,
                staged_rows=done.staged_rows,
            )

        return self._over_sessions(StepKind.TRANSFER_PARTITION, stage_range)

    def _over_sessions(
        self,
        kind: Literal[StepKind.TRANSFER_PLAN, StepKind.TRANSFER_PARTITION],
        work: Callable[[FanOut, TransferExecution], TransferExecution],
    ) -> TransferExecution:
        """Never raises for what a source or a sink can cause."""
        planned, clock = self.prepared.planned, self.runtime.clock
        identity, commit_state = make_load_identity(self.invocation, clock, 1), CommitState()
        step_log = StepLog(identity=identity, plan=planned.plan, clock=clock, audit=None)
        stated = TransferExecution(
            kind=kind,
            process=planned.plan.process,
            policy_snapshot_id=planned.snapshot.policy_snapshot_id,
            load_id=identity.load_id,
            invocation=self.invocation,
        )
        try:
            opener = self.sessions or self.prepared.session_opener()
            with opener(identity) as sessions, ExitStack() as shield:
                step_log.audit = sessions.audit
                context = LoadContext(
                    request=self._make_request(),
                    runtime=self.runtime,
                    sessions=sessions,
                    identity=identity,
                    step_log=step_log,
                    commit_state=commit_state,
                    commit_shield=shield,
                )
                return _record_failure(context, lambda: work(FanOut.of(context), stated))
        except BaseException as caught:  # noqa: BLE001 - stated in the result, like the outcome of an attempt
            error = prefer_interruption(caught, self.runtime, commit_state)
        known = commit_state.stored_plan
        return replace(
            stated if known is None else _name_plan(stated, known),
            retry=None if failure_facts(error).exit_code == ExitClass.REFUSED else commit_state.retry,
            error=error,
        )

    def _make_request(self) -> LoadRequest:
        planned = self.prepared.planned
        return LoadRequest(
            config=planned.config,
            plan=planned.plan,
            snapshot=planned.snapshot,
            token_values=self.invocation.token_values,
            hook_receipts=self.prepared.hook_receipts,
        )


def _record_failure(context: LoadContext, work: Callable[[], TransferExecution]) -> TransferExecution:
    """Does the work; a failure after its start also closes its audit row, while the sessions are open."""
    try:
        return work()
    except BaseException as caught:
        error = prefer_interruption(caught, context.runtime, context.commit_state)
        if context.step_log.has_started:
            with context.runtime.cancellation.shield():
                context.step_log.record_load_failure(error)
        if error is caught:
            raise
        raise error from caught


def require_fan_out(planned: PlannedProcess, separate_hooks: str) -> None:
    """Raises RouteRefusedError, and ETLConfigurationError where pre-hooks would run behind the extraction."""
    refuse_fan_out(planned.config, descriptor_of(planned.config.sink.type))
    if planned.plan.pre_hooks and separate_hooks != "receipts":
        raise ETLConfigurationError(
            "pre-hooks stand before the ranges are planned and are taken by their receipts",
            code="DPONE_ROUTE_REFUSED",
            fix="pass --separate-hooks receipts",
        )


def require_shared_sink(prepared: PreparedProcess) -> None:
    """Raises ETLConfigurationError for a sink that runs inside one process: several processes cannot share it."""
    if is_embedded(prepared.sink):
        raise ETLConfigurationError(
            f"connection '{prepared.sink.ref}' is an engine inside one process; ranges are staged by several",
            code="DPONE_ROUTE_REFUSED",
            fix="run it in one process: dpone run",
        )


def require_plan_fingerprint(invocation: RunInvocation) -> str:
    """Returns the fingerprint of the plan this process was told to work on. Raises InvocationInvalidError."""
    if invocation.transfer_plan is None:
        raise InvocationInvalidError(
            "the plan whose ranges are meant is not given",
            code="DPONE_TRANSFER_PLAN_MISSING",
            fix="pass --transfer-plan, as `dpone transfer plan` printed it, or set DPONE_TRANSFER_PLAN",
        )
    return invocation.transfer_plan


def choose_range(invocation: RunInvocation, partition: int | None) -> PartitionItem:
    """Returns the range to stage: the one given, or the scheduler's mapping item. Raises InvocationInvalidError."""
    if partition is None:
        item = _read_mapping_item(invocation)
    else:
        item = PartitionItem(index=partition, transfer_plan=require_plan_fingerprint(invocation))
    if invocation.map_index not in (-1, item.index):
        raise InvocationInvalidError(
            f"partition {item.index} is asked of the task with map index {invocation.map_index}",
            code="DPONE_AIRFLOW_MAPPING_ITEM_FOREIGN",
            fix="let each mapped task take the item of its own index",
        )
    return item


def _read_mapping_item(invocation: RunInvocation) -> PartitionItem:
    item = invocation.mapping_item
    if item is None:
        raise InvocationInvalidError(
            "which range to stage is not given",
            code="DPONE_AIRFLOW_MAPPING_ITEM_MISSING",
            fix="pass --partition and --transfer-plan, or set DPONE_AIRFLOW_MAPPING_ITEM",
        )
    index, plan = item.get("item_index"), item.get("mapping_plan_fingerprint")
    named = isinstance(plan, str) and is_fingerprint(plan) and type(index) is int and index >= 0
    if item.get("mode") != MAPPING_MODE or not named:
        raise InvocationInvalidError(
            f"DPONE_AIRFLOW_MAPPING_ITEM names no range of mode {MAPPING_MODE}",
            code="DPONE_AIRFLOW_MAPPING_ITEM_INVALID",
        )
    assert isinstance(plan, str) and isinstance(index, int)
    return PartitionItem(index=index, transfer_plan=plan)


def _name_plan(stated: TransferExecution, run: TransferRun) -> TransferExecution:
    return replace(stated, transfer_plan=run.plan_fingerprint, partitions=len(run.plan.ranges))


def _plan_document(stated: TransferExecution, transfer: Transfer) -> dict[str, object]:
    """No bounds: they are values of the source."""
    run = transfer.ledger.run
    planned = {partition.id for partition in transfer.resume.planned}
    return {
        "kind": PLAN_KIND,
        "process": stated.process,
        "run_id": run.run_id,
        "transfer_plan": run.plan_fingerprint,
        "partitions": len(run.plan.ranges),
        "planned_rows": run.plan.rows,
        "partitioning_column": run.plan.column,
        "source_table": run.route.source_table,
        "target_table": run.route.target_table,
        "strategy": run.route.strategy.value,
        "resumed": transfer.resumed,
        "checkpoint_summary": checkpoint_summary(
            record for key, record in transfer.ledger.latest.items() if key in planned
        ),
    }


def _partition_document(stated: TransferExecution, item: PartitionItem, done: PartitionLoad) -> dict[str, object]:
    return {
        "kind": PARTITION_KIND,
        "process": stated.process,
        "run_id": done.run.run_id,
        "load_id": stated.load_id,
        "transfer_plan": item.transfer_plan,
        "partition": item.index,
        "partitions": len(done.run.plan.ranges),
        "state": done.state,
        "extracted_rows": done.extracted_rows,
        "staged_rows": done.staged_rows,
    }
