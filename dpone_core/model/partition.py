"""Key ranges of a native transfer: who a partition is, and what its checkpoints may say.

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
    """A checkpoint's moment is not an aware UTC instant, or a partition ended before it began."""

    code = TIMESTAMP_INVALID


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """`lower <= key < upper`, or `<= upper` in the last range of a plan; the NULL partition has neither bound."""

    partition_index: int
    lower: str | None = None
    upper: str | None = None
    include_upper: bool = False
    is_null_partition: bool = False
    slice_index: int = 0

    def as_json(self) -> dict[str, object]:
        """`partition_bounds` of a checkpoint."""
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
    """What a source holds right now: least and greatest non-null key, None when there is no such row; all rows."""

    lower: str | None
    upper: str | None
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRoute:
    """Transfers of one route must not overtake each other: their guards are looked at together."""

    source_table: str
    target_table: str
    strategy: StrategyMode

    @property
    def key(self) -> str:
        return fingerprint(
            {"source_table": self.source_table, "strategy": self.strategy, "target_table": self.target_table}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPartition:
    """One planned range of one workload."""

    bounds: KeyRange
    query_hash: str
    schema_hash: str
    route: TransferRoute

    @property
    def id(self) -> str:
        """Stable over attempts, processes and machines."""
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
    """`loaded`: staged and counted. `exported`: handed to the target behind an armed guard. `committed` is terminal."""

    PLANNED = "planned"
    EXPORTED = "exported"
    LOADED = "loaded"
    FINALIZED = "finalized"
    COMMITTED = "committed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCheckpoint:
    """One transition of one partition. `diagnostics` holds counters, hashes and stable codes only.

    Raises TransitionTimestampError for a moment without UTC, or an end before its begin.
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
                raise TransitionTimestampError("a checkpoint's moment is an aware UTC instant")
        if self.completed_at is not None and self.completed_at < self.started_at:
            raise TransitionTimestampError("a partition cannot end before it began")


class TransferRunState(StrEnum):
    """`open` until its success report is durable; `released` when an operator declared what became of it."""

    OPEN = "open"
    COMPLETE = "complete"
    RELEASED = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPlan:
    """What one run reads, fixed by its first attempt so that a resume reads the same.

    `rows` is what the source held in the window then. The window is that of the cursor, None without one;
    `next_cursor` becomes the saved cursor after success, if the saved one still is that of `seen_load_id`.
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
        """The planned partitions under the hashes of an attempt."""
        return tuple(
            TransferPartition(bounds=bounds, query_hash=query_hash, schema_hash=schema_hash, route=route)
            for bounds in self.ranges
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRun:
    """One run of a route: its plan and whether anything of it still stands in the way of others."""

    run_id: str
    route: TransferRoute
    state: TransferRunState
    plan: TransferPlan
    load_id: str
    updated_at: datetime

    @property
    def plan_fingerprint(self) -> str:
        """What this run transfers and into what: the same in every attempt that resumes the plan, on every machine."""
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
