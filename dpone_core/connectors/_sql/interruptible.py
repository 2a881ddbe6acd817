"""A call into a driver that a signal can end, without the driver's own handling of signals.

A driver may hear no signal while it waits (DuckDB, for a batch of this process), or hear it on a thread of its own that
cancels a statement which the main thread frees at the same moment (ADBC). So the driver works on a second thread, where
neither happens; the calling thread waits, cancels, and goes on only when the driver has returned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from dpone_core.errors import RunTerminated

T = TypeVar("T")
_CANCEL_AGAIN_SECONDS: Final = 0.2


def interruptible(work: Callable[[], T], cancel: Callable[[], object]) -> T:
    """What `work` returns or raises. A signal that arrives meanwhile calls `cancel` from the calling thread, again and
    again until `work` has ended: a statement that had not begun yet hears nothing. Then the signal is raised.

    Signals reach the main thread only; called on another one, `work` runs right there.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    claimed, ended = threading.Lock(), threading.Event()
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        if not claimed.acquire(blocking=False):
            return
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - carried to the calling thread, raised there
            failures.append(error)
        finally:
            ended.set()

    try:
        threading.Thread(target=run, name="dpone-driver", daemon=True).start()
        ended.wait()
    except BaseException:
        if not claimed.acquire(blocking=False):  # otherwise it has not begun, and now never will
            while not ended.is_set():
                with suppress(RunTerminated, KeyboardInterrupt):  # a second signal waits too: the session is in use
                    _cancel(cancel)
                    ended.wait(_CANCEL_AGAIN_SECONDS)
        raise
    if failures:
        raise failures[0]
    return results[0]


def _cancel(cancel: Callable[[], object]) -> None:
    with suppress(Exception):  # a driver that cannot cancel is waited for
        cancel()
