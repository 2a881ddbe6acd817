"""SIGTERM and SIGINT as the cancellation of a command.

Both signals are blocked in every thread, and one thread waits for them. So an arrival is noted whichever library has a
handler of its own installed: ADBC has one while a statement runs, pyarrow while it reads. That library's handler is
called too, because it stops what the library waits for.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from dpone_core.errors import RunTerminated

_AWAITED: Final = (signal.SIGTERM, signal.SIGINT)
_POKE: Final = signal.SIGURG
"""Wakes the main thread out of a system call; a process that did not ask for it ignores it."""
_RAISE_AGAIN_SECONDS: Final = 1.0
"""Sooner, the same impatience is meant: what unwinds because of the first signal is not interrupted by the second."""


class SignalCancellation:
    """SIGTERM raises RunTerminated and SIGINT KeyboardInterrupt in the main thread, except inside a shield and once the
    verdict is settled: there they are only noted.

    A library may swallow what is raised inside it (DuckDB does while it imports), so a signal that arrived is raised
    again at every checkpoint. The first signal that arrived is the one that is named.
    """

    def __init__(self) -> None:
        self.noted = threading.Event()
        """Set when a signal has been noted and, where it is to be raised, sent to the main thread."""
        self._guard = threading.Lock()
        self._depth = 0
        self._settled = False
        self._arrived: type[BaseException] | None = None
        self._heard = False
        self._passed_on = False
        self._raised_at = -_RAISE_AGAIN_SECONDS
        self._ending = False
        self._main = 0
        self._waiter: threading.Thread | None = None

    def install(self) -> bool:
        """Takes both signals over; False outside the main thread, where Python allows no handler.

        To be called before anything else starts threads: they inherit which signals are blocked. In a process that has
        other threads already, nothing is blocked and the main thread's handler notes the arrival.
        """
        if threading.current_thread() is not threading.main_thread():
            return False
        self._main = threading.get_ident()
        signal.signal(_POKE, self._on_poke)
        for signum in _AWAITED:
            signal.signal(signum, self._on_signal)
        if len(os.listdir("/proc/self/task")) > 1:
            return True
        signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
        self._waiter = threading.Thread(target=self._wait, name="dpone-signals", daemon=True)
        self._waiter.start()
        return True

    @contextmanager
    def installed(self) -> Iterator[SignalCancellation]:
        """Takes both signals over for the block and gives them back; a signal that waits then is dropped."""
        numbers = (*_AWAITED, _POKE)
        previous = {signum: signal.getsignal(signum) for signum in numbers}
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        if not self.install():
            yield self
            return
        try:
            yield self
        finally:
            self.settle()
            self._end()
            for signum, handler in previous.items():
                signal.signal(signum, handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    @contextmanager
    def shield(self) -> Iterator[None]:
        self._move(1)
        try:
            yield
        finally:
            self._move(-1)

    def checkpoint(self) -> None:
        if self._arrived is not None:
            self._heard = True
            raise self._arrived

    def settle(self) -> None:
        """Nothing is raised from here on: what the command says of itself stands."""
        with self._guard:
            self._settled = True

    def resume(self) -> None:
        with self._guard:
            self._settled = False

    def heard(self) -> bool:
        return self._heard

    def _move(self, step: int) -> None:
        with self._guard:
            self._depth += step

    def _wait(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (_POKE,))
        while True:
            signum = signal.sigwait((*_AWAITED, _POKE))
            if self._ending:
                return
            if signum in _AWAITED:
                self._note(RunTerminated if signum == signal.SIGTERM else KeyboardInterrupt)

    def _note(self, interruption: type[BaseException]) -> None:
        with self._guard:
            if self._arrived is None:
                self._arrived = interruption
            if not self._depth and not self._settled:
                self._heard = True
                self._passed_on = True
                _call_handler_of_libraries()
                signal.pthread_kill(self._main, _POKE)
        self.noted.set()

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        """Runs in the main thread where the signals are not blocked, or where no library takes the SIGINT passed on.

        It takes no lock: the main thread may hold it.
        """
        if signum == signal.SIGINT and self._passed_on:
            self._passed_on = False
            return
        if self._arrived is None:
            self._arrived = RunTerminated if signum == signal.SIGTERM else KeyboardInterrupt
        self._heard = self._heard or not (self._depth or self._settled)
        self.noted.set()
        self._on_poke(signum, frame)

    def _on_poke(self, signum: int, frame: FrameType | None) -> None:
        """Runs in the main thread."""
        now = time.monotonic()
        if self._arrived is None or self._depth or self._settled or now - self._raised_at < _RAISE_AGAIN_SECONDS:
            return
        self._raised_at = now
        raise self._arrived

    def _end(self) -> None:
        if self._waiter is None:
            return
        self._ending = True
        assert self._waiter.ident is not None
        signal.pthread_kill(self._waiter.ident, _POKE)
        self._waiter.join()
        while signal.sigtimedwait(_AWAITED, 0) is not None:
            pass


def _call_handler_of_libraries() -> None:
    """Lets whoever handles SIGINT stop its work, for SIGTERM too. Where no library does, `_on_signal` is called."""
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
