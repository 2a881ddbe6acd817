"""One load of a target as the product does it, step by step, and others beside it.

Every step of a load is one that other processes can see. Between any two of them the load may be killed or may stand
still for as long as it likes; its lease expires at any time; a statement that was sent before a kill arrives at any
time after it, or never; the answer of a commit may be lost. `Guards` are the lines of the product that close a hole
each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum, auto


class Way(StrEnum):
    """How a load gets into the target."""

    APPEND = "append"
    """Adds its rows; a repetition shows. It writes an intent before, and a cursor after."""
    REPLACE = "replace"
    """Takes the place of the target, or of partitions of it: an older load must not come after a newer one."""


class At(IntEnum):
    """Where a load is; the step that it does next."""

    START = auto()
    REVOKE = auto()
    READ_INTENT = auto()
    ASK_TARGET = auto()
    READ_CURSOR = auto()
    STAGE = auto()
    RENEW = auto()
    ARM = auto()
    PUBLISH = auto()
    SETTLE = auto()
    WITHDRAW = auto()
    EVIDENCE = auto()
    CURSOR = auto()
    RELEASE = auto()
    DONE = auto()
    OUT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Each closes a hole; `tests/model/test_models.py` removes one after the other."""

    lease_in_transaction: bool = False
    """SQL: the transaction that publishes locks the lease and compares its owner."""
    staging_taken_away: bool = False
    """ClickHouse, files: who takes over a lease first takes the staging of the loads before."""
    looks_after_revoking: bool = True
    """The intent and the target are looked at behind the revocation."""
    cursor_last: bool = True
    """The cursor is read after the target."""
    intent_replaces_examined: bool = True
    """An intent takes the place of the one that was examined, and of no other."""
    unknown_is_taken_over: bool = True
    """A load that does not know its outcome does not give its lease back."""
    waits_for_statements: bool = True
    """A statement that had found the staging before it was taken away is waited for."""

    def without(self, name: str) -> Guards:
        return replace(self, **{name: False})


