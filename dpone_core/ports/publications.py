"""What publications did to a target: its number of rows, and whether the rows of a load that died are in it."""

from __future__ import annotations

from typing import Protocol

from dpone_core.model.artifacts import LoadRef
from dpone_core.model.load_config import TableName


class PublicationPort(Protocol):
    """Looks only. A sink without it leaves every load of a dead process unknown and no commit counted."""

    def row_count(self, target: TableName) -> int | None:
        """Rows in the target, 0 without one; None where counting would mean reading the whole target."""
        ...

    def last_marker(self, target: TableName) -> str | None:
        """The marker of the load that published last, '' when the target has none; None when there is no target."""
        ...

    def contains(self, ref: LoadRef, marker_before: str | None) -> bool | None:
        """Whether the target holds the rows of the append that `ref` names; None when that cannot be known.

        `marker_before` is what `last_marker` answered just before that load committed. The load had rows and held the
        target's lease.
        """
        ...
