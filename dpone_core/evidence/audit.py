"""Writes the audit of loads and their steps into the sink's control tables `__dpone__loads` and
`__dpone__load_steps`.

Contract: LIFE-14, LIFE-16. `error_message` holds a stable code, never the text of an exception. The row
of a load is written with status `started` before any mutation and replaced as the load proceeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from dpone_core.evidence.redaction import Redactor
from dpone_core.evidence.throughput import step_throughput
from dpone_core.model.fingerprint import canonical_json
from dpone_core.model.identity import LoadIdentity
from dpone_core.ports.control import (
    ControlColumn,
    ControlColumnKind,
    ControlRow,
    ControlTable,
    ControlTables,
    ControlValue,
)

_TEXT: Final = ControlColumnKind.TEXT
_INTEGER: Final = ControlColumnKind.INTEGER
_TIME: Final = ControlColumnKind.TIMESTAMP
VERSION_COLUMN: Final = "__dpone__loaded_at"


class LoadStatus(StrEnum):
    """The status of a load in its audit row."""

    STARTED = "started"
    STAGED = "staged"
    COMMITTED = "committed"
    FAILED = "failed"


class StepOutcome(StrEnum):
    """The status of one step of a load."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    WARNING = "warning"
    SKIPPED = "skipped"
    FAILED = "failed"


def loads_table(schema: str) -> ControlTable:
    """One row per load, in `schema`."""
    return ControlTable(
        schema=schema,
        name="__dpone__loads",
        columns=(
            ControlColumn(name="run_id", kind=_TEXT, nullable=False),
            ControlColumn(name="load_id", kind=_TEXT, nullable=False),
            ControlColumn(name="status", kind=_TEXT, nullable=False),
            *(
                ControlColumn(name=name, kind=_TEXT)
                for name in (
                    "process_name",
                    "source_schema",
                    "source_table",
                    "target_schema",
                    "target_table",
                    "strategy",
                )
            ),
            *(
                ControlColumn(name=name, kind=_TIME)
                for name in ("started_at", "staged_at", "committed_at", "failed_at")
            ),
            *(
                ControlColumn(name=name, kind=_INTEGER)
                for name in ("extracted_rows", "staged_rows", "inserted_rows", "updated_rows", "loaded_rows")
            ),
            ControlColumn(name="error_message", kind=_TEXT),
            ControlColumn(name="artifact_uri", kind=_TEXT),
            ControlColumn(name=VERSION_COLUMN, kind=_TIME, nullable=False),
        ),
        key=("load_id",),
        version_column=VERSION_COLUMN,
    )


def steps_table(schema: str) -> ControlTable:
    """One row per step of a load, in `schema`."""
    return ControlTable(
        schema=schema,
        name="__dpone__load_steps",
        columns=(
            *(
                ControlColumn(name=name, kind=_TEXT, nullable=False)
                for name in ("run_id", "load_id", "step_id", "phase", "kind", "status")
            ),
            ControlColumn(name="started_at", kind=_TIME, nullable=False),
            ControlColumn(name="finished_at", kind=_TIME),
            ControlColumn(name="error_message", kind=_TEXT),
            ControlColumn(name="details_json", kind=_TEXT),
            ControlColumn(name=VERSION_COLUMN, kind=_TIME, nullable=False),
        ),
        key=("load_id", "phase", "step_id", "started_at"),
        version_column=VERSION_COLUMN,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStep:
    """One step of one load.

    `details` holds counters, names and hashes only; `error_code` is the stable code of a failure.
    """

    step_id: str
    phase: str
    kind: str
    status: StepOutcome
    started_at: datetime
    finished_at: datetime
    details: Mapping[str, object] = field(default_factory=dict)
    error_code: str | None = None

    @property
    def duration_seconds(self) -> float:
        return (self.finished_at - self.started_at).total_seconds()

    @property
    def published_details(self) -> dict[str, object]:
        """`details`, with throughput for a finished step that counts rows or bytes."""
        rates = step_throughput(self.details, self.duration_seconds) if self.status is not StepOutcome.RUNNING else None
        return {**self.details, "throughput": rates} if rates is not None else dict(self.details)

    def as_json(self, identity: LoadIdentity) -> dict[str, object]:
        return {
            "run_id": identity.run_id,
            "load_id": identity.load_id,
            "step_id": self.step_id,
            "phase": self.phase,
            "kind": self.kind,
            "status": self.status.value,
            "started_at": utc_text(self.started_at),
            "finished_at": utc_text(self.finished_at),
            "duration_seconds": round(self.duration_seconds, 6),
            "error_message": self.error_code,
            "details_json": self.published_details,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTrail:
    """Writes the audit rows of loads and steps, redacted. Call `open` before the first mutation of a load."""

    control: ControlTables
    schema: str
    redactor: Redactor

    def open(self) -> None:
        """Creates both tables where they do not exist."""
        self.control.ensure(loads_table(self.schema))
        self.control.ensure(steps_table(self.schema))

    def record_load(self, identity: LoadIdentity, status: LoadStatus, row: ControlRow, at: datetime) -> None:
        """Writes the row of a load in place of its earlier one. `row` has all columns known so far."""
        written: dict[str, ControlValue] = {
            **{name: self._clean(value) for name, value in row.items()},
            "run_id": identity.run_id,
            "load_id": identity.load_id,
            "status": status.value,
            VERSION_COLUMN: at,
        }
        self.control.upsert(loads_table(self.schema), (written,))

    def record_step(self, identity: LoadIdentity, step: LoadStep) -> None:
        """Writes the row of a step, in place of its `running` row if there is one."""
        self.control.upsert(
            steps_table(self.schema),
            (
                {
                    "run_id": identity.run_id,
                    "load_id": identity.load_id,
                    "step_id": step.step_id,
                    "phase": step.phase,
                    "kind": step.kind,
                    "status": step.status.value,
                    "started_at": step.started_at,
                    "finished_at": step.finished_at,
                    "error_message": step.error_code,
                    "details_json": canonical_json(self.redactor.value(step.published_details)),
                    VERSION_COLUMN: step.finished_at,
                },
            ),
        )

    def _clean(self, value: ControlValue) -> ControlValue:
        return self.redactor.text(value) if isinstance(value, str) else value

    def loads_of_run(self, run_id: str) -> tuple[ControlRow, ...]:
        return self.control.read(loads_table(self.schema), {"run_id": run_id})

    def steps_of_run(self, run_id: str) -> tuple[ControlRow, ...]:
        return self.control.read(steps_table(self.schema), {"run_id": run_id})


def utc_text(moment: datetime) -> str:
    """A UTC moment in ISO 8601 with `Z`, with microseconds only when they are not zero."""
    return moment.isoformat().replace("+00:00", "Z")
