"""Renews the lease of a target while its load runs, in a thread and over a session of its own.

A load that lasts shorter than one interval opens nothing. A renewal that fails is tried again at the next interval: it
must not end a load that still holds its target, and one that lost it is stopped by the last look before its commit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dpone_core.loading.context import OpenLease
from dpone_core.ports.runtime import Clock
from dpone_core.ports.state import Lease

RENEWAL_SECONDS: Final = 60.0
_LAST_ANSWER_SECONDS: Final = 10.0


@contextmanager
def renewed(
    lease: Lease, open_lease: OpenLease, clock: Clock, every_seconds: float = RENEWAL_SECONDS
) -> Iterator[None]:
    """Holds `lease` for the block. When the block ends, a renewal that hangs is left behind: it can only lose."""
    ended = threading.Event()
    thread = threading.Thread(
        target=_renew, args=(lease, open_lease, clock, every_seconds, ended), name="dpone-lease", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_LAST_ANSWER_SECONDS)


def _renew(lease: Lease, open_lease: OpenLease, clock: Clock, every_seconds: float, ended: threading.Event) -> None:
    while not ended.wait(every_seconds):
        try:
            with open_lease() as leases:
                while leases.renew(lease, clock.utc_now()):
                    if ended.wait(every_seconds):
                        return
                return  # it went to another load, which the last look before the commit will find
        except Exception:  # noqa: BLE001 - a lost session is opened again at the next interval
            continue
