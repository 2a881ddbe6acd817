"""The seeded source, and what a target must hold after a load of it.

A row is (id, day, value, updated_at). Every iteration draws from its own generator, which depends on seed, lane and
number alone, so that the same rows come again whatever a disturbance did.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

Row = tuple[int, str, str, int]

REFRESH: Final = "full_refresh"
APPEND: Final = "incremental_append"
MERGE: Final = "incremental_merge"
REPLACE: Final = "partition_replace"
_DAYS: Final = 6
_FIRST_ROWS: Final = 300
_MOST_NEW: Final = 120
_CURSOR_STEP: Final = 10


def draws(seed: int, lane: str, number: int | str) -> random.Random:
    return random.Random(f"{seed}/{lane}/{number}")


def _day(number: int) -> str:
    return f"2026-01-{1 + number:02d}"


@dataclass(slots=True)
class SourceModel:
    """The rows of the source now; `strategy` says how they may change.

    An append gets new rows with greater cursors, a merge also changes rows, a refresh also loses some, and a partition
    replacement gets the whole rows of some days.
    """

    strategy: str
    rows: list[Row] = field(default_factory=list)
    next_id: int = 1
    clock: int = 0

    def change(self, draw: random.Random) -> None:
        if not self.rows:
            self.rows = self._new(draw, _FIRST_ROWS)
        elif self.strategy == REPLACE:
            days = draw.sample(range(_DAYS), draw.randint(1, 3))
            self.rows = self._new(draw, draw.randint(1, _MOST_NEW), days)
        else:
            if self.strategy == REFRESH:
                self.rows = [row for row in self.rows if draw.random() > 0.2]
            if self.strategy in (REFRESH, MERGE):
                self.rows = [self._updated(row) if draw.random() < 0.1 else row for row in self.rows]
            self.rows += self._new(draw, draw.randint(1, _MOST_NEW))

    def _new(self, draw: random.Random, count: int, days: Sequence[int] = range(_DAYS)) -> list[Row]:
        """Rows behind all that were; now and then several share a cursor."""
        made = []
        for _ in range(count):
            self.clock += _CURSOR_STEP if draw.random() < 0.8 else 0
            made.append((self.next_id, _day(draw.choice(days)), f"v{draw.randrange(10**6)}", self.clock))
            self.next_id += 1
        self.clock += _CURSOR_STEP
        return made

    def _updated(self, row: Row) -> Row:
        self.clock += _CURSOR_STEP
        return (row[0], row[1], f"{row[2][:8]}u{self.clock}", self.clock)


def expected(strategy: str, before: Sequence[Row], source: Sequence[Row]) -> list[Row]:
    """The target after a load of `source` into a target with `before`, sorted.

    An append leaves the rows of the greatest cursor to the next load.
    """
    if strategy == REFRESH:
        return sorted(source)
    if strategy == APPEND:
        newest = max((row[3] for row in source), default=0)
        return sorted(row for row in source if row[3] < newest)
    if strategy == MERGE:
        return sorted({row[0]: row for row in (*before, *source)}.values())
    days = {row[1] for row in source}
    return sorted([*(row for row in before if row[1] not in days), *source])


def is_between(strategy: str, before: Sequence[Row], after: Sequence[Row], source: Sequence[Row]) -> bool:
    """Whether a load that publishes piece by piece may have left `after` when it ended early.

    An append has added some of its rows, each once; a replacement has replaced some of its days; a refresh of files
    has written some of the new ones, or has not removed all of the old ones yet.
    """
    old, new, held = Counter(before), Counter(expected(strategy, before, source)), Counter(after)
    if strategy == REPLACE:
        days = {row[1] for row in (*before, *after, *source)}
        return all(_of_day(held, day) in (_of_day(old, day), _of_day(new, day)) for day in days)
    if strategy == REFRESH:
        return held <= old + new and (old <= held or new <= held)
    return old <= held <= new


def _of_day(rows: Counter[Row], day: str) -> Counter[Row]:
    return Counter({row: count for row, count in rows.items() if row[1] == day})


def difference(held: Sequence[Row], wanted: Sequence[Row]) -> str | None:
    """What is too much and what is missing, or None."""
    found, right = Counter(held), Counter(wanted)
    extra, missing = found - right, right - found
    if not extra and not missing:
        return None
    doubled = sum(count for row, count in extra.items() if row in right)
    return (
        f"{len(held)} rows instead of {len(wanted)}: {extra.total()} too much ({doubled} of them doubled), "
        f"{missing.total()} missing; first: {[*extra, *missing][:3]}"
    )
