"""Renews the lease of a target while its load runs, in a background thread with its own session.

A load shorter than one interval opens no session. A failed renewal is tried again at the next interval and does not end
the load; a load that has lost its lease is stopped by `in_doubt.refuse_lost_lease` just before its commit.
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
def renew_in_background(
    lease: Lease, open_lease: OpenLease, clock: Clock, every_seconds: float = RENEWAL_SECONDS
) -> Iterator[None]:
    """Renews `lease` every `every_seconds` seconds while the block runs. Raises nothing of its own.

    At the end of the block it waits a few seconds for a renewal under way. One that hangs longer is left alone: once
    the lease is released, it can no longer renew it.
    """
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
                return  # another load has it: refuse_lost_lease stops this one before its commit
        except Exception:  # noqa: BLE001 - the next interval opens a new session
            continue
