"""Source state (cursor values, intents to append) and the lease of a target."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dpone_core.errors import ETLExecutionError
from dpone_core.model.identity import LoadId, LoadIdentity
from dpone_core.model.load_config import LoadConfig
from dpone_core.ports.control import HeldRow


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCursor:
    """`value` is the next window's inclusive lower bound as text; None while no row was ever seen."""

    column: str
    value: str | None
    load_id: str


class CursorStateMovedError(ETLExecutionError):
    """Another run advanced the same cursor after this run had read it; the value of this run is not written."""

    code = "cursor_state_moved"


class CursorState(Protocol):
    """The saved cursor value of a process, by source and target."""

    def read(self, config: LoadConfig) -> SavedCursor | None:
        """None when this process never finished a load from this source into this target."""
        ...

    def advance(
        self, config: LoadConfig, identity: LoadIdentity, seen: SavedCursor | None, value: str | None, at: datetime
    ) -> None:
        """Saves the cursor value `value` durably. Raises CursorStateMovedError, with nothing written, when the stored
        value is no longer `seen`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitIntent:
    """Written before a load appends: the cursor value that it read, the value that it will save, and the marker that
    the target had."""

    identity: LoadIdentity
    seen_load_id: str | None
    cursor_value: str | None
    target_mark: str | None

    def is_settled_by(self, saved: SavedCursor | None) -> bool:
        """Whether the state has changed since: this load saved its cursor, or an operator decided about it."""
        current = saved.load_id if saved is not None else None
        return current == self.identity.load_id or current != self.seen_load_id


class CommitIntents(Protocol):
    """Stores the last intent of each cursor. Order does not depend on clocks: an intent names the cursor value that it
    has read."""

    def read(self, config: LoadConfig) -> CommitIntent | None: ...

    def arm(self, config: LoadConfig, intent: CommitIntent, replaced: LoadId | None, at: datetime) -> bool:
        """Replaces the intent of load `replaced` (None: there is none). Durable when it returns True; False, with
        nothing written, when another load's intent is stored: that load may be in the target."""
        ...

    def withdraw(self, config: LoadConfig, identity: LoadIdentity) -> None:
        """Removes this load's own intent: the sink said that nothing was committed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A held lease of one target; `owner` is the load id. `row` is its control row, which fences the commit: a sink
    with transactions locks it inside the one that publishes. `taken_over`: another load had it and never gave it back,
    so that load may still be at work."""

    key: str
    owner: str
    row: HeldRow | None = None
    taken_over: bool = False


class TargetLease(Protocol):
    """The lease of a target: one load at a time may hold it."""

    def acquire(self, config: LoadConfig, identity: LoadIdentity, now: datetime) -> Lease:
        """Takes the lease. Raises LoadInProgressError, which names the holder; nothing has been changed then."""
        ...

    def renew(self, lease: Lease, now: datetime) -> bool:
        """Extends the lease from `now` on; False when another owner has it. A look, not the fence: that is the sink's,
        which checks the lease where it publishes or takes the staging of earlier loads away."""
        ...

    def release(self, lease: Lease) -> None:
        """Does nothing when the lease was taken over meanwhile."""
        ...

    def abandon(self, lease: Lease, now: datetime) -> None:
        """Lets the lease expire instead of giving it up: the next load takes it over at once."""
        ...
