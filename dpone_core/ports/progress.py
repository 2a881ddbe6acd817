"""Where a load says how far it is. Never a row, SQL text or URL."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def phase(self, name: str) -> None: ...

    def rows(self, total_rows: int, total_bytes: int) -> None:
        """Cumulative counters of the running phase: rows and Arrow bytes handed to the sink so far."""
        ...