class Flight(IntEnum):
    """A publication that nobody waits for any more; `BOUND` has found its table under whatever name it has by now."""

    NONE = auto()
    SENT = auto()
    BOUND = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`intent_seen`: the load whose intent was read, -1 for none. `in_target`: what the sink said of that load.
    `taken_over`: the lease was another's. `window`: what of the source it has read. `misled`: refused, and nothing was
    amiss."""

    at: At = At.START
    intent_seen: int = -1
    in_target: bool = False
    taken_over: bool = False
    staged: bool = False
    flight: Flight = Flight.NONE
    window: int = 0
    evidence: bool = False
    misled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`target` counts what each load published; `last` published last. -1 is nobody. The cursor is that of a load."""

    loads: tuple[Load, ...]
    target: tuple[int, ...]
    last: int = -1
    owner: int = -1
    fresh: bool = False
    intent: int = -1
    cursor: int = -1

    def load(self, number: int, **changes: object) -> World:
        loads = list(self.loads)
        loads[number] = replace(loads[number], **changes)  # type: ignore[arg-type]
        return replace(self, loads=tuple(loads))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModel:
    """Loads of one process into one target; they begin in their order. `start` with `steps` and `wrong` are what
    `explore` needs. `stands_at`: the first load has come so far and has lost its lease there, which saves many states.
    """

    way: Way
    guards: Guards
    loads: int = 2
    stands_at: At = At.START

    @property
    def start(self) -> World:
        world = World(loads=(Load(),) * self.loads, target=(0,) * self.loads)
        if self.stands_at is At.START:
            return world
        return replace(world, owner=0).load(0, at=self.stands_at, staged=True)

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        if world.owner >= 0 and world.fresh:
            yield "the lease expires", replace(world, fresh=False)
        for number in range(self.loads):
            yield from self._flight(world, number)
            yield from self._moves(world, number)

    def wrong(self, world: World) -> str | None:
        windows = [load.window for load, times in zip(world.loads, world.target, strict=True) for _ in range(times)]
        if self.way is Way.APPEND and len(windows) != len(set(windows)):
            return "rows twice in the target"
        if self.way is Way.REPLACE and world.last >= 0 and world.loads[world.last].window < max(windows):
            return "older rows over newer ones"
        if world.cursor >= 0 and not world.target[world.cursor]:
            return "the cursor advanced without rows"
        for load, times in zip(world.loads, world.target, strict=True):
            if load.misled:
                return "refused although the cursor was saved"
            if load.at is At.DONE and not (times and load.evidence):
                return "success without rows or evidence"
        return None

    def _may_publish(self, world: World, number: int) -> bool:
        fenced = self.guards.lease_in_transaction and world.owner != number
        return world.loads[number].staged and not fenced

    def _published(self, world: World, number: int, **changes: object) -> World:
        target = list(world.target)
        target[number] += 1
        return replace(world, target=tuple(target), last=number).load(number, staged=False, **changes)

    def _flight(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        """A statement whose client has died reaches the server; with a fence it may still fail there."""
        flight = world.loads[number].flight
        if flight is Flight.NONE:
            return
        if flight is Flight.BOUND or self._may_publish(world, number):
            yield f"L{number}'s statement lands", self._published(world, number, flight=Flight.NONE)
        else:
            yield f"L{number}'s statement fails", world.load(number, flight=Flight.NONE)

    def _moves(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        load, name = world.loads[number], f"L{number}"
        if load.at in (At.DONE, At.OUT):
            return
        if load.at is not At.START:
            yield f"{name} is killed at {load.at.name}", world.load(number, at=At.OUT)
        if load.at is At.PUBLISH:
            yield f"{name} is killed, its statement is under way", world.load(number, at=At.OUT, flight=Flight.SENT)
        yield from getattr(self, f"_{load.at.name.lower()}")(world, number, f"{name} ")

    def _start(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        if number and world.loads[number - 1].at is At.START:
            return
        if world.owner >= 0 and world.fresh:
            yield name + "is refused: load in progress", world.load(number, at=At.OUT)
            return
        held = world.owner >= 0
        begun = replace(world, owner=number, fresh=True)
        revokes = self.guards.staging_taken_away and self.guards.looks_after_revoking
        yield name + "takes the lease", begun.load(number, at=At.REVOKE if revokes else At.READ_INTENT, taken_over=held)

    def _revoke(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        """Others keep their rows, but have nothing to publish from. A statement that was there first has found them."""
        after = world.load(number, at=At.READ_INTENT if self.guards.looks_after_revoking else At.STAGE)
        if not world.loads[number].taken_over:
            yield name + "took over from nobody", after
            return
        bound = [other for other, load in enumerate(world.loads) if other != number and load.flight is not Flight.NONE]
        for other, load in enumerate(world.loads):
            if other != number:
                flight = Flight.BOUND if other in bound and load.staged else load.flight
                after = after.load(other, staged=False, flight=flight)
        if not bound or not self.guards.waits_for_statements:
            yield name + "takes the staging of the others", after
            return
        for other in bound:  # it waits: each of them has landed or failed when it goes on
            after = after.load(other, flight=Flight.NONE)
        yield name + "takes the staging of the others, whose statements came too late", after
        for other in bound:
            if world.loads[other].staged:
                after = self._published(after, other)
        yield name + "takes the staging of the others, whose statements came first", after

    def _read_intent(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        if self.way is Way.REPLACE:
            yield name + "reads no intent", world.load(number, at=At.READ_CURSOR)
            return
        seen = world.load(number, intent_seen=world.intent, at=At.ASK_TARGET)
        if not self.guards.cursor_last:
            seen = seen.load(number, window=world.cursor + 1)
        yield name + "reads the intent", seen

    def _ask_target(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        seen = world.loads[number].intent_seen
        there = seen >= 0 and world.target[seen] > 0
        yield name + "asks the target", world.load(number, in_target=there, at=At.READ_CURSOR)

    def _read_cursor(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        load = world.loads[number]
        window = world.cursor + 1 if self.guards.cursor_last else load.window
        if self.way is Way.REPLACE:
            window = self._clock(world)
        settled = load.intent_seen < 0 or window == load.intent_seen + 1
        if load.in_target and not settled:
            refused = world.load(number, at=At.OUT, misled=world.cursor == load.intent_seen)
            yield name + "is refused: already committed", self._given_back(refused, number)
            return
        revokes_late = self.guards.staging_taken_away and not self.guards.looks_after_revoking
        following = At.REVOKE if revokes_late else At.STAGE
        yield name + "reads the cursor", world.load(number, window=window, at=following)

    def _clock(self, world: World) -> int:
        """What a replacement reads is as new as the moment: later than whatever another load has read."""
        return 1 + max(load.window for load in world.loads)

    def _stage(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        yield name + "stages", world.load(number, staged=True, at=At.RENEW)

    def _renew(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        if world.owner == number:
            following = At.ARM if self.way is Way.APPEND else At.PUBLISH
            yield name + "renews its lease", replace(world, fresh=True).load(number, at=following)
        else:
            yield name + "has lost its lease", world.load(number, at=At.OUT, staged=False)

    def _arm(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        if self.guards.intent_replaces_examined and world.intent != world.loads[number].intent_seen:
            yield name + "finds another intent", world.load(number, at=At.OUT, staged=False)
        else:
            yield name + "stores its intent", replace(world, intent=number).load(number, at=At.PUBLISH)

    def _publish(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        if self._may_publish(world, number):
            yield name + "publishes", self._published(world, number, at=At.EVIDENCE)
            yield name + "publishes, the answer is lost", self._published(world, number, at=At.SETTLE)
        else:
            yield name + "is refused by the sink", world.load(number, at=At.WITHDRAW)
        yield (
            name + "sends its statement and hears nothing",
            self._unknown(world.load(number, flight=Flight.SENT), number),
        )

    def _settle(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        yield name + "finds its rows", world.load(number, at=At.EVIDENCE)
        yield name + "cannot ask", self._unknown(world, number)

    def _unknown(self, world: World, number: int) -> World:
        """A load that does not know what became of its commit ends; whether it gives its lease back is a guard."""
        ended = world.load(number, at=At.OUT)
        return replace(ended, fresh=False) if self.guards.unknown_is_taken_over else self._given_back(ended, number)

    def _withdraw(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        own = replace(world, intent=-1) if world.intent == number else world
        yield name + "withdraws its intent", self._given_back(own.load(number, at=At.OUT, staged=False), number)

    def _evidence(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        following = At.CURSOR if self.way is Way.APPEND else At.RELEASE
        yield name + "writes evidence", world.load(number, evidence=True, at=following)

    def _cursor(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        if world.cursor + 1 == world.loads[number].window:
            yield name + "advances the cursor", replace(world, cursor=number).load(number, at=At.RELEASE)
        else:
            yield name + "finds a moved cursor", self._given_back(world.load(number, at=At.OUT), number)

    def _release(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        yield name + "reports success", self._given_back(world.load(number, at=At.DONE), number)

    @staticmethod
    def _given_back(world: World, number: int) -> World:
        return replace(world, owner=-1, fresh=False) if world.owner == number else world
