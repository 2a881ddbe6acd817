"""Stores the commit intents of appends in the sink's control table `__dpone__commit_intents`, before they commit.

Columns: state_key as in `__dpone__cursor_state`, process_name, run_id, load_id, attempt, seen_load_id (the load whose
cursor this one read; NULL for none), cursor_value (the cursor it saves after success), target_mark (the load marker of
the target before it; NULL without a target), updated_at. No rows and no SQL. One record per state key.
An intent is resolved once the saved cursor is that of its load, or is no longer the one its load read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dpone_core.model.identity import LoadId, LoadIdentity, RunId
from dpone_core.model.load_config import LoadConfig
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlRow, ControlTable, ControlTables
from dpone_core.ports.state import CommitIntent
from dpone_core.state.control_reads import read_control_rows

from .cursor import state_key

_VERSION: Final = "updated_at"


def intent_table(schema: str) -> ControlTable:
    """One row per state key, in `schema`."""
    text = ControlColumnKind.TEXT
    return ControlTable(
        schema=schema,
        name="__dpone__commit_intents",
        columns=(
            ControlColumn(name="state_key", kind=text, nullable=False),
            ControlColumn(name="process_name", kind=text, nullable=False),
            ControlColumn(name="run_id", kind=text, nullable=False),
            ControlColumn(name="load_id", kind=text, nullable=False),
            ControlColumn(name="attempt", kind=ControlColumnKind.INTEGER, nullable=False),
            ControlColumn(name="seen_load_id", kind=text),
            ControlColumn(name="cursor_value", kind=text),
            ControlColumn(name="target_mark", kind=text),
            ControlColumn(name=_VERSION, kind=ControlColumnKind.TIMESTAMP, nullable=False),
        ),
        key=("state_key",),
        version_column=_VERSION,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentStore:
    """CommitIntents over the control tables of one sink."""

    control: ControlTables
    schema: str

    def read(self, config: LoadConfig) -> CommitIntent | None:
        """The stored intent of this process, source and target; None for none."""
        rows = read_control_rows(self.control, intent_table(self.schema), {"state_key": state_key(config)})
        if not rows:
            return None
        (row,) = rows
        return CommitIntent(
            identity=LoadIdentity(
                run_id=RunId(str(row["run_id"])), load_id=LoadId(str(row["load_id"])), attempt=int(str(row["attempt"]))
            ),
            seen_load_id=_text(row["seen_load_id"]),
            cursor_value=_text(row["cursor_value"]),
            target_mark=_text(row["target_mark"]),
        )

    def arm(self, config: LoadConfig, intent: CommitIntent, replaced: LoadId | None, at: datetime) -> bool:
        """Stores the intent in place of that of load `replaced`, None for none. Durable when it returns True; returns
        False, and writes nothing, when another load's intent is stored."""
        table, key = intent_table(self.schema), state_key(config)
        self.control.ensure(table)
        row: ControlRow = {
            "state_key": key,
            "process_name": config.process,
            "run_id": intent.identity.run_id,
            "load_id": intent.identity.load_id,
            "attempt": intent.identity.attempt,
            "seen_load_id": intent.seen_load_id,
            "cursor_value": intent.cursor_value,
            "target_mark": intent.target_mark,
            _VERSION: at,
        }
        expected = None if replaced is None else {"load_id": replaced}
        return self.control.compare_and_set(table, {"state_key": key}, expected, row)

    def withdraw(self, config: LoadConfig, identity: LoadIdentity) -> None:
        """Removes the intent of this load; that of another load stays."""
        self.control.compare_and_set(
            intent_table(self.schema), {"state_key": state_key(config)}, {"load_id": identity.load_id}, None
        )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
