"""Control tables (audit, steps, cursor state, lease) of a sink, written once against this port.

`ensure` is idempotent and refuses an incompatible older table (`control_table_incompatible`). Values are text,
integers, None, or aware UTC datetimes. Rows are replaced by key where the table declares one: the row with the
greatest `version_column` wins when read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from dpone_core.errors import ConnectorError

ControlValue = str | int | datetime | None
ControlRow = Mapping[str, ControlValue]


class ControlColumnKind(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlColumn:
    name: str
    kind: ControlColumnKind
    nullable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTable:
    """`key` columns identify a row and are the physical order; `version_column` (a timestamp) picks the latest."""

    schema: str
    name: str
    columns: tuple[ControlColumn, ...]
    key: tuple[str, ...]
    version_column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRow:
    """A control row that proves a right: whoever acts by it must find `values` in the row under `key`."""

    table: ControlTable
    key: ControlRow
    values: ControlRow


class ControlRowBusyError(ConnectorError):
    """Another process held a control row for as long as this one waits; nothing was changed."""

    code = "control_table_busy"

    def __init__(self, waited: str) -> None:
        super().__init__(f"a control row could not be changed: {waited}", fix="run again; nothing was changed")


class ControlTables(Protocol):
    def ensure(self, table: ControlTable) -> None: ...

    def upsert(self, table: ControlTable, rows: Sequence[ControlRow]) -> None:
        """Durable when it returns. A row with an existing key supersedes it."""
        ...

    def read(self, table: ControlTable, where: ControlRow) -> tuple[ControlRow, ...]:
        """Latest version per key of rows equal to `where`, ordered by key; () also when the table is absent."""
        ...

    def compare_and_set(
        self, table: ControlTable, key: ControlRow, expected: ControlRow | None, new: ControlRow | None
    ) -> bool:
        """Atomically replaces the row under `key` by `new` if the row equals `expected` in the columns that `expected`
        names. `expected` None means that no row exists; `new` None deletes the row. Returns False, with nothing
        changed, when another process was first. Raises ControlRowBusyError when another process holds the row for
        longer than a change may wait; nothing has changed then."""
        ...
