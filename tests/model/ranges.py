"""Key ranges: checkpoints that several processes write, and the guard around the publication of one of them.

A range is staged by any process without a lease. A publisher holds the lease, arms the guard in the checkpoint,
publishes, and commits the checkpoint. Any process may be killed or stand still between two steps. A person who finds an
armed guard may look at the target and declare what is there, under the lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum, auto


class Record(StrEnum):
    """The stored checkpoint of the range."""

    PLANNED = "planned"
    LOADED = "loaded"
    ARMED = "armed"
    FAILED = "failed"
    COMMITTED = "committed"


class At(IntEnum):
    START = auto()
    READ = auto()
    STAGE = auto()
    RECORD = auto()
    RENEW = auto()
    ARM = auto()
    PUBLISH = auto()
    REFUSED = auto()
    COMMIT = auto()
    DONE = auto()
    OUT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Each closes a hole; the tests remove one after the other."""

    compares_checkpoints: bool = True
    """A record takes the place of the one its writer has read, and of no other."""
    arms_before_publishing: bool = True
    """The guard is stored before the target is touched."""
    refuses_armed: bool = True
    """An armed guard stops every later attempt until somebody has looked."""
    lease_in_transaction: bool = True
    """The transaction that publishes compares the lease (SQL), or the staging of the batch was taken (ClickHouse)."""
    stages_under_new_name: bool = True
    """What is staged after the declaration is not what the earlier publication names."""

    def without(self, name: str) -> Guards:
        return replace(self, **{name: False})


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """An attempt of the run. `read` is the version of the record that it has read, `named` the staging it publishes."""

    at: At = At.START
    read: int = 0
    named: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`version` counts the records; `staged` is the number in the name of the staging that is there, 0 for none."""

    publishers: tuple[Publisher, ...]
    record: Record = Record.PLANNED
    version: int = 0
    staged: int = 0
    rounds: int = 1
    target: int = 0
    owner: int = -1
    fresh: bool = False

    def publisher(self, number: int, **changes: object) -> World:
        found = list(self.publishers)
        found[number] = replace(found[number], **changes)  # type: ignore[arg-type]
        return replace(self, publishers=tuple(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeModel:
    """Attempts of one run over one range, in one process each."""

    guards: Guards
    attempts: int = 2
    declarations: int = 1

    @property
    def start(self) -> World:
        return World(publishers=(Publisher(),) * self.attempts)

    def wrong(self, world: World) -> str | None:
        if world.target > 1:
            return "the range is twice in the target"
        if world.record is Record.COMMITTED and not world.target:
            return "committed without rows"
        return None

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        if world.owner >= 0 and world.fresh:
            yield "the lease expires", replace(world, fresh=False)
        yield from self._declared(world)
        for number, publisher in enumerate(world.publishers):
            name = f"P{number} "
            if publisher.at in (At.DONE, At.OUT):
                continue
            if publisher.at is not At.START:
                yield name + f"is killed at {publisher.at.name}", world.publisher(number, at=At.OUT)
            yield from getattr(self, f"_{publisher.at.name.lower()}")(world, number, name)

    def _declared(self, world: World) -> Iterator[tuple[str, World]]:
        """A person takes the lease, which ends every publication of the batch, looks, and declares what is there."""
        if world.record is not Record.ARMED or world.fresh or world.rounds > self.declarations:
            return
        found = Record.COMMITTED if world.target else Record.FAILED
        after = replace(world, record=found, version=world.version + 1, owner=-1, rounds=world.rounds + 1)
        if not self.guards.stages_under_new_name:
            after = replace(after, rounds=world.rounds)
        yield f"a person declares: {found}", replace(after, staged=0) if found is Record.FAILED else after

    def _start(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        if number and world.publishers[number - 1].at is At.START:
            return
        if world.owner >= 0 and world.fresh:
            yield name + "is refused: load in progress", world.publisher(number, at=At.OUT)
            return
        yield name + "takes the lease", replace(world, owner=number, fresh=True).publisher(number, at=At.READ)

    def _read(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        read = world.publisher(number, read=world.version)
        if world.record is Record.ARMED and self.guards.refuses_armed:
            yield name + "is refused: a guard is armed", self._given_back(world.publisher(number, at=At.OUT), number)
        elif world.record is Record.COMMITTED:
            yield name + "finds it committed", self._given_back(read.publisher(number, at=At.DONE), number)
        elif world.staged and world.record is Record.LOADED:
            yield name + "reuses the staging", read.publisher(number, at=At.RENEW, named=world.staged)
        else:
            yield name + "reads the checkpoint", read.publisher(number, at=At.STAGE)

    def _stage(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        """The staging of a range has the name of run and range, and of how often a person has declared about it."""
        staged = replace(world, staged=world.rounds).publisher(number, at=At.RECORD, named=world.rounds)
        yield name + "stages the range", staged

    def _record(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        yield from self._written(world, number, name + "writes that it is loaded", Record.LOADED, At.RENEW)

    def _renew(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        if world.owner == number:
            following = At.ARM if self.guards.arms_before_publishing else At.PUBLISH
            yield name + "renews its lease", replace(world, fresh=True).publisher(number, at=following)
        else:
            yield name + "has lost its lease", world.publisher(number, at=At.OUT)

    def _arm(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        yield from self._written(world, number, name + "arms the guard", Record.ARMED, At.PUBLISH)

    def _publish(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        fenced = self.guards.lease_in_transaction and world.owner != number
        if fenced or world.staged != world.publishers[number].named:
            yield name + "is refused by the sink", world.publisher(number, at=At.REFUSED)
            return
        published = replace(world, target=world.target + 1, staged=0)
        yield name + "publishes", published.publisher(number, at=At.COMMIT)

    def _refused(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        yield from self._written(world, number, name + "writes that nothing was published", Record.FAILED, At.OUT)

    def _commit(self, world: World, number: int, name: str) -> Iterator[tuple[str, World]]:
        yield from self._written(world, number, name + "commits the checkpoint", Record.COMMITTED, At.DONE)

    def _written(
        self, world: World, number: int, name: str, record: Record, following: At
    ) -> Iterator[tuple[str, World]]:
        if self.guards.compares_checkpoints and world.publishers[number].read != world.version:
            yield name + ", superseded", self._given_back(world.publisher(number, at=At.OUT), number)
            return
        version = world.version + 1
        written = replace(world, record=record, version=version).publisher(number, at=following, read=version)
        yield name, self._given_back(written, number) if following in (At.DONE, At.OUT) else written

    @staticmethod
    def _given_back(world: World, number: int) -> World:
        return replace(world, owner=-1, fresh=False) if world.owner == number else world
