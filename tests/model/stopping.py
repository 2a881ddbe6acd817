"""A run whose process stops itself before each of its steps, until another process wakes it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dpone_core.errors import CommitOutcomeUnknownError
from tests.faults.fault_points import COMMITS, Moments


class Stopping(Moments):
    """`stops` are `<call>#<occurrence>`. Where the file `loses` is, the answer of a commit is lost."""

    def __init__(self, stops: Sequence[str], loses: Path) -> None:
        super().__init__(fault=None)
        self.stops, self.loses = frozenset(stops), loses
        self.seen: Counter[str] = Counter()

    def around(self, call: str, work: Callable[[], Any]) -> Any:
        self.seen[call] += 1
        if f"{call}#{self.seen[call]}" in self.stops:
            os.kill(os.getpid(), signal.SIGSTOP)
        answer = work()
        if call in COMMITS and self.loses.exists():
            raise CommitOutcomeUnknownError("the answer was lost")
        return answer
