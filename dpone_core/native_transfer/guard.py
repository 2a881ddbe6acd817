"""The target commit guard: stored as armed before the target is touched, resolved once its checkpoints are committed.

A process that dies between the two leaves an armed guard. Whether the target holds the batch is then unknown, and every
later run of the route is refused until an operator declares what the target holds (NAT-13). The guard is part of the
diagnostics of the checkpoints, so it is exactly as durable as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dpone_core.errors import ETLExecutionError
from dpone_core.model.fingerprint import fingerprint, is_fingerprint
from dpone_core.model.partition import CheckpointStatus, PartitionCheckpoint
from dpone_core.model.vocabulary import StrategyMode

GUARD_SCHEMA: Final = "dpone.native_transfer.target_commit_guard.v1"
GUARD_FIELD: Final = "target_commit_guard"
WITNESS_FIELD: Final = "target_witness"
RECOVERY: Final = "manual_reconciliation_required"


class ManualReconciliationRequiredError(ETLExecutionError):
    """It is unknown whether the target holds a batch of an earlier attempt. Nothing was read or mutated."""

    code = "native_transfer_manual_reconciliation_required"


class GuardInvalidError(ETLExecutionError):
    """A stored guard is missing or malformed. It never counts as resolved."""

    code = "native_transfer_target_commit_guard_invalid"


class GuardNotArmedError(ETLExecutionError):
    """The checkpoints of a batch were to be committed although its guard is not armed."""

    code = "native_transfer_target_commit_guard_not_armed"


class GuardPhase(StrEnum):
    """How far the commit of a batch has come."""

    ARMED = "armed"
    FAILED_BEFORE_TARGET = "failed_before_target"
    CHECKPOINT_COMMITTED = "checkpoint_committed"
    CHECKPOINT_INCOMPLETE = "checkpoint_incomplete"
    TARGET_OUTCOME_UNKNOWN = "target_outcome_unknown"

    @property
    def status(self) -> CheckpointStatus:
        """The status of a checkpoint that carries a guard of this phase."""
        return _STATUS[self]

    @property
    def is_unresolved(self) -> bool:
        """Whether nobody knows what the commit did to the target, so that an operator must decide."""
        return self in (GuardPhase.ARMED, GuardPhase.CHECKPOINT_INCOMPLETE, GuardPhase.TARGET_OUTCOME_UNKNOWN)


_STATUS: Final = {
    GuardPhase.ARMED: CheckpointStatus.EXPORTED,
    GuardPhase.FAILED_BEFORE_TARGET: CheckpointStatus.FAILED,
    GuardPhase.CHECKPOINT_COMMITTED: CheckpointStatus.COMMITTED,
    GuardPhase.CHECKPOINT_INCOMPLETE: CheckpointStatus.FAILED,
    GuardPhase.TARGET_OUTCOME_UNKNOWN: CheckpointStatus.FAILED,
}


def batch_id(run_id: str, partition_ids: Iterable[str]) -> str:
    """Fingerprint of the partitions that are published together in one run."""
    return fingerprint({"partition_ids": sorted(partition_ids), "run_id": run_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCommitGuard:
    """The guard of one batch, as its checkpoints carry it. `strategy` is None in records of older versions."""

    checkpoint_batch_id: str
    phase: GuardPhase
    strategy: StrategyMode | None = None

    def as_json(self) -> dict[str, object]:
        document: dict[str, object] = {
            "schema_version": GUARD_SCHEMA,
            "checkpoint_batch_id": self.checkpoint_batch_id,
            "phase": self.phase.value,
            "recovery": RECOVERY,
        }
        return document if self.strategy is None else {**document, "strategy": self.strategy.value}


def read_guard(record: PartitionCheckpoint) -> TargetCommitGuard | None:
    """The guard of a checkpoint, None for none.

    Raises GuardInvalidError for a missing, malformed or contradictory one.
    """
    document = record.diagnostics.get(GUARD_FIELD)
    if document is None:
        if record.status is CheckpointStatus.EXPORTED:
            raise GuardInvalidError(
                "the checkpoint of a partition says it was handed to the target, but it carries no guard"
            )
        return None
    try:
        guard = _guard_of(document)
    except (KeyError, TypeError, ValueError) as error:
        raise GuardInvalidError(
            f"the guard in the checkpoint of a partition is malformed; expected {GUARD_SCHEMA}"
        ) from error
    if guard.phase.status is not record.status:
        raise GuardInvalidError(
            f"the guard of a partition has phase '{guard.phase}', which contradicts its status '{record.status}'"
        )
    return guard


def find_unresolved(records: Iterable[PartitionCheckpoint]) -> tuple[PartitionCheckpoint, ...]:
    """The checkpoints with an unresolved guard. Raises GuardInvalidError."""
    return tuple(
        record for record in records if (guard := read_guard(record)) is not None and guard.phase.is_unresolved
    )


def require_resolved(run_id: str, records: Sequence[PartitionCheckpoint]) -> None:
    """Raises ManualReconciliationRequiredError while a guard of the run is unresolved."""
    open_guards = find_unresolved(records)
    if open_guards:
        raise ManualReconciliationRequiredError(
            f"run {run_id!r} ended while it published {len(open_guards)} partitions, and it is unknown whether the "
            "target holds them",
            fix="look with `dpone transfer show`, then declare what the target holds with `dpone transfer reconcile`",
        )


def _guard_of(document: object) -> TargetCommitGuard:
    if not isinstance(document, Mapping) or document["schema_version"] != GUARD_SCHEMA:
        raise ValueError("not a guard of this version")
    if document["recovery"] != RECOVERY or not is_fingerprint(document["checkpoint_batch_id"]):
        raise ValueError("not a guard of this version")
    strategy = document.get("strategy")
    return TargetCommitGuard(
        checkpoint_batch_id=str(document["checkpoint_batch_id"]),
        phase=GuardPhase(document["phase"]),
        strategy=None if strategy is None else StrategyMode(strategy),
    )
