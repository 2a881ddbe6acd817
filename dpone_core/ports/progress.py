"""Where a load says how far it is. Never a row, SQL text or URL."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class Progress(Protocol):
    def phase(self, name: str) -> None: ...

    def rows(self, total_rows: int, total_bytes: int) -> None:
        """Cumulative counters of the running phase: rows and Arrow bytes handed to the sink so far."""
        ...


@runtime_checkable
class RowForecast(Protocol):
    """An optional capability of a Progress: it can say how much of a phase is done."""

    def expect(self, total_rows: int) -> None:
        """Rows the running phase will probably see; a forecast, never evidence."""
        ...
