"""Checkpoints in the sink's control tables: `__dpone__transfer_runs` and `__dpone__transfer_checkpoints`.

Written once against `ports.control`. They survive the machine that ran the load, which a file need not. Only the
newest record of a partition is kept; a record always supersedes the one before it, also when a clock ran backwards.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from dpone_core.model.fingerprint import canonical_json
from dpone_core.model.partition import PartitionCheckpoint, TransferRoute, TransferRun, TransferRunState
from dpone_core.native_transfer.checkpoints import (
    CheckpointUnreadableError,
    checkpoint_json,
    checkpoint_of,
    run_json,
    run_of,
)
from dpone_core.ports.clock import Clock
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlRow, ControlTable, ControlTables

_VERSION: Final = "updated_at"
_TEXT: Final = ControlColumnKind.TEXT
_TICK: Final = timedelta(microseconds=1)
_BEGINNING: Final = datetime(1970, 1, 2, tzinfo=UTC)


def runs_table(schema: str) -> ControlTable:
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
    """`rows_exported`, status and target stand beside the record for whoever looks with SQL."""
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
    """CheckpointStore over one sink's control tables, which the first record creates."""

    control: ControlTables
    schema: str
    clock: Clock
    _ensured: bool = False
    _versions: dict[tuple[str, str], datetime] = field(default_factory=dict)

    def open_runs(self, route: TransferRoute) -> tuple[TransferRun, ...]:
        where: ControlRow = {"route_key": route.key, "state": TransferRunState.OPEN.value}
        return tuple(_run(row) for row in self.control.read(runs_table(self.schema), where))

    def runs(self, route: TransferRoute) -> tuple[TransferRun, ...]:
        return tuple(_run(row) for row in self.control.read(runs_table(self.schema), {"route_key": route.key}))

    def run(self, route: TransferRoute, run_id: str) -> TransferRun | None:
        rows = self.control.read(runs_table(self.schema), {"route_key": route.key, "run_id": run_id})
        return _run(rows[0]) if rows else None

    def save_run(self, run: TransferRun) -> None:
        row: ControlRow = {
            "route_key": run.route.key,
            "run_id": run.run_id,
            "state": run.state.value,
            "record_json": canonical_json(run_json(run)),
            _VERSION: self._next_version(run.route, run.run_id),
        }
        self._ensure()
        self.control.upsert(runs_table(self.schema), (row,))

    def append(self, route: TransferRoute, run_id: str, records: Sequence[PartitionCheckpoint]) -> None:
        newest = {record.partition_id: record for record in records}
        version = self._next_version(route, run_id)
        rows: list[ControlRow] = [
            {
                "route_key": route.key,
                "run_id": run_id,
                "transfer_partition_id": record.partition_id,
                "target_table": record.target_table,
                "status": record.status.value,
                "record_json": canonical_json(checkpoint_json(record)),
                "partition_index": record.bounds.partition_index,
                "rows_exported": record.rows_exported,
                _VERSION: version,
            }
            for record in newest.values()
        ]
        self._ensure()
        self.control.upsert(checkpoints_table(self.schema), rows)

    def latest(self, route: TransferRoute, run_id: str) -> tuple[PartitionCheckpoint, ...]:
        rows = self.control.read(checkpoints_table(self.schema), {"route_key": route.key, "run_id": run_id})
        records = [checkpoint_of(_document(row)) for row in rows]
        return tuple(sorted(records, key=lambda record: (record.bounds.partition_index, record.partition_id)))

    def torn(self, route: TransferRoute, run_id: str) -> bool:
        """The engine writes a row as a whole or not at all."""
        return False

    def _next_version(self, route: TransferRoute, run_id: str) -> datetime:
        key = (route.key, run_id)
        if key not in self._versions:
            where: ControlRow = {"route_key": route.key, "run_id": run_id}
            found = (
                *self.control.read(runs_table(self.schema), where),
                *self.control.read(checkpoints_table(self.schema), where),
            )
            stored = [row[_VERSION] for row in found]
            self._versions[key] = max((moment for moment in stored if isinstance(moment, datetime)), default=_BEGINNING)
        self._versions[key] = max(self.clock.utc_now(), self._versions[key] + _TICK)
        return self._versions[key]

    def _ensure(self) -> None:
        if not self._ensured:
            self.control.ensure(runs_table(self.schema))
            self.control.ensure(checkpoints_table(self.schema))
            self._ensured = True


def _run(row: ControlRow) -> TransferRun:
    return run_of(_document(row))


def _document(row: ControlRow) -> object:
    try:
        return json.loads(str(row["record_json"]))
    except ValueError as error:
        raise CheckpointUnreadableError("a stored checkpoint cannot be read") from error
