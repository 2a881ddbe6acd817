"""Source state and the lease of a target, as the lifecycle sees them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dpone_core.errors import ETLExecutionError
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import LoadConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCursor:
    """`value` is the next window's inclusive lower bound as text; None while no row was ever seen."""

    column: str
    value: str | None
    load_id: str


class CursorStateMovedError(ETLExecutionError):
    """Another run advanced the same cursor between our read and our write; ours is not written."""

    code = "cursor_state_moved"


class CursorState(Protocol):
    def read(self, config: LoadConfig) -> SavedCursor | None:
        """None when this process never finished a load from this source into this target."""
        ...

    def advance(
        self, config: LoadConfig, identity: LoadIdentity, seen: SavedCursor | None, value: str | None, at: datetime
    ) -> None:
        """Durable when it returns. Raises CursorStateMovedError, nothing written, when `seen` is no longer stored."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A held lease of one target; `owner` is the load id."""

    key: str
    owner: str


class TargetLease(Protocol):
    def acquire(self, config: LoadConfig, identity: LoadIdentity, now: datetime) -> Lease:
        """Raises LoadInProgressError naming the holder; nothing was mutated then."""
        ...

    def release(self, lease: Lease) -> None:
        """Does nothing when the lease was taken over meanwhile."""
        ...
