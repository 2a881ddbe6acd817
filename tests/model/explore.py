"""Explores every state of a small protocol, breadth first, so that a counterexample is a shortest one.

A protocol is a start state, the steps that may come next, and what must never be. States are tuples and hashable;
whatever can happen at the same time is one of the next steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)
Step = tuple[str, S]


@dataclass(frozen=True, slots=True)
class Found(Generic[S]):
    """How many states there are, and the shortest way to a wrong one: what is wrong, and the names of the steps."""

    states: int
    wrong: str | None
    trace: tuple[str, ...]


def explore(start: S, steps: Callable[[S], Iterable[Step[S]]], wrong: Callable[[S], str | None]) -> Found[S]:
    """Visits every state that can be reached; stops at the first wrong one."""
    came_from: dict[S, tuple[S, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        if (what := wrong(state)) is not None:
            return Found(len(came_from), what, _trace(came_from, state))
        for name, after in steps(state):
            if after not in came_from:
                came_from[after] = (state, name)
                waiting.append(after)
    return Found(len(came_from), None, ())


def traces(start: S, steps: Callable[[S], Iterable[Step[S]]], choose: Callable[[int], int], length: int) -> list[str]:
    """The names of one random walk of at most `length` steps; `choose(n)` picks a number below n."""
    state, names = start, []
    for _ in range(length):
        found = list(steps(state))
        if not found:
            break
        name, state = found[choose(len(found))]
        names.append(name)
    return names


def _trace(came_from: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    names: list[str] = []
    while (before := came_from[state]) is not None:
        state, name = before
        names.append(name)
    return tuple(reversed(names))
