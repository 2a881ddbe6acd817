"""Time and entropy come from here, so that the core stays pure and a run can be replayed in a test."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def utc_now(self) -> datetime:
        """An aware UTC instant, microsecond resolution."""
        ...

    def entropy(self, size_bytes: int) -> bytes: ...
