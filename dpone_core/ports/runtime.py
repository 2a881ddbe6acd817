"""What a process has around its loads: time, entropy, progress, termination and evidence files.

None of it belongs to one load: the core stays pure, and a run can be replayed in a test.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable


class Clock(Protocol):
    """Time and entropy; nothing else in the core looks at a clock or draws a random number."""

    def utc_now(self) -> datetime:
        """An aware UTC instant, microsecond resolution."""
        ...

    def entropy(self, size_bytes: int) -> bytes: ...


class Progress(Protocol):
    """Where a load says how far it is: names of phases and counters, never a row, SQL text or URL."""

    def phase(self, name: str) -> None:
        """A new phase begins; its counters start at zero."""
        ...

    def rows(self, total_rows: int, total_bytes: int) -> None:
        """Cumulative counters of the running phase: rows and Arrow bytes handed to the sink so far."""
        ...


@runtime_checkable
class RowForecast(Protocol):
    """An optional capability of a Progress: it can say how much of a phase is done."""

    def expect(self, total_rows: int) -> None:
        """Rows the running phase will probably see; a forecast, never evidence."""
        ...


class Cancellation(Protocol):
    """When a termination may interrupt a load: never between the commit boundary and its durable record."""

    def shielded(self) -> AbstractContextManager[None]:
        """Holds a termination back until the block ends; blocks nest. The next `checkpoint()` delivers it."""
        ...

    def checkpoint(self) -> None:
        """Raises RunTerminated if one was held back."""
        ...


class EvidenceFiles(Protocol):
    """Durable evidence of a run, as files below one root. Content is redacted before it arrives here."""

    def publish(self, relative_path: str, content: bytes) -> None:
        """Atomic (temporary file, fsync, rename, directory fsync): a reader sees nothing or all of it."""
        ...

    def read(self, relative_path: str, limit_bytes: int) -> bytes | None:
        """None when absent; raises ETLExecutionError `evidence_too_large` past the limit."""
        ...

    def remove(self, relative_path: str) -> None:
        """Durably gone when it returns; does nothing when absent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What outlives attempts: clock, progress, cancellation and evidence files of this process."""

    clock: Clock
    progress: Progress
    cancellation: Cancellation
    evidence: EvidenceFiles
