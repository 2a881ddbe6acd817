"""Wakes any number of waiting coroutines of one event loop."""

from __future__ import annotations

import asyncio


class Pulse:
    """Take a `beat`, look at the state, then wait on the beat: a change in between is not missed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def beat(self) -> asyncio.Event:
        """The event that the next `fire` sets."""
        return self._event

    def fire(self) -> None:
        """Wakes everyone who holds the current beat."""
        self._event.set()
        self._event = asyncio.Event()
