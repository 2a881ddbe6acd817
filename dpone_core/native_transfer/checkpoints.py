"""The port for storing checkpoints, and their JSON form. Implemented by a JSONL file and by control tables.

Stored are partition ids, bounds, counters, hashes and stable codes; no rows, SQL, driver texts or paths (NAT-64). A
counter that is not a non-negative integer is refused when written, and read as unknown when stored.
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
    """A stored checkpoint is damaged, and not only cut short at its end. Nothing is concluded from the rest."""

    code = "partition_checkpoint_unreadable"


class CheckpointCounterError(ETLExecutionError):
    """A row or byte counter to be written is not a non-negative integer. Nothing was written."""

    code = "partition_checkpoint_counter_invalid"


class CheckpointSupersededError(ETLExecutionError):
    """Another process changed a checkpoint or planned the run anew since this one read it. Its record stays."""

    code = "partition_checkpoint_superseded"

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            fix="look at the partitions with `dpone transfer show`: if another try has published this one, nothing is "
            "left to do; else clear its mapped task, then the load",
        )


Before = Mapping[str, Sequence[PartitionCheckpoint]]
"""The records a writer expects to replace, by partition id. One of them must be stored; with none, none may be."""


class CheckpointStore(Protocol):
    """Durable storage of transfer runs and their checkpoints.

    Processes that plan or stage partitions do not hold the lease of the target, and one of them may continue long after
    another has taken over. So every write names the record it replaces, and is refused when another one is stored.
    """

    def open_runs(self, route: TransferRoute) -> tuple[TransferRun, ...]:
        """Runs of the route in state open, that is neither complete nor released, in order of run id."""
        ...

    def runs(self, route: TransferRoute) -> tuple[TransferRun, ...]:
        """All stored runs of the route, whatever their state."""
        ...

    def run(self, route: TransferRoute, run_id: str) -> TransferRun | None:
        """The stored run; None when there is none."""
        ...

    def save_run(self, run: TransferRun, before: TransferRun | None) -> None:
        """Replaces the stored run `before`, None for no stored run. Durable when it returns.

        Raises CheckpointSupersededError, and writes nothing, when another record is stored.
        """
        ...

    def append(
        self, route: TransferRoute, run_id: str, records: Sequence[PartitionCheckpoint], before: Before | None = None
    ) -> None:
        """Writes records in order. Durable when it returns; a crash may leave the first ones written.

        Each record replaces one of the records `before` lists for its partition; without `before`, whatever is stored.
        Raises CheckpointSupersededError at the first record that would replace another one; those before it may be
        written.
        """
        ...

    def latest(self, route: TransferRoute, run_id: str) -> tuple[PartitionCheckpoint, ...]:
        """The newest record of each partition id, in the order the ids first appeared."""
        ...

    def has_torn_end(self, route: TransferRoute, run_id: str) -> bool:
        """Whether the stored records end in one that a crash cut short; it is ignored."""
        ...


def may_replace(stored: PartitionCheckpoint | None, record: PartitionCheckpoint, before: Before | None) -> bool:
    """Whether `record` may replace `stored`, given the records its writer expects; None for no stored record."""
    if before is None:
        return True
    known = before.get(record.partition_id, ())
    return not known if stored is None else any(is_same_checkpoint(stored, each) for each in known)


def is_same_checkpoint(one: PartitionCheckpoint, other: PartitionCheckpoint) -> bool:
    """Whether both have the same stored form."""
    return canonical_json(checkpoint_json(one)) == canonical_json(checkpoint_json(other))


def checkpoint_json(record: PartitionCheckpoint) -> dict[str, object]:
    """The stored form of a checkpoint (NAT-64). Raises CheckpointCounterError."""
    for counter in (record.rows_exported, record.bytes_exported):
        if counter is not None and count_or_none(counter) is None:
            raise CheckpointCounterError(
                "the row and byte counters of a checkpoint must be non-negative integers; nothing was written"
            )
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


def parse_checkpoint(document: object) -> PartitionCheckpoint:
    """The checkpoint of its stored form.

    Raises CheckpointUnreadableError for anything `checkpoint_json` does not write.
    """
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
        raise CheckpointUnreadableError(
            "a stored checkpoint does not have the form in which checkpoints are written"
        ) from error


def run_json(run: TransferRun) -> dict[str, object]:
    """The stored form of a run and its plan."""
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


def parse_run(document: object) -> TransferRun:
    """The run of its stored form. Raises CheckpointUnreadableError for anything `run_json` does not write."""
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
        raise CheckpointUnreadableError(
            "a stored transfer run does not have the form in which runs are written"
        ) from error


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
