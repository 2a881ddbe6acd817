"""What an attempt does with each planned partition: skip what is committed and still the same, read the rest.

A full refresh replaces the whole target, so one partition to read makes all of them necessary again: committed skips
are reactivated and counted once, with their new rows (S0 "native logical quality scope"). Pure.
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
    SKIP = "skip"
    RETRY = "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeDecision:
    """`reason` is one of Facts 6; `checkpoint_status` None where the run has no checkpoint of these bounds."""

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
    """P, A, S and R of one attempt, in plan order."""

    decisions: tuple[ResumeDecision, ...]
    strategy: StrategyMode

    @property
    def planned(self) -> tuple[TransferPartition, ...]:
        return tuple(decision.partition for decision in self.decisions)

    @property
    def skipped(self) -> tuple[TransferPartition, ...]:
        return tuple(decision.partition for decision in self.decisions if decision.action is ResumeAction.SKIP)

    @property
    def active(self) -> tuple[TransferPartition, ...]:
        if self.reactivated:
            return self.planned
        return tuple(decision.partition for decision in self.decisions if decision.action is ResumeAction.RETRY)

    @property
    def reactivated(self) -> tuple[TransferPartition, ...]:
        retries = len(self.skipped) < len(self.decisions)
        return self.skipped if retries and self.strategy is StrategyMode.FULL_REFRESH else ()

    def as_json(self) -> dict[str, object]:
        skips = len(self.skipped)
        return {
            "summary": {"skip": skips, "retry": len(self.decisions) - skips},
            "decisions": [decision.as_json() for decision in self.decisions],
        }


def artifact_checksum(staging_table: str, rows: int, query_hash: str, schema_hash: str) -> str:
    """What identifies staged rows: where they stand, how many the sink counts, and what they were read by."""
    return fingerprint(
        {"query_hash": query_hash, "rows": rows, "schema_hash": schema_hash, "staging_table": staging_table}
    )


def decide(
    partitions: Iterable[TransferPartition],
    checkpoints: Iterable[PartitionCheckpoint],
    strategy: StrategyMode,
    artifacts: Mapping[str, str] | None = None,
) -> ResumePlan:
    """`checkpoints` are the run's newest ones; `artifacts` the checksums that are known now, by partition id."""
    by_bounds: dict[KeyRange, PartitionCheckpoint] = {}
    by_id = {record.partition_id: record for record in checkpoints}
    for record in by_id.values():
        by_bounds.setdefault(record.bounds, record)
    decisions = tuple(
        _decision(partition, by_id.get(partition.id) or by_bounds.get(partition.bounds), artifacts or {})
        for partition in partitions
    )
    return ResumePlan(decisions=decisions, strategy=strategy)


def is_reusable(partition: TransferPartition, record: PartitionCheckpoint | None, checksum: str | None) -> bool:
    """Whether staged rows of an earlier attempt may stand for reading again: loaded, same hashes, counted the same."""
    return (
        record is not None
        and record.status is CheckpointStatus.LOADED
        and record.partition_id == partition.id
        and (record.query_hash, record.schema_hash) == (partition.query_hash, partition.schema_hash)
        and checksum is not None
        and record.diagnostics.get(ARTIFACT_FIELD) == checksum
    )


def _decision(
    partition: TransferPartition, record: PartitionCheckpoint | None, artifacts: Mapping[str, str]
) -> ResumeDecision:
    reason = _reason(partition, record, artifacts)
    return ResumeDecision(
        partition=partition,
        action=ResumeAction.SKIP if reason == MATCHING else ResumeAction.RETRY,
        reason=reason,
        checkpoint_status=None if record is None else record.status,
    )


def _reason(partition: TransferPartition, record: PartitionCheckpoint | None, artifacts: Mapping[str, str]) -> str:
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
