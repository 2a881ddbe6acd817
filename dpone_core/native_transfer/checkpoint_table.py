"""Stores checkpoints in the sink's control tables `__dpone__transfer_runs` and `__dpone__transfer_checkpoints`.

Unlike a file they outlive the machine that ran the load. Only the newest record of each partition is stored; a
compare-and-set replaces the record that its writer has read, even when a clock ran backwards. One implementation for
all sinks, over `ports.control`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from dpone_core.model.fingerprint import canonical_json
from dpone_core.model.partition import PartitionCheckpoint, TransferRoute, TransferRun, TransferRunState
from dpone_core.native_transfer.checkpoints import (
    Before,
    CheckpointSupersededError,
    CheckpointUnreadableError,
    checkpoint_json,
    may_replace,
    parse_checkpoint,
    parse_run,
    run_json,
)
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlRow, ControlTable, ControlTables
from dpone_core.ports.runtime import Clock

_VERSION: Final = "updated_at"
_TEXT: Final = ControlColumnKind.TEXT
_TICK: Final = timedelta(microseconds=1)
_BEGINNING: Final = datetime(1970, 1, 2, tzinfo=UTC)
_SUPERSEDED: Final = "another process has changed the stored transfer since this process read it"


def runs_table(schema: str) -> ControlTable:
    """The control table with one row per route and run: its state, and its plan as JSON."""
    return ControlTable(
        schema=schema,
        name="__dpone__transfer_runs",
        columns=(
            *(ControlColumn(name=name, kind=_TEXT, nullable=False) for name in ("route_key", "run_id", "state")),
            ControlColumn(name="record_json", kind=_TEXT, nullable=False),
            ControlColumn(name=_VERSION, kind=ControlColumnKind.TIMESTAMP, nullable=False),
        ),
        key=("route_key", "run_id"),
        version_column=_VERSION,
    )


def checkpoints_table(schema: str) -> ControlTable:
    """One row per partition: its record as JSON, with status, target and rows as columns for a look with SQL."""
    texts = ("route_key", "run_id", "transfer_partition_id", "target_table", "status", "record_json")
    return ControlTable(
        schema=schema,
        name="__dpone__transfer_checkpoints",
        columns=(
            *(ControlColumn(name=name, kind=_TEXT, nullable=False) for name in texts),
            ControlColumn(name="partition_index", kind=ControlColumnKind.INTEGER, nullable=False),
            ControlColumn(name="rows_exported", kind=ControlColumnKind.INTEGER),
            ControlColumn(name=_VERSION, kind=ControlColumnKind.TIMESTAMP, nullable=False),
        ),
        key=("route_key", "run_id", "transfer_partition_id"),
        version_column=_VERSION,
    )


@dataclass(slots=True, kw_only=True)
class CheckpointTables:
    """CheckpointStore over the control tables of one sink; the first write creates them."""

    control: ControlTables
    schema: str
    clock: Clock
    _ensured: bool = False

    def open_runs(self, route: TransferRoute) -> tuple[TransferRun, ...]:
        where: ControlRow = {"route_key": route.key, "state": TransferRunState.OPEN.value}
        return tuple(_run(row) for row in self.control.read(runs_table(self.schema), where))

    def runs(self, route: TransferRoute) -> tuple[TransferRun, ...]:
        return tuple(_run(row) for row in self.control.read(runs_table(self.schema), {"route_key": route.key}))

    def run(self, route: TransferRoute, run_id: str) -> TransferRun | None:
        rows = self.control.read(runs_table(self.schema), {"route_key": route.key, "run_id": run_id})
        return _run(rows[0]) if rows else None

    def save_run(self, run: TransferRun, before: TransferRun | None) -> None:
        table, key = runs_table(self.schema), {"route_key": run.route.key, "run_id": run.run_id}
        self._ensure()
        found = self.control.read(table, key)
        stored = found[0] if found else None
        if (None if stored is None else _run(stored)) != before:
            raise CheckpointSupersededError(_SUPERSEDED)
        row: ControlRow = {
            **key,
            "state": run.state.value,
            "record_json": canonical_json(run_json(run)),
            _VERSION: self._version_after(stored),
        }
        if not self.control.compare_and_set(table, key, stored, row):
            raise CheckpointSupersededError(_SUPERSEDED)

    def append(
        self, route: TransferRoute, run_id: str, records: Sequence[PartitionCheckpoint], before: Before | None = None
    ) -> None:
        table, run = checkpoints_table(self.schema), {"route_key": route.key, "run_id": run_id}
        newest = {record.partition_id: record for record in records}
        written = {identity: canonical_json(checkpoint_json(record)) for identity, record in newest.items()}
        self._ensure()
        found = {str(row["transfer_partition_id"]): row for row in self.control.read(table, run)}
        for identity, record in newest.items():
            stored, key = found.get(identity), {**run, "transfer_partition_id": identity}
            row: ControlRow = {
                **key,
                "target_table": record.target_table,
                "status": record.status.value,
                "record_json": written[identity],
                "partition_index": record.bounds.partition_index,
                "rows_exported": record.rows_exported,
                _VERSION: self._version_after(stored),
            }
            if before is None:
                self.control.upsert(table, (row,))
            elif not may_replace(
                None if stored is None else parse_checkpoint(_document(stored)), record, before
            ) or not self.control.compare_and_set(table, key, stored, row):
                raise CheckpointSupersededError(_SUPERSEDED)

    def latest(self, route: TransferRoute, run_id: str) -> tuple[PartitionCheckpoint, ...]:
        rows = self.control.read(checkpoints_table(self.schema), {"route_key": route.key, "run_id": run_id})
        records = [parse_checkpoint(_document(row)) for row in rows]
        return tuple(sorted(records, key=lambda record: (record.bounds.partition_index, record.partition_id)))

    def has_torn_end(self, route: TransferRoute, run_id: str) -> bool:
        """Always False: the engine writes a row whole or not at all."""
        return False

    def _version_after(self, stored: ControlRow | None) -> datetime:
        before = None if stored is None else stored[_VERSION]
        return max(self.clock.utc_now(), (before if isinstance(before, datetime) else _BEGINNING) + _TICK)

    def _ensure(self) -> None:
        if not self._ensured:
            self.control.ensure(runs_table(self.schema))
            self.control.ensure(checkpoints_table(self.schema))
            self._ensured = True


def _run(row: ControlRow) -> TransferRun:
    return parse_run(_document(row))


def _document(row: ControlRow) -> object:
    try:
        return json.loads(str(row["record_json"]))
    except (ValueError, RecursionError) as error:
        raise CheckpointUnreadableError("the JSON of a stored checkpoint or transfer run cannot be read") from error
