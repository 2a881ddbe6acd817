"""Resolves a guard by what an operator found in the target. Nothing else resolves one. Pure.

`published` makes the checkpoints of the batch committed; `not_published` makes them failed, so that its partitions are
transferred again; `removed` releases the whole run, because its rows are no longer in the target. The declaration stays
in the checkpoints (NAT-63).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from dpone_core.errors import ETLConfigurationError
from dpone_core.model.partition import PartitionCheckpoint
from dpone_core.native_transfer.guard import (
    GUARD_FIELD,
    WITNESS_FIELD,
    GuardPhase,
    TargetCommitGuard,
    find_unresolved,
    read_guard,
)

RECONCILED_FIELD: Final = "reconciled"


class NothingToReconcileError(ETLConfigurationError):
    """The run has no unresolved guard. Nothing was changed."""

    code = "DPONE_TRANSFER_NOTHING_TO_RECONCILE"


class ReconciliationContradictedError(ETLConfigurationError):
    """The load marker of the sink contradicts the operator's finding. Nothing was changed."""

    code = "DPONE_TRANSFER_MARKER_CONTRADICTS"


class Finding(StrEnum):
    """What an operator found in the target."""

    PUBLISHED = "published"
    NOT_PUBLISHED = "not_published"
    REMOVED = "removed"


class MarkerAnswer(StrEnum):
    """What the load marker of the sink says about a batch."""

    PUBLISHED = "published"
    NOT_PUBLISHED = "not_published"
    CANNOT_SAY = "cannot_say"

    @classmethod
    def of(cls, is_held: bool | None) -> MarkerAnswer:
        """`is_held`: whether the target holds the batch; None when the marker cannot say."""
        if is_held is None:
            return cls.CANNOT_SAY
        return cls.PUBLISHED if is_held else cls.NOT_PUBLISHED

    def contradicts(self, found: Finding) -> bool:
        """Whether the answer rules out the finding. It never does for `removed`: no marker knows of later removals."""
        return found is not Finding.REMOVED and self is not MarkerAnswer.CANNOT_SAY and self.value != found.value


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedBatch:
    """Partitions that were published together when their process ended.

    `load_id` and `attempt` name the publication for the sink; `mark` is the load marker the target had before it.
    """

    batch_id: str
    phase: GuardPhase
    records: tuple[PartitionCheckpoint, ...]
    load_id: str | None
    attempt: int
    mark: str | None

    @property
    def rows(self) -> int | None:
        """Rows of the batch; None when a checkpoint does not count them."""
        counts = [record.rows_exported for record in self.records]
        return None if None in counts else sum(count for count in counts if count is not None)


def unresolved_batches(records: Iterable[PartitionCheckpoint]) -> tuple[UnresolvedBatch, ...]:
    """The unresolved batches, in the order of their first partition. Raises GuardInvalidError."""
    grouped: dict[str, list[PartitionCheckpoint]] = {}
    for record in find_unresolved(records):
        guard = read_guard(record)
        assert guard is not None  # unresolved ones have a guard
        grouped.setdefault(guard.checkpoint_batch_id, []).append(record)
    return tuple(_build_batch(batch_id, tuple(found)) for batch_id, found in grouped.items())


def resolve(batch: UnresolvedBatch, found: Finding, at: datetime) -> tuple[PartitionCheckpoint, ...]:
    """The checkpoints of the batch after the operator's declaration. Writes nothing."""
    phase = GuardPhase.CHECKPOINT_COMMITTED if found is Finding.PUBLISHED else GuardPhase.FAILED_BEFORE_TARGET
    return tuple(_resolve(record, batch.batch_id, phase, found, at) for record in batch.records)


def _resolve(
    record: PartitionCheckpoint, batch_id: str, phase: GuardPhase, found: Finding, at: datetime
) -> PartitionCheckpoint:
    guard = read_guard(record)
    resolved = TargetCommitGuard(
        checkpoint_batch_id=batch_id, phase=phase, strategy=None if guard is None else guard.strategy
    )
    diagnostics = {**record.diagnostics, GUARD_FIELD: resolved.as_json(), RECONCILED_FIELD: found.value}
    return replace(record, status=phase.status, completed_at=max(at, record.started_at), diagnostics=diagnostics)


def _build_batch(batch_id: str, records: tuple[PartitionCheckpoint, ...]) -> UnresolvedBatch:
    guard, witness = read_guard(records[0]), records[0].diagnostics.get(WITNESS_FIELD)
    fields: Mapping[str, object] = witness if isinstance(witness, Mapping) else {}
    load_id, attempt, mark = fields.get("load_id"), fields.get("attempt"), fields.get("mark")
    return UnresolvedBatch(
        batch_id=batch_id,
        phase=GuardPhase.ARMED if guard is None else guard.phase,
        records=records,
        load_id=load_id if isinstance(load_id, str) else None,
        attempt=attempt if type(attempt) is int else 1,
        mark=mark if isinstance(mark, str) else None,
    )
