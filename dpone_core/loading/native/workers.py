"""What readers of one transfer share: the partitions still to read, what they say, and one sum of their progress."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from dpone_core.loading.native.model import StagedRange
from dpone_core.model.partition import TransferPartition
from dpone_core.ports.runtime import Progress

READER_ENDED: Final = None


class ReaderStoppedError(Exception):
    """Another range failed; this one ends without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRange:
    """`partition` is None when the reader's session could not be opened."""

    partition: TransferPartition | None
    error: BaseException


@dataclass(slots=True, kw_only=True)
class RangeWork:
    """Partitions still to read and what readers say. It is the Cancellation of their pumps."""

    partitions: list[TransferPartition]
    workers: int
    results: queue.SimpleQueue[StagedRange | FailedRange | None] = field(default_factory=queue.SimpleQueue)
    running: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.running = self.workers

    def next(self) -> TransferPartition | None:
        with self._lock:
            return self.partitions.pop(0) if self.partitions and not self._stopped.is_set() else None

    def stop(self) -> None:
        self._stopped.set()

    @contextmanager
    def shielded(self) -> Iterator[None]:
        yield

    def checkpoint(self) -> None:
        if self._stopped.is_set():
            raise ReaderStoppedError


@dataclass(slots=True)
class SharedProgress:
    """Sums what the readers report, each of its own range."""

    progress: Progress
    _rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, partition_id: str) -> _RangeProgress:
        return _RangeProgress(self, partition_id)

    def report(self, partition_id: str, rows: int, size_bytes: int) -> None:
        with self._lock:
            self._rows[partition_id] = (rows, size_bytes)
            self.progress.rows(sum(each[0] for each in self._rows.values()), sum(e[1] for e in self._rows.values()))


@dataclass(frozen=True, slots=True)
class _RangeProgress:
    shared: SharedProgress
    partition_id: str

    def phase(self, name: str) -> None:
        return None

    def rows(self, total_rows: int, total_bytes: int) -> None:
        self.shared.report(self.partition_id, total_rows, total_bytes)
