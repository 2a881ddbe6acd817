"""The plan that another process stored, found again under its fingerprint. Nothing here plans anew.

Who stages one range, and who publishes what was staged, both work on exactly the plan they were given: another one
under the same run id, or one whose query or columns have changed since, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dpone_core.errors import ETLExecutionError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction
from dpone_core.loading.native.conflicts import refuse_unsettled_route, refuse_unsettled_run
from dpone_core.loading.native.model import Transfer
from dpone_core.loading.native.plan import (
    is_same_cursor,
    is_same_workload,
    refuse_changed,
    require_same_cursor,
    transfer_of,
    windowed,
)
from dpone_core.model.partition import PartitionCheckpoint, TransferRun, TransferRunState
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.planning.partitions import route_of

CLEAR_THE_PLAN: Final = "clear transfer_plan and everything behind it: an open run resumes, any other is planned anew"


class TransferPlanMismatchError(ETLExecutionError):
    """The plan that was given is not the one that is stored and open; nothing was mutated."""

    code = "native_transfer_plan_mismatch"

    def __init__(self, message: str) -> None:
        super().__init__(message, fix=CLEAR_THE_PLAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTransfer:
    """`expected` is the fingerprint of the plan this process was told to work on."""

    context: LoadContext
    store: CheckpointStore
    expected: str

    def open_run(self) -> TransferRun:
        """The run whose ranges may be staged. Raises TransferPlanMismatchError."""
        run = self._run()
        if run.state is not TransferRunState.OPEN:
            raise TransferPlanMismatchError(f"the transfer planned under this run id is {run.state}")
        return run

    def staging(self, run: TransferRun, extraction: Extraction) -> Transfer:
        """For who stages a range of the run. `extraction` stands in the plan's own window."""
        known = self._known(run)
        refuse_unsettled_run(self.context, run.run_id, known)
        require_same_cursor(self.context, run, extraction, known)
        self._require_same_workload(run, extraction, known)
        return transfer_of(self.context, self.store, run, extraction, known, None, resumed=True)

    def publishing(self, extraction: Extraction, snapshot: str | None) -> Transfer:
        """For who publishes the run. One that is complete has nothing to publish and is only validated again."""
        run = self._run()
        self.context.commit_state.stored_plan = run
        known = self._known(run)
        refuse_unsettled_route(self.context, self.store, run.route, run.run_id, known)
        closed = run.state is not TransferRunState.OPEN
        if closed and not is_same_cursor(run, extraction.seen, known):
            raise TransferPlanMismatchError(f"the transfer planned under this run id is {run.state}")
        require_same_cursor(self.context, run, extraction, known)
        planned = windowed(extraction, run.plan)
        self._require_same_workload(run, planned, known)
        transfer = transfer_of(self.context, self.store, run, planned, known, snapshot, resumed=True)
        if run.state is TransferRunState.RELEASED or (closed and not transfer.scope.is_resume_only):
            raise TransferPlanMismatchError(f"the transfer planned under this run id is {run.state}")
        return transfer

    def _run(self) -> TransferRun:
        run = self.store.run(route_of(self.context.plan), str(self.context.identity.run_id))
        if run is None:
            raise TransferPlanMismatchError("no transfer is planned under this run id")
        if run.plan_fingerprint != self.expected:
            raise TransferPlanMismatchError("another plan is stored under this run id than the one that was given")
        return run

    def _known(self, run: TransferRun) -> tuple[PartitionCheckpoint, ...]:
        return self.store.latest(run.route, run.run_id)

    def _require_same_workload(
        self, run: TransferRun, extraction: Extraction, known: tuple[PartitionCheckpoint, ...]
    ) -> None:
        if not is_same_workload(self.context, run.plan, extraction):
            refuse_changed(self.context, run, known)
            raise TransferPlanMismatchError("the query or the columns have changed since the ranges were planned")
