"""Stores the cursor state of incremental loads in the sink's control table `__dpone__cursor_state`.

Columns: state_key (sha256 of process, source and target), process_name, cursor_column, cursor_value (text, the
inclusive lower bound of the next window; NULL while no row was ever read), run_id, load_id, updated_at. No rows and
no SQL. The window of an append is half-open: rows with the newest cursor value wait until a greater one exists, so
that equal values which arrive late are neither lost nor loaded twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import LoadConfig
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlRow, ControlTable, ControlTables
from dpone_core.ports.state import CursorStateMovedError, SavedCursor
from dpone_core.state.control_reads import read_control_rows

_VERSION: Final = "updated_at"


def state_key(config: LoadConfig) -> str:
    """Fingerprint of process, source dataset and target. A load into a renamed target has no cursor yet."""
    return fingerprint(
        {
            "process": config.process,
            "source": {"type": config.source.type, "dataset": config.source.dataset},
            "target": {"type": config.sink.type, "table": str(config.sink.table)},
        }
    )


def cursor_table(schema: str) -> ControlTable:
    """One row per state key, in `schema`."""
    text = ControlColumnKind.TEXT
    return ControlTable(
        schema=schema,
        name="__dpone__cursor_state",
        columns=(
            ControlColumn(name="state_key", kind=text, nullable=False),
            ControlColumn(name="process_name", kind=text, nullable=False),
            ControlColumn(name="cursor_column", kind=text, nullable=False),
            ControlColumn(name="cursor_value", kind=text),
            ControlColumn(name="run_id", kind=text, nullable=False),
            ControlColumn(name="load_id", kind=text, nullable=False),
            ControlColumn(name=_VERSION, kind=ControlColumnKind.TIMESTAMP, nullable=False),
        ),
        key=("state_key",),
        version_column=_VERSION,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorStore:
    """CursorState over the control tables of one sink."""

    control: ControlTables
    schema: str

    def read(self, config: LoadConfig) -> SavedCursor | None:
        """The saved cursor of this process, source and target; None before the first successful load."""
        table = cursor_table(self.schema)
        self.control.ensure(table)
        rows = read_control_rows(self.control, table, {"state_key": state_key(config)})
        if not rows:
            return None
        value = rows[0]["cursor_value"]
        return SavedCursor(
            column=str(rows[0]["cursor_column"]),
            value=None if value is None else str(value),
            load_id=str(rows[0]["load_id"]),
        )

    def advance(
        self, config: LoadConfig, identity: LoadIdentity, seen: SavedCursor | None, value: str | None, at: datetime
    ) -> None:
        """Saves `value`, the lower bound of the next window. `seen` is the cursor this load started from.

        Raises CursorStateMovedError, and writes nothing, when another cursor is stored by now.
        """
        incremental = config.source.incremental
        assert incremental is not None  # authoring refuses cursor state without a cursor column
        table, key, expected = cursor_table(self.schema), {"state_key": state_key(config)}, None
        if seen is not None:
            expected = {"cursor_column": seen.column, "cursor_value": seen.value, "load_id": seen.load_id}
        row: ControlRow = {
            **key,
            "process_name": config.process,
            "cursor_column": incremental.cursor_column,
            "cursor_value": value,
            "run_id": identity.run_id,
            "load_id": identity.load_id,
            _VERSION: at,
        }
        self.control.ensure(table)
        if not self.control.compare_and_set(table, key, expected, row):
            raise CursorStateMovedError(
                "another load saved a cursor while this load ran; the saved cursor was not overwritten"
            )
