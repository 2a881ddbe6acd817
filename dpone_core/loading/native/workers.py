"""The objects that the reader threads of one transfer share: queue of partitions, their results, summed progress."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from dpone_core.loading.native.model import StagedPartition
from dpone_core.model.partition import TransferPartition
from dpone_core.ports.runtime import Progress

READER_ENDED: Final = None


class ReaderStoppedError(Exception):
    """Ends a reader thread because another partition has failed. Not reported: the other failure is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPartition:
    """The failure of a reader thread. `partition` is None when its session could not be opened."""

    partition: TransferPartition | None
    error: BaseException


@dataclass(slots=True, kw_only=True)
class PartitionWork:
    """Hands partitions to reader threads and collects their results. Also the Cancellation of their pumps.

    `results` ends each reader with READER_ENDED; `running` counts the readers that have not ended.
    """

    partitions: list[TransferPartition]
    workers: int
    results: queue.SimpleQueue[StagedPartition | FailedPartition | None] = field(default_factory=queue.SimpleQueue)
    running: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.running = self.workers

    def next(self) -> TransferPartition | None:
        """The next partition to read; None when there is none left or `stop` was called."""
        with self._lock:
            return self.partitions.pop(0) if self.partitions and not self._stopped.is_set() else None

    def stop(self) -> None:
        """Ends all readers at their next batch."""
        self._stopped.set()

    @contextmanager
    def shield(self) -> Iterator[None]:
        yield

    def checkpoint(self) -> None:
        if self._stopped.is_set():
            raise ReaderStoppedError


@dataclass(slots=True)
class SharedProgress:
    """Adds up the rows and bytes that the readers report, each for its own partition."""

    progress: Progress
    _rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, partition_id: str) -> _PartitionProgress:
        return _PartitionProgress(self, partition_id)

    def report(self, partition_id: str, rows: int, size_bytes: int) -> None:
        with self._lock:
            self._rows[partition_id] = (rows, size_bytes)
            self.progress.rows(sum(each[0] for each in self._rows.values()), sum(e[1] for e in self._rows.values()))


@dataclass(frozen=True, slots=True)
class _PartitionProgress:
    shared: SharedProgress
    partition_id: str

    def phase(self, name: str) -> None:
        return None

    def rows(self, total_rows: int, total_bytes: int) -> None:
        self.shared.report(self.partition_id, total_rows, total_bytes)
