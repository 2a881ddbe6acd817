"""The process's own clock, and what stands in where nobody watches progress or cancels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime


class SystemClock:
    """The clock and the randomness of the operating system."""

    def utc_now(self) -> datetime:
        return datetime.now(UTC)

    def entropy(self, size_bytes: int) -> bytes:
        return os.urandom(size_bytes)


class SilentProgress:
    """Reports no progress to anyone."""

    def phase(self, name: str) -> None:
        return None

    def rows(self, total_rows: int, total_bytes: int) -> None:
        return None


class NoCancellation:
    """Cancels nothing: for callers that handle the signals of their process themselves."""

    @contextmanager
    def shield(self) -> Iterator[None]:
        yield

    def checkpoint(self) -> None:
        return None

    def settle(self) -> None:
        return None

    def resume(self) -> None:
        return None

    def heard(self) -> bool:
        return False
