"""The process's own clock, progress log and cancellation, behind their ports."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import FrameType
from typing import Final

from dpone_core.errors import RunTerminated

HEARTBEAT_SECONDS: Final = 10.0
_LOG: Final = logging.getLogger("dpone")


class SystemClock:
    def utc_now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_seconds(self) -> float:
        return time.monotonic()

    def entropy(self, size_bytes: int) -> bytes:
        return os.urandom(size_bytes)


@dataclass(slots=True)
class LoggedProgress:
    """One line per phase and one heartbeat per ten seconds, with counters; never a row, SQL text or URL."""

    label: str
    _phase: str = ""
    _last: float = field(default_factory=time.monotonic)

    def phase(self, name: str) -> None:
        self._phase = name
        self._last = time.monotonic()
        _LOG.info("%s phase=%s", self.label, name)

    def rows(self, total_rows: int, total_bytes: int) -> None:
        now = time.monotonic()
        if now - self._last >= HEARTBEAT_SECONDS:
            self._last = now
            _LOG.info("%s phase=%s rows=%d bytes=%d", self.label, self._phase, total_rows, total_bytes)


class SilentProgress:
    def phase(self, name: str) -> None:
        return None

    def rows(self, total_rows: int, total_bytes: int) -> None:
        return None


class NoCancellation:
    """For callers that own their process: nothing is held back because nothing arrives."""

    @contextmanager
    def shielded(self) -> Iterator[None]:
        yield

    def checkpoint(self) -> None:
        return None


class SignalCancellation:
    """SIGTERM raises RunTerminated and SIGINT KeyboardInterrupt, except inside a shield: there they wait.

    A library may swallow what is raised inside it (DuckDB does while it imports), so a signal that arrived is raised
    again at every checkpoint.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._arrived: type[BaseException] | None = None

    @contextmanager
    def installed(self) -> Iterator[SignalCancellation]:
        """Takes both signals over for the block; a no-op outside the main thread, where Python allows no handler."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = {signum: signal.signal(signum, self._on_signal) for signum in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for signum, handler in previous.items():
                signal.signal(signum, handler)

    @contextmanager
    def shielded(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def checkpoint(self) -> None:
        if self._arrived is not None:
            raise self._arrived

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        interruption = RunTerminated if signum == signal.SIGTERM else KeyboardInterrupt
        self._arrived = interruption
        if self._depth == 0:
            raise interruption
