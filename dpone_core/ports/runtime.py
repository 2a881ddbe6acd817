"""What a process provides to its loads: time, randomness, progress, termination and evidence files.

The core takes them as arguments, so that a test can repeat a run exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable


class Clock(Protocol):
    """Time and randomness. Nothing else in the core reads a clock or draws a random number."""

    def utc_now(self) -> datetime:
        """An aware UTC instant, microsecond resolution."""
        ...

    def entropy(self, size_bytes: int) -> bytes: ...


class Progress(Protocol):
    """Where a load reports how far it is: names of phases and counters, never a row, SQL text or URL."""

    def phase(self, name: str) -> None:
        """A new phase begins; its counters start at zero."""
        ...

    def rows(self, total_rows: int, total_bytes: int) -> None:
        """Cumulative counters of the running phase: rows and Arrow bytes handed to the sink so far."""
        ...


@runtime_checkable
class RowForecast(Protocol):
    """An optional capability of Progress: it shows which part of a phase is done."""

    def expect(self, total_rows: int) -> None:
        """Sets how many rows the running phase will probably have. It is a forecast for display, never evidence."""
        ...


class Cancellation(Protocol):
    """Delays a termination signal while a load must not be interrupted: between the commit boundary and its durable
    record."""

    def shield(self) -> AbstractContextManager[None]:
        """Delays a termination until the block ends; blocks nest. The next `checkpoint()` raises it."""
        ...

    def checkpoint(self) -> None:
        """Raises RunTerminated if a termination was delayed."""
        ...


class ProcessCancellation(Cancellation, Protocol):
    """The Cancellation of a process, which also ends by saying what became of it."""

    def settle(self) -> None:
        """The verdict is made: from here on a termination is only noted, until `resume`. A checkpoint still raises."""
        ...

    def resume(self) -> None:
        """Work begins that a termination may interrupt."""
        ...

    def heard(self) -> bool:
        """Whether a termination was raised, or stopped what an engine did; False while it only waits in a shield."""
        ...


class EvidenceFiles(Protocol):
    """Durable evidence of a run: files below one root."""

    def publish(self, relative_path: str, content: bytes) -> None:
        """Writes a file atomically (temporary file, fsync, rename, fsync of the directory): a reader sees nothing or
        all of it."""
        ...

    def publish_together(self, contents: Mapping[str, bytes]) -> None:
        """Writes files that tell of one thing: all of them under temporary names, then renames in the order given.

        The room for all is taken before the first appears: for want of it none does.
        """
        ...

    def read(self, relative_path: str, limit_bytes: int) -> bytes | None:
        """The content of a file, None when it is absent. Raises ETLExecutionError `evidence_too_large` when it exceeds
        the limit."""
        ...

    def names(self, relative_path: str) -> tuple[str, ...]:
        """The names of what stands in a directory, () for none."""
        ...

    def remove(self, relative_path: str) -> None:
        """Removes a file durably; does nothing when it is absent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The clock, progress, cancellation and evidence files of this process; they outlive attempts."""

    clock: Clock
    progress: Progress
    cancellation: ProcessCancellation
    evidence: EvidenceFiles
