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
class CommitIntent:
    """A load that was about to append: the cursor it read, the value it saves, the target's publication mark."""

    identity: LoadIdentity
    seen_load_id: str | None
    cursor_value: str | None
    target_mark: str | None

    def is_settled_by(self, saved: SavedCursor | None) -> bool:
        """Whether state has moved since: this load saved its cursor, or somebody decided about it."""
        current = saved.load_id if saved is not None else None
        return current == self.identity.load_id or current != self.seen_load_id


class CommitIntents(Protocol):
    """The last intent per cursor. Causal, not by clocks: an intent names the very cursor it read."""

    def read(self, config: LoadConfig) -> CommitIntent | None: ...

    def arm(self, config: LoadConfig, intent: CommitIntent, at: datetime) -> None:
        """Durable when it returns; replaces the intent before it."""
        ...

    def withdraw(self, config: LoadConfig, identity: LoadIdentity) -> None:
        """Removes this load's own intent: the sink said that nothing was committed."""
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

    def renew(self, lease: Lease, now: datetime) -> bool:
        """Lets the lease last from `now` on; False when it went to another owner. A look and a claim, not a fence."""
        ...

    def release(self, lease: Lease) -> None:
        """Does nothing when the lease was taken over meanwhile."""
        ...
