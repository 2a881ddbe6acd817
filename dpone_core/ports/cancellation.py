"""When a termination may interrupt a load: never between the commit boundary and its durable record."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Cancellation(Protocol):
    def shielded(self) -> AbstractContextManager[None]:
        """Holds a termination back until the block ends; nests. `checkpoint()` after it delivers."""
        ...

    def checkpoint(self) -> None:
        """Raises RunTerminated if one was held back."""
        ...
