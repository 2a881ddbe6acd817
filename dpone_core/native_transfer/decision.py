"""Decides for each planned partition whether an attempt skips or reads it. Pure.

A partition is skipped when it is committed and still the same. A full refresh replaces the whole target, so as soon as
one partition must be read, the committed ones are read again too ("reactivated"), and each counts once, with its new
rows (NAT-68).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dpone_core.model.fingerprint import fingerprint, is_fingerprint
from dpone_core.model.partition import CheckpointStatus, KeyRange, PartitionCheckpoint, TransferPartition
from dpone_core.model.vocabulary import StrategyMode

ARTIFACT_FIELD: Final = "artifact_sha256"
MATCHING: Final = "committed_matching_checkpoint"


class ResumeAction(StrEnum):
    """What an attempt does with a partition: skip it, or read it (again)."""

    SKIP = "skip"
    RETRY = "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeDecision:
    """What happens to one partition and why (NAT-67). `checkpoint_status` is None without a checkpoint."""

    partition: TransferPartition
    action: ResumeAction
    reason: str
    checkpoint_status: CheckpointStatus | None

    def as_json(self) -> dict[str, object]:
        return {
            "partition": self.partition.id,
            "action": self.action.value,
            "reason": self.reason,
            "checkpoint_status": None if self.checkpoint_status is None else self.checkpoint_status.value,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePlan:
    """The decisions of one attempt, in plan order, and the sets of partitions that follow from them."""

    decisions: tuple[ResumeDecision, ...]
    strategy: StrategyMode

    @property
    def planned(self) -> tuple[TransferPartition, ...]:
        """All partitions of the plan."""
        return tuple(decision.partition for decision in self.decisions)

    @property
    def skipped(self) -> tuple[TransferPartition, ...]:
        """Committed partitions that need not be read, as far as they alone are concerned."""
        return tuple(decision.partition for decision in self.decisions if decision.action is ResumeAction.SKIP)

    @property
    def active(self) -> tuple[TransferPartition, ...]:
        """Partitions that this attempt reads, the reactivated ones included."""
        if self.reactivated:
            return self.planned
        return tuple(decision.partition for decision in self.decisions if decision.action is ResumeAction.RETRY)

    @property
    def reactivated(self) -> tuple[TransferPartition, ...]:
        """Skipped partitions that a full refresh reads again, because it reads at least one other."""
        retries = len(self.skipped) < len(self.decisions)
        return self.skipped if retries and self.strategy is StrategyMode.FULL_REFRESH else ()

    def as_json(self) -> dict[str, object]:
        skips = len(self.skipped)
        return {
            "summary": {"skip": skips, "retry": len(self.decisions) - skips},
            "decisions": [decision.as_json() for decision in self.decisions],
        }


def artifact_checksum(staging_table: str, rows: int, query_hash: str, schema_hash: str) -> str:
    """Fingerprint of staged rows: their table, how many the sink counts, and the query and schema they were read by."""
    return fingerprint(
        {"query_hash": query_hash, "rows": rows, "schema_hash": schema_hash, "staging_table": staging_table}
    )


def decide(
    partitions: Iterable[TransferPartition],
    checkpoints: Iterable[PartitionCheckpoint],
    strategy: StrategyMode,
    artifacts: Mapping[str, str] | None = None,
) -> ResumePlan:
    """Decides for every partition, from the newest checkpoint of each. Writes nothing.

    `artifacts` are the checksums of artifacts that exist now, by partition id; a partition without one is not compared.
    """
    by_bounds: dict[KeyRange, PartitionCheckpoint] = {}
    by_id = {record.partition_id: record for record in checkpoints}
    for record in by_id.values():
        by_bounds.setdefault(record.bounds, record)
    decisions = tuple(
        _decide(partition, by_id.get(partition.id) or by_bounds.get(partition.bounds), artifacts or {})
        for partition in partitions
    )
    return ResumePlan(decisions=decisions, strategy=strategy)


def is_reusable(partition: TransferPartition, record: PartitionCheckpoint | None, checksum: str | None) -> bool:
    """Whether staged rows of an earlier attempt can be used instead of reading again.

    `record` must be LOADED with the query and schema hash of `partition`, and `checksum`, computed now, its checksum.
    """
    return (
        record is not None
        and record.status is CheckpointStatus.LOADED
        and record.partition_id == partition.id
        and (record.query_hash, record.schema_hash) == (partition.query_hash, partition.schema_hash)
        and checksum is not None
        and record.diagnostics.get(ARTIFACT_FIELD) == checksum
    )


def _decide(
    partition: TransferPartition, record: PartitionCheckpoint | None, artifacts: Mapping[str, str]
) -> ResumeDecision:
    reason = _find_reason(partition, record, artifacts)
    return ResumeDecision(
        partition=partition,
        action=ResumeAction.SKIP if reason == MATCHING else ResumeAction.RETRY,
        reason=reason,
        checkpoint_status=None if record is None else record.status,
    )


def _find_reason(partition: TransferPartition, record: PartitionCheckpoint | None, artifacts: Mapping[str, str]) -> str:
    if record is None:
        return "missing_checkpoint"
    if (record.query_hash, record.schema_hash) != (partition.query_hash, partition.schema_hash):
        return "query_or_schema_hash_changed"
    if record.status is not CheckpointStatus.COMMITTED:
        return f"latest_status_{record.status.value}"
    recorded = record.diagnostics.get(ARTIFACT_FIELD)
    if not is_fingerprint(recorded):
        return "missing_artifact_checksum"
    if artifacts.get(partition.id, recorded) != recorded:
        return "artifact_checksum_changed"
    return MATCHING
