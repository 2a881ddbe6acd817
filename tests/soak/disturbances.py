"""What happens to a run, and when: drawn from a generator, done to a process on its way."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.soak.processes import FAKETIME, Started
from tests.soak.sinks import Sink
from tests.soak.sources import Source


class Kind(StrEnum):
    """RIVAL_*: a second run of the same manifest; RIVAL_KILL also kills the first. LOST_ANSWER: a cut right behind, or
    before, a statement of a commit."""

    NONE = "none"
    KILL = "kill"
    KILL_GROUP = "kill group"
    KILL_CHILD = "kill child"
    TERM = "term"
    INT = "int"
    CUT = "cut"
    LOST_ANSWER = "lost answer"
    RIVAL_SAME = "rival same id"
    RIVAL_OTHER = "rival other id"
    RIVAL_KILL = "rival and kill"
    CLOCK = "clock"
    EVIDENCE_FULL = "evidence full"
    TARGET_FULL = "target full"


_SIGNALS: Final = {Kind.KILL: signal.SIGKILL, Kind.TERM: signal.SIGTERM, Kind.INT: signal.SIGINT}
_RIVALS: Final = (Kind.RIVAL_SAME, Kind.RIVAL_OTHER, Kind.RIVAL_KILL)
_CLOCKS: Final = (-86_400, -400, -20, 20, 400, 86_400)
_POSTGRES_TEXTS: Final = (b"COMMIT", b"INSERT", b"COMMENT ON TABLE", b"__dpone__leases", b"__dpone__cursor_state")
_CLICKHOUSE_TEXTS: Final = (
    "EXCHANGE TABLES|MOVE PARTITION|REPLACE PARTITION|ATTACH PARTITION",
    "__dpone__cursor_state",
    "__dpone__leases",
    "__dpone__commit_intents",
    "INSERT INTO",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """How an undisturbed run of a lane goes: seconds in all, and when each phase was announced."""

    seconds: float
    phases: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Every number is drawn before the run starts. `share` is the part of the usual length, `phase` the index of an
    announced phase behind which `delay` seconds pass; None = by the length. `rival_at` is a share too, and so is `left`
    of what is free when a disk is about to be full."""

    kind: Kind
    share: float
    phase: int | None
    delay: float
    rival_at: float
    refuses: bool
    text: int
    skip: int
    before: bool
    clock: int
    left: float

    @classmethod
    def drawn(cls, draw: random.Random, kinds: Sequence[Kind]) -> Disturbance:
        return cls(
            kind=draw.choice(kinds),
            share=draw.random(),
            phase=draw.choice((None, draw.randrange(8))),
            delay=draw.random() ** 2 * 0.3,
            rival_at=draw.random() ** 2 * 0.8,
            refuses=draw.random() < 0.4,
            text=draw.randrange(len(_CLICKHOUSE_TEXTS)),
            skip=draw.randrange(4),
            before=draw.random() < 0.4,
            clock=draw.choice(_CLOCKS),
            left=draw.random() ** 2,
        )

    @property
    def is_rival(self) -> bool:
        return self.kind in _RIVALS

    def wait(self, run: Started, habit: Habit) -> None:
        """Until the drawn moment."""
        if self.phase is None or not habit.phases:
            run.wait(self.share * habit.seconds)
            return
        name, _ = habit.phases[self.phase % len(habit.phases)]
        run.wait_for_phase(name, 2 * habit.seconds + 5)
        run.wait(self.delay)

    def plan(self, source: Source, sink: Sink) -> None:
        """What is planned before the run starts."""
        if self.kind is not Kind.LOST_ANSWER:
            return
        if sink.faults is not None:
            stage = "before" if self.before else "after"
            sink.faults(
                [{"match": _CLICKHOUSE_TEXTS[self.text], "stage": stage, "code": None, "times": 1, "skip": self.skip}]
            )
        elif sink.proxy is not None:
            text = _POSTGRES_TEXTS[self.text]
            seen = (None, b"COMMENT ON TABLE", b"__dpone__stg", b"__dpone__loads")[self.skip]
            sink.proxy.cut_after(text, once_seen=seen, before=self.before, refuse_after_cut=self.refuses)

    def strike(self, run: Started, source: Source, sink: Sink, habit: Habit) -> None:
        """Does it to a run, at its moment."""
        if self.kind in (Kind.NONE, Kind.LOST_ANSWER, Kind.CLOCK, Kind.EVIDENCE_FULL, Kind.TARGET_FULL):
            return
        if self.kind in (Kind.RIVAL_SAME, Kind.RIVAL_OTHER):
            return
        self.wait(run, habit)
        if self.kind is Kind.CUT:
            for proxy in (source.proxy, sink.proxy):
                if proxy is not None:
                    proxy.cut_now(refuse=self.refuses)
            return
        with suppress(ProcessLookupError):
            if self.kind in (Kind.KILL_GROUP, Kind.RIVAL_KILL):
                os.killpg(run.process.pid, signal.SIGKILL)
            elif self.kind is Kind.KILL_CHILD:
                _kill_child(run, habit)
            else:
                run.process.send_signal(_SIGNALS[self.kind])

    def heal(self, source: Source, sink: Sink) -> None:
        for proxy in (source.proxy, sink.proxy):
            if proxy is not None:
                proxy.heal()
        if sink.faults is not None:
            sink.faults([])


def _kill_child(run: Started, habit: Habit) -> None:
    """The first child that shows up from now on."""
    children = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children")
    for _ in range(int(habit.seconds * 100)):
        with suppress(OSError):
            if found := children.read_text("ascii").split():
                os.kill(int(found[0]), signal.SIGKILL)
                return
        run.wait(0.01)


def offered(source: Source, sink: Sink, *, target_full: bool, evidence_full: bool) -> dict[Kind, str | None]:
    """Each kind, with the reason why it cannot be had here, or None."""
    waits = "a lease of a dead run ends in five minutes, and without libfaketime nobody waits for it"
    clockless = None if FAKETIME is not None else "libfaketime is not installed"
    dead = None if FAKETIME is not None or not sink.is_shared else waits
    has_proxy = source.proxy is not None or sink.proxy is not None
    reasons: dict[Kind, str | None] = {
        Kind.KILL_CHILD: None if source.has_children else "no child processes",
        Kind.CUT: dead if has_proxy else "no connection over a network",
        Kind.LOST_ANSWER: dead if sink.proxy is not None else "no connection over a network",
        Kind.CLOCK: clockless,
        Kind.EVIDENCE_FULL: None if evidence_full else "no file system may be mounted",
        Kind.TARGET_FULL: None if target_full else "no file system of its own",
    }
    return {kind: reasons.get(kind, None if kind is Kind.NONE else dead) for kind in Kind}
