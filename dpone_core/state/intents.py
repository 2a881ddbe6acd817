"""Who is about to append: `__dpone__commit_intents`, one record per cursor, durable before the commit.

Record: state_key as in `__dpone__cursor_state`, process_name, run_id, load_id, attempt, seen_load_id (whose cursor the
load read; NULL for none), cursor_value (what it saves after success), target_mark (the target's publication mark
before it; NULL without a target), updated_at. Not kept: rows, SQL.
An intent is settled once the saved cursor is its own, or is no longer the one that it read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dpone_core.model.identity import LoadId, LoadIdentity, RunId
from dpone_core.model.load_config import LoadConfig
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlTable, ControlTables
from dpone_core.ports.state import CommitIntent

from .cursor import state_key

_VERSION: Final = "updated_at"


def intent_table(schema: str) -> ControlTable:
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
    control: ControlTables
    schema: str

    def read(self, config: LoadConfig) -> CommitIntent | None:
        rows = self.control.read(intent_table(self.schema), {"state_key": state_key(config)})
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

    def arm(self, config: LoadConfig, intent: CommitIntent, at: datetime) -> None:
        table = intent_table(self.schema)
        self.control.ensure(table)
        self.control.upsert(
            table,
            (
                {
                    "state_key": state_key(config),
                    "process_name": config.process,
                    "run_id": intent.identity.run_id,
                    "load_id": intent.identity.load_id,
                    "attempt": intent.identity.attempt,
                    "seen_load_id": intent.seen_load_id,
                    "cursor_value": intent.cursor_value,
                    "target_mark": intent.target_mark,
                    _VERSION: at,
                },
            ),
        )

    def withdraw(self, config: LoadConfig, identity: LoadIdentity) -> None:
        self.control.compare_and_set(
            intent_table(self.schema), {"state_key": state_key(config)}, {"load_id": identity.load_id}, None
        )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
