"""Resolving a guard by what a person found: the only way out of an unresolved one, and it leaves a trace (Facts 6).

Pure. `published` makes the batch's checkpoints committed, `not_published` makes them failed, so that its ranges are
transferred again. `removed` releases the whole run: its rows are no longer in the target.
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
    guard_of,
    unresolved,
)

RECONCILED_FIELD: Final = "reconciled"


class NothingToReconcileError(ETLConfigurationError):
    """The run has no unresolved guard; nothing was changed."""

    code = "DPONE_TRANSFER_NOTHING_TO_RECONCILE"


class ReconciliationContradictedError(ETLConfigurationError):
    """The sink's own load marker says otherwise; nothing was changed."""

    code = "DPONE_TRANSFER_MARKER_CONTRADICTS"


class Found(StrEnum):
    """What an operator found in the target."""

    PUBLISHED = "published"
    NOT_PUBLISHED = "not_published"
    REMOVED = "removed"


class SinkSays(StrEnum):
    """What the load marker of the sink says of a batch."""

    PUBLISHED = "published"
    NOT_PUBLISHED = "not_published"
    CANNOT_SAY = "cannot_say"

    @classmethod
    def of(cls, held: bool | None) -> SinkSays:
        if held is None:
            return cls.CANNOT_SAY
        return cls.PUBLISHED if held else cls.NOT_PUBLISHED

    def contradicts(self, found: Found) -> bool:
        """`removed` speaks of what happened after the publication, which no marker knows."""
        return found is not Found.REMOVED and self is not SinkSays.CANNOT_SAY and self.value != found.value


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedBatch:
    """Partitions that were being published together. `load_id`, `attempt` and `mark` are what the sink is asked by."""

    batch_id: str
    phase: GuardPhase
    records: tuple[PartitionCheckpoint, ...]
    load_id: str | None
    attempt: int
    mark: str | None

    @property
    def rows(self) -> int | None:
        counts = [record.rows_exported for record in self.records]
        return None if None in counts else sum(count for count in counts if count is not None)


def unresolved_batches(records: Iterable[PartitionCheckpoint]) -> tuple[UnresolvedBatch, ...]:
    """In the order of their first partition. Raises GuardInvalidError."""
    grouped: dict[str, list[PartitionCheckpoint]] = {}
    for record in unresolved(records):
        guard = guard_of(record)
        assert guard is not None  # unresolved ones have a guard
        grouped.setdefault(guard.checkpoint_batch_id, []).append(record)
    return tuple(_batch(batch_id, tuple(found)) for batch_id, found in grouped.items())


def resolved(batch: UnresolvedBatch, found: Found, at: datetime) -> tuple[PartitionCheckpoint, ...]:
    """The checkpoints as they are written after the declaration."""
    phase = GuardPhase.CHECKPOINT_COMMITTED if found is Found.PUBLISHED else GuardPhase.FAILED_BEFORE_TARGET
    return tuple(_resolved(record, batch.batch_id, phase, found, at) for record in batch.records)


def _resolved(
    record: PartitionCheckpoint, batch_id: str, phase: GuardPhase, found: Found, at: datetime
) -> PartitionCheckpoint:
    guard = guard_of(record)
    settled = TargetCommitGuard(
        checkpoint_batch_id=batch_id, phase=phase, strategy=None if guard is None else guard.strategy
    )
    diagnostics = {**record.diagnostics, GUARD_FIELD: settled.as_json(), RECONCILED_FIELD: found.value}
    return replace(record, status=phase.status, completed_at=max(at, record.started_at), diagnostics=diagnostics)


def _batch(batch_id: str, records: tuple[PartitionCheckpoint, ...]) -> UnresolvedBatch:
    guard, witness = guard_of(records[0]), records[0].diagnostics.get(WITNESS_FIELD)
    said: Mapping[str, object] = witness if isinstance(witness, Mapping) else {}
    load_id, attempt, mark = said.get("load_id"), said.get("attempt"), said.get("mark")
    return UnresolvedBatch(
        batch_id=batch_id,
        phase=GuardPhase.ARMED if guard is None else guard.phase,
        records=records,
        load_id=load_id if isinstance(load_id, str) else None,
        attempt=attempt if type(attempt) is int else 1,
        mark=mark if isinstance(mark, str) else None,
    )
