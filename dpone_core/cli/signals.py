"""SIGTERM and SIGINT as the cancellation of a command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dpone_core.errors import RunTerminated


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
    def shield(self) -> Iterator[None]:
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
