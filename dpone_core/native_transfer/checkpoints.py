"""What a checkpoint store must do, and the JSON of what it keeps. Two stores exist: a JSONL file and control tables.

Kept: partition ids, bounds, counters, hashes, stable codes. Not kept: rows, SQL, driver texts, paths (S0 invariant 11).
A stored counter that is not a non-negative integer is read as unknown; written, it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from dpone_core.errors import ETLExecutionError
from dpone_core.model.fingerprint import canonical_json
from dpone_core.model.outcome import count_or_none
from dpone_core.model.partition import (
    CheckpointStatus,
    KeyRange,
    PartitionCheckpoint,
    TransferPlan,
    TransferRoute,
    TransferRun,
    TransferRunState,
)
from dpone_core.model.vocabulary import StrategyMode

RUN_KIND: Final = "dpone.native_transfer.run.v1"
ROW_COUNT_AUTHORITY: Final = "source_export_and_target_loader"
_HASH_CHARACTERS: Final = 64


class CheckpointUnreadableError(ETLExecutionError):
    """A stored checkpoint is damaged elsewhere than at a torn end; nothing is guessed from the rest."""

    code = "partition_checkpoint_unreadable"


class CheckpointCounterError(ETLExecutionError):
    """A row or byte counter is not a non-negative integer; nothing was written."""

    code = "partition_checkpoint_counter_invalid"


class CheckpointSupersededError(ETLExecutionError):
    """Another process wrote this checkpoint, or planned the run anew, since this one read it; that stands."""

    code = "partition_checkpoint_superseded"

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            fix="look at the ranges with `dpone transfer show`; if another try published this one, nothing is to be"
            " done, else clear its mapped task, then the load",
        )


Before = Mapping[str, Sequence[PartitionCheckpoint]]
"""What a writer knows to be stored, by partition id: one of these; a partition without any must not be stored yet."""


class CheckpointStore(Protocol):
    """Durable checkpoints of one route. Publications hold the lease of the target; whoever plans or stages ranges does
    not, and a process may wake up when others have long gone on. So every write names what it takes the place of."""

    def open_runs(self, route: TransferRoute) -> tuple[TransferRun, ...]:
        """Runs of the route that are neither complete nor released, in run id order."""
        ...

    def runs(self, route: TransferRoute) -> tuple[TransferRun, ...]:
        """Every run of the route that is remembered, whatever its state."""
        ...

    def run(self, route: TransferRoute, run_id: str) -> TransferRun | None: ...

    def save_run(self, run: TransferRun, before: TransferRun | None) -> None:
        """Durable when it returns; takes the place of `before`, None = nothing is said of the run.

        Raises CheckpointSupersededError, nothing written, when something else stands there.
        """
        ...

    def append(
        self, route: TransferRoute, run_id: str, records: Sequence[PartitionCheckpoint], before: Before | None = None
    ) -> None:
        """Durable when it returns. Torn by a crash, a prefix of the records may be there.

        Each record takes the place of one of its `before`; without `before`, of whatever stands there. Raises
        CheckpointSupersededError at the first record that would take the place of something else; a prefix of the
        records may be there then.
        """
        ...

    def latest(self, route: TransferRoute, run_id: str) -> tuple[PartitionCheckpoint, ...]:
        """The newest record of each partition id, in the order the ids first appeared."""
        ...

    def torn(self, route: TransferRoute, run_id: str) -> bool:
        """Whether a half-written last record was found and left out."""
        ...


def takes_place(stored: PartitionCheckpoint | None, record: PartitionCheckpoint, before: Before | None) -> bool:
    """Whether `record` may be written over what is stored."""
    if before is None:
        return True
    known = before.get(record.partition_id, ())
    return not known if stored is None else any(is_same_checkpoint(stored, each) for each in known)


def is_same_checkpoint(one: PartitionCheckpoint, other: PartitionCheckpoint) -> bool:
    """As they are stored."""
    return canonical_json(checkpoint_json(one)) == canonical_json(checkpoint_json(other))


def checkpoint_json(record: PartitionCheckpoint) -> dict[str, object]:
    """One JSONL line (Facts 6). Raises CheckpointCounterError."""
    for counter in (record.rows_exported, record.bytes_exported):
        if counter is not None and count_or_none(counter) is None:
            raise CheckpointCounterError("a counter of a partition is not a non-negative integer")
    return {
        "transfer_partition_id": record.partition_id,
        "status": record.status.value,
        "query_hash": record.query_hash,
        "schema_hash": record.schema_hash,
        "source_table": record.source_table,
        "target_table": record.target_table,
        "partition_bounds": record.bounds.as_json(),
        "started_at": record.started_at.isoformat(),
        "completed_at": None if record.completed_at is None else record.completed_at.isoformat(),
        "rows_exported": record.rows_exported,
        "bytes_exported": record.bytes_exported,
        "diagnostics": dict(record.diagnostics),
    }


def checkpoint_of(document: object) -> PartitionCheckpoint:
    """Raises CheckpointUnreadableError for anything that `checkpoint_json` does not write."""
    try:
        fields = _mapping(document)
        partition_id = _text(fields["transfer_partition_id"])
        if len(partition_id) != _HASH_CHARACTERS or set(partition_id) - set("0123456789abcdef"):
            raise ValueError("not a partition id")
        completed_at = fields["completed_at"]
        return PartitionCheckpoint(
            partition_id=partition_id,
            status=CheckpointStatus(_text(fields["status"])),
            query_hash=_text(fields["query_hash"]),
            schema_hash=_text(fields["schema_hash"]),
            source_table=_text(fields["source_table"]),
            target_table=_text(fields["target_table"]),
            bounds=_range_of(fields["partition_bounds"]),
            started_at=datetime.fromisoformat(_text(fields["started_at"])),
            completed_at=None if completed_at is None else datetime.fromisoformat(_text(completed_at)),
            rows_exported=count_or_none(fields["rows_exported"]),
            bytes_exported=count_or_none(fields["bytes_exported"]),
            diagnostics=_mapping(fields["diagnostics"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointUnreadableError("a stored checkpoint cannot be read") from error


def run_json(run: TransferRun) -> dict[str, object]:
    plan = run.plan
    return {
        "kind": RUN_KIND,
        "run_id": run.run_id,
        "source_table": run.route.source_table,
        "target_table": run.route.target_table,
        "strategy": run.route.strategy.value,
        "state": run.state.value,
        "load_id": run.load_id,
        "updated_at": run.updated_at.isoformat(),
        "plan": {
            "column": plan.column,
            "query_hash": plan.query_hash,
            "schema_hash": plan.schema_hash,
            "rows": plan.rows,
            "window_lower": plan.window_lower,
            "window_upper": plan.window_upper,
            "next_cursor": plan.next_cursor,
            "seen_load_id": plan.seen_load_id,
            "partition_bounds": [bounds.as_json() for bounds in plan.ranges],
        },
    }


def run_of(document: object) -> TransferRun:
    """Raises CheckpointUnreadableError for anything that `run_json` does not write."""
    try:
        fields = _mapping(document)
        if fields["kind"] != RUN_KIND:
            raise ValueError("another kind of record")
        plan = _mapping(fields["plan"])
        rows, ranges = count_or_none(plan["rows"]), plan["partition_bounds"]
        if rows is None or not isinstance(ranges, list):
            raise ValueError("not a plan")
        return TransferRun(
            run_id=_text(fields["run_id"]),
            route=TransferRoute(
                source_table=_text(fields["source_table"]),
                target_table=_text(fields["target_table"]),
                strategy=StrategyMode(_text(fields["strategy"])),
            ),
            state=TransferRunState(_text(fields["state"])),
            load_id=_text(fields["load_id"]),
            updated_at=datetime.fromisoformat(_text(fields["updated_at"])),
            plan=TransferPlan(
                column=_text(plan["column"]),
                ranges=tuple(_range_of(bounds) for bounds in ranges),
                query_hash=_text(plan["query_hash"]),
                schema_hash=_text(plan["schema_hash"]),
                rows=rows,
                window_lower=_optional_text(plan["window_lower"]),
                window_upper=_optional_text(plan["window_upper"]),
                next_cursor=_optional_text(plan["next_cursor"]),
                seen_load_id=_optional_text(plan["seen_load_id"]),
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointUnreadableError("the stored record of a transfer cannot be read") from error


def _range_of(document: object) -> KeyRange:
    fields = _mapping(document)
    indexes = [count_or_none(fields[name]) for name in ("partition_index", "slice_index")]
    flags = [fields[name] for name in ("include_upper", "is_null_partition")]
    if None in indexes or any(type(flag) is not bool for flag in flags):
        raise ValueError("not the bounds of a partition")
    return KeyRange(
        partition_index=indexes[0] or 0,
        slice_index=indexes[1] or 0,
        lower=_optional_text(fields["lower"]),
        upper=_optional_text(fields["upper"]),
        include_upper=bool(flags[0]),
        is_null_partition=bool(flags[1]),
    )


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError("expected an object")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)
