"""What both fault matrices are made of: a step that goes wrong, the course of a load around it, and what is left.

`load_matrix` and `native_matrix` hold the steps of their loads and judge what is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.faults.fault_points import FaultKind, When

BOTH: Final = (When.BEFORE, When.AFTER)
ENDING: Final = tuple(kind for kind in FaultKind if kind is not FaultKind.SIGSTOP)
"""Faults behind which a run ends by itself. One that is stopped waits to be woken, in test_frozen_writers."""
Bench = Callable[..., int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A moment of the lifecycle: the `occurrence`-th call of this name.

    `guards`: a process that dies before (or after) this moment leaves an armed guard behind.
    """

    name: str
    call: str
    occurrence: int = 1
    whens: tuple[When, ...] = BOTH
    guards: tuple[When, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One way to load: its steps, and what target and cursor hold before and after it; no cursor is None.

    `label` is what the id of a cell says of it. `ranges` are the ids that each partition of a native transfer brings,
    the partition of NULL keys first, and `replaced` those of the old target that go with each. A course that `widens`
    adds a column to the target. `kinds` are the faults that are tried at each step.
    """

    mode: str
    label: str
    steps: tuple[Step, ...]
    old: list[int]
    new: list[int]
    old_cursor: str | None
    new_cursor: str | None
    repeatable: bool = True
    ranges: tuple[list[int], ...] = ()
    replaced: tuple[list[int], ...] = ()
    widens: bool = False
    kinds: tuple[FaultKind, ...] = ENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One fault at one moment of a load into one sink."""

    sink: str
    course: Course
    step: Step
    when: When
    kind: FaultKind

    def __str__(self) -> str:
        return "-".join(part for part in (self.sink, self.course.label, self.step.name, self.when, self.kind) if part)

    @property
    def fault(self) -> dict[str, object]:
        return {"call": self.step.call, "occurrence": self.step.occurrence, "when": self.when, "kind": self.kind}


def cells(courses: Mapping[str, tuple[Course, ...]]) -> Iterator[Cell]:
    """Every fault of a course before and after each of its steps, for every sink."""
    for sink, of_sink in courses.items():
        for course in of_sink:
            for step in course.steps:
                for when in step.whens:
                    for kind in course.kinds:
                        yield Cell(sink=sink, course=course, step=step, when=when, kind=kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a run left: exit, stdout, receipt, evidence, port calls, and what the target holds (see `bench.Seen`).

    `runs` are the run.json of each attempt of the run id, `native` is the report of its transfer.
    """

    exit_code: int
    report: dict[str, Any] | None
    receipt: dict[str, Any] | None
    runs: list[dict[str, Any]]
    native: dict[str, Any] | None
    calls: list[str]
    ids: list[int]
    columns: list[str]
    leftovers: list[str]
    cursor: str | None
    loads: dict[str, list[str]]
    partitions: dict[str, list[tuple[str, int | None, str | None]]]

    @classmethod
    def of(cls, root: Path, run_id: str, exit_code: int) -> Left:
        """Reads what the bench saw last in `root`."""
        reports = list(root.glob(f"evidence/native_transfer/orders/native_transfer_runtime_{run_id}*.json"))
        calls = root / f"{run_id}.calls"
        return cls(
            exit_code=exit_code,
            report=_document(root / f"{run_id}.stdout"),
            receipt=_document(root / f"{run_id}.receipt"),
            runs=[json.loads(path.read_text("utf-8")) for path in root.glob(_run_files(run_id))],
            native=_document(reports[0]) if reports else None,
            calls=calls.read_text("utf-8").splitlines() if calls.is_file() else [],
            **json.loads((root / "seen.json").read_text("utf-8")),
        )

    @property
    def published(self) -> dict[str, Any] | None:
        """The run.json of a run id that was started once."""
        (published,) = self.runs or (None,)
        return published

    @property
    def code(self) -> str | None:
        return None if self.report is None else self.report["result"].get("error_code")

    def phases(self, run_id: str) -> list[str | None]:
        return [phase for _, _, phase in self.partitions.get(run_id, [])]

    def statuses(self, run_id: str) -> list[str]:
        return [status for status, _, _ in self.partitions.get(run_id, [])]


def _run_files(run_id: str) -> str:
    return f"evidence/runs/orders/{run_id}*/*/run.json"


def _document(path: Path) -> dict[str, Any] | None:
    return dict(json.loads(path.read_text("utf-8"))) if path.is_file() else None
