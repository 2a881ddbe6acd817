"""Continues a transfer plan that another process stored, identified by its fingerprint. Never makes a new plan.

A process that stages one partition, and the load that publishes them, get the fingerprint of their plan. They refuse
another plan under the same run id, and a plan whose query or columns have changed since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dpone_core.errors import ETLExecutionError
from dpone_core.loading.context import LoadContext
from dpone_core.loading.extraction import Extraction
from dpone_core.loading.native.conflicts import refuse_route_in_doubt, refuse_run_in_doubt
from dpone_core.loading.native.model import Transfer
from dpone_core.loading.native.plan import (
    build_transfer,
    is_same_cursor,
    is_same_workload,
    refuse_changed_workload,
    require_same_cursor,
    use_planned_window,
)
from dpone_core.model.partition import PartitionCheckpoint, TransferRun, TransferRunState
from dpone_core.native_transfer.checkpoints import CheckpointStore
from dpone_core.planning.partitions import route_of

CLEAR_THE_PLAN: Final = "clear transfer_plan and everything behind it: an open run resumes, any other is planned anew"


class TransferPlanMismatchError(ETLExecutionError):
    """The stored plan of this run id is missing, closed, or not the expected one. Nothing was mutated."""

    code = "native_transfer_plan_mismatch"

    def __init__(self, message: str) -> None:
        super().__init__(message, fix=CLEAR_THE_PLAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTransfer:
    """Reads the stored plan of this run id. `expected` is the fingerprint that this process was given."""

    context: LoadContext
    store: CheckpointStore
    expected: str

    def open_run(self) -> TransferRun:
        """The run with the expected plan, while its partitions may be staged. Raises TransferPlanMismatchError."""
        run = self._read_run()
        if run.state is not TransferRunState.OPEN:
            raise TransferPlanMismatchError(f"the transfer planned under this run id is {run.state}")
        return run

    def resume_for_staging(self, run: TransferRun, extraction: Extraction) -> Transfer:
        """The transfer for a process that stages one partition. `extraction` has the cursor window of the plan."""
        known = self._read_checkpoints(run)
        refuse_run_in_doubt(self.context, run.run_id, known)
        require_same_cursor(self.context, run, extraction, known)
        self._require_same_workload(run, extraction, known)
        return build_transfer(self.context, self.store, run, extraction, known, None, resumed=True)

    def resume_for_publishing(self, extraction: Extraction, snapshot: str | None) -> Transfer:
        """The transfer for the load that publishes the run.

        A complete run has nothing to publish and is only validated.

        Raises TransferPlanMismatchError when the plan is released, changed, or not the expected one.
        """
        run = self._read_run()
        self.context.commit_state.stored_plan = run
        known = self._read_checkpoints(run)
        refuse_route_in_doubt(self.context, self.store, run.route, run.run_id, known)
        closed = run.state is not TransferRunState.OPEN
        if closed and not is_same_cursor(run, extraction.saved_cursor, known):
            raise TransferPlanMismatchError(f"the transfer planned under this run id is {run.state}")
        require_same_cursor(self.context, run, extraction, known)
        planned = use_planned_window(extraction, run.plan)
        self._require_same_workload(run, planned, known)
        transfer = build_transfer(self.context, self.store, run, planned, known, snapshot, resumed=True)
        if run.state is TransferRunState.RELEASED or (closed and not transfer.scope.is_resume_only):
            raise TransferPlanMismatchError(f"the transfer planned under this run id is {run.state}")
        return transfer

    def _read_run(self) -> TransferRun:
        run = self.store.run(route_of(self.context.plan), str(self.context.identity.run_id))
        if run is None:
            raise TransferPlanMismatchError("no transfer plan is stored under this run id")
        if run.plan_fingerprint != self.expected:
            raise TransferPlanMismatchError(
                "the plan stored under this run id is not the one whose fingerprint was given"
            )
        return run

    def _read_checkpoints(self, run: TransferRun) -> tuple[PartitionCheckpoint, ...]:
        return self.store.latest(run.route, run.run_id)

    def _require_same_workload(
        self, run: TransferRun, extraction: Extraction, known: tuple[PartitionCheckpoint, ...]
    ) -> None:
        if not is_same_workload(self.context, run.plan, extraction):
            refuse_changed_workload(self.context, run, known)
            raise TransferPlanMismatchError("the query or the columns have changed since this transfer was planned")
