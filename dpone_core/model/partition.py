"""Key ranges of a native transfer, what identifies one, and the states its checkpoints record.

A partition's identity is the plain hex sha256 of the canonical JSON of its bounds, query hash, schema hash, source,
target and strategy (NAT-06): change one of them and it is another partition. Bounds are text of the key's own type,
as `ports.source.CursorWindow` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from dpone_core.errors import ETLExecutionError
from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.vocabulary import StrategyMode

TIMESTAMP_INVALID: Final = "native_transfer_transition_timestamp_invalid"


class TransitionTimestampError(ETLExecutionError):
    """A time in a checkpoint is not an aware UTC time, or the partition ends before it begins."""

    code = TIMESTAMP_INVALID


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """One range of key values: `lower <= key < upper`, in the last range of a plan `lower <= key <= upper`.

    The NULL partition holds the rows whose key is NULL and has no bounds.
    """

    partition_index: int
    lower: str | None = None
    upper: str | None = None
    include_upper: bool = False
    is_null_partition: bool = False
    slice_index: int = 0

    def as_json(self) -> dict[str, object]:
        """The object `partition_bounds` of a checkpoint."""
        return {
            "partition_index": self.partition_index,
            "slice_index": self.slice_index,
            "lower": self.lower,
            "upper": self.upper,
            "include_upper": self.include_upper,
            "is_null_partition": self.is_null_partition,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBounds:
    """Least and greatest non-NULL key of the source as text, None when it has no such row; `rows` counts all its
    rows.
    """

    lower: str | None
    upper: str | None
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRoute:
    """Source, target and strategy of a transfer. Two transfers of one route must not overtake each other, so their
    guards are read together.
    """

    source_table: str
    target_table: str
    strategy: StrategyMode

    @property
    def key(self) -> str:
        """Fingerprint of the route."""
        return fingerprint(
            {"source_table": self.source_table, "strategy": self.strategy, "target_table": self.target_table}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPartition:
    """One planned key range of one route, with the hashes of the query and the schema it is read with."""

    bounds: KeyRange
    query_hash: str
    schema_hash: str
    route: TransferRoute

    @property
    def id(self) -> str:
        """64 hex digits; the same in every attempt, process and machine."""
        return fingerprint(
            {
                "partition_bounds": self.bounds.as_json(),
                "query_hash": self.query_hash,
                "schema_hash": self.schema_hash,
                "source_table": self.route.source_table,
                "strategy": self.route.strategy,
                "target_table": self.route.target_table,
            }
        ).removeprefix("sha256:")


class CheckpointStatus(StrEnum):
    """State of one partition. `loaded`: staged and counted. `exported`: handed to the target while a guard is armed.

    `committed` is final: a committed partition is never transferred again.
    """

    PLANNED = "planned"
    EXPORTED = "exported"
    LOADED = "loaded"
    FINALIZED = "finalized"
    COMMITTED = "committed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCheckpoint:
    """One state change of one partition. `diagnostics` holds counters, hashes and stable codes only.

    Raises TransitionTimestampError for a time that is not UTC, or for an end before the beginning.
    """

    partition_id: str
    status: CheckpointStatus
    query_hash: str
    schema_hash: str
    source_table: str
    target_table: str
    bounds: KeyRange
    started_at: datetime
    completed_at: datetime | None = None
    rows_exported: int | None = None
    bytes_exported: int | None = None
    diagnostics: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "diagnostics", MappingProxyType(dict(self.diagnostics)))
        for moment in (self.started_at, self.completed_at):
            if moment is not None and (moment.tzinfo is None or moment.utcoffset() != UTC.utcoffset(None)):
                raise TransitionTimestampError("a time of a checkpoint must be an aware UTC time")
        if self.completed_at is not None and self.completed_at < self.started_at:
            raise TransitionTimestampError("completed_at of a checkpoint is before its started_at")


class TransferRunState(StrEnum):
    """`open` until the success report is stored, then `complete`; `released` when an operator has settled the run by
    hand.
    """

    OPEN = "open"
    COMPLETE = "complete"
    RELEASED = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPlan:
    """What one run reads. Its first attempt fixes it, so that a resumed attempt reads the same.

    `rows` counts the source's rows in the window at that time. `window_lower` and `window_upper` are the cursor window,
    None without a cursor. After success `next_cursor` is saved, provided that the saved cursor is still the one of load
    `seen_load_id`.
    """

    column: str
    ranges: tuple[KeyRange, ...]
    query_hash: str
    schema_hash: str
    rows: int
    window_lower: str | None = None
    window_upper: str | None = None
    next_cursor: str | None = None
    seen_load_id: str | None = None

    def partitions(self, route: TransferRoute, query_hash: str, schema_hash: str) -> tuple[TransferPartition, ...]:
        """The planned ranges as partitions of `route` under the hashes of this attempt."""
        return tuple(
            TransferPartition(bounds=bounds, query_hash=query_hash, schema_hash=schema_hash, route=route)
            for bounds in self.ranges
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRun:
    """One run of a route: its plan, and whether it still blocks other runs of the route."""

    run_id: str
    route: TransferRoute
    state: TransferRunState
    plan: TransferPlan
    load_id: str
    updated_at: datetime

    @property
    def plan_fingerprint(self) -> str:
        """Fingerprint of what this run transfers and where; every attempt that resumes the plan has the same one."""
        plan, route = self.plan, self.route
        return fingerprint(
            {
                "run_id": self.run_id,
                "source_table": route.source_table,
                "target_table": route.target_table,
                "strategy": route.strategy,
                "column": plan.column,
                "ranges": [bounds.as_json() for bounds in plan.ranges],
                "query_hash": plan.query_hash,
                "schema_hash": plan.schema_hash,
                "rows": plan.rows,
                "window": [plan.window_lower, plan.window_upper],
                "next_cursor": plan.next_cursor,
                "seen_load_id": plan.seen_load_id,
            }
        )
