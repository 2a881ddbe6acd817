"""The soak: lanes one after the other, each with its share of the iterations, until all are done or time is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Final

import pytest

from tests.forks import Forks
from tests.soak.lane import Lane, Route, Violated, opened, routes
from tests.soak.model import draws
from tests.soak.table import Table, Violation

QUIET: Final = "quiet point"
_QUIET_EVERY: Final = 10


@dataclass(slots=True)
class Soak:
    """`first` is the number of the first iteration of each lane: what is drawn depends on seed, lane and number.

    `only` chooses lanes whose name holds it; the name of one lane is that lane alone. `forks` start runs; None = Python
    is started for each.
    """

    seed: int
    iterations: int
    seconds: float
    only: str
    first: int
    directory: Path
    forks: Forks | None
    say: Callable[[str], None]
    table: Table = field(init=False)
    ends_at: float = field(init=False)
    lane_ends_at: float = field(init=False)

    def run(self) -> Table:
        self.table = Table(self.seed)
        self.ends_at = time.monotonic() + self.seconds
        chosen = [route for route in routes() if self.only == str(route)]
        chosen = chosen or [route for route in routes() if self.only in str(route)]
        draws(self.seed, "", "order").shuffle(chosen)
        for index, route in enumerate(chosen):
            share = self.iterations // len(chosen) + (index < self.iterations % len(chosen))
            self.lane_ends_at = time.monotonic() + (self.ends_at - time.monotonic()) / (len(chosen) - index)
            self._lane(route, share)
        return self.table

    def _lane(self, route: Route, count: int) -> None:
        """Its iterations within its share of the time; behind a violation it goes on in an empty directory."""
        number, end = self.first, self.first + count
        while number < end and time.monotonic() < self.lane_ends_at:
            root = self.directory / f"{route}.{number}"
            self.say(f"{route} from {number}, {self.table.iterations} done")
            try:
                with opened(route, self.seed, root, self.forks) as lane:
                    number = self._iterations(lane, number, end)
                rmtree(root, ignore_errors=True)
            except pytest.skip.Exception as skipped:
                self.table.unverified[str(route), "all"] = str(skipped).removeprefix("UNVERIFIED: ")
                return
            except _Stopped as stopped:
                number = stopped.next_number

    def _iterations(self, lane: Lane, first: int, end: int) -> int:
        """Returns the number behind the last one."""
        name = str(lane.route)
        for kind, reason in lane.kinds().items():
            if reason is not None:
                self.table.unverified[name, kind] = reason
        self._guarded(lane, first, first - 1, QUIET)
        for number in range(first, end):
            if time.monotonic() > self.lane_ends_at:
                break
            self._guarded(lane, first, number, lane.drawn(number).kind)
            if (number + 1) % _QUIET_EVERY == 0 or number + 1 == end:
                self._guarded(lane, first, number, QUIET)
        else:
            return end
        self._guarded(lane, first, number, QUIET)
        return end

    def _guarded(self, lane: Lane, first: int, number: int, what: str) -> None:
        name, root = str(lane.route), lane.place.root
        line = self.table.line(name, what)
        try:
            lane.rest(number, line) if what == QUIET else lane.iterate(number, line)
        except Violated as violated:
            replay = f"python -m tests.soak --seed {self.seed} --only {name} --from {first}"
            self.table.add(
                Violation(
                    lane=name,
                    iteration=number,
                    disturbance=what,
                    what=str(violated),
                    replay=f"{replay} --iterations {max(number + 1 - first, 0)}",
                    directory=str(root),
                    commands=tuple(lane.place.commands),
                )
            )
            self.say(f"VIOLATION {name} {number} {what}: {violated}")
            raise _Stopped(max(number + 1, first + 1)) from violated


class _Stopped(Exception):
    def __init__(self, next_number: int) -> None:
        super().__init__(next_number)
        self.next_number = next_number
