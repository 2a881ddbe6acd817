"""The fault matrix of native transfer: each step of it, each way it can go wrong, and what must be true afterwards.

An append publishes its ranges one by one (3 with the empty range of NULL keys, 4, 5 and 6), and so does a replacement,
whose ranges each hold whole partitions of the target; a full refresh publishes them together. A sink without staging
publishes each range when it is read, also that of NULL keys. The next attempt has the same run id. If it is blocked, an
operator looks and says what is true; then it must finish.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.faults.fault_points import FaultKind, When
from tests.spec.builders import append_flow, flow

APPEND: Final = "incremental_append"
REFRESH: Final = "full_refresh"
REPLACE: Final = "partition_replace"
LEGACY: Final = "legacy_append"
_APPENDED: Final[list[list[int]]] = [[], [3], [4], [5, 6]]
RANGES: Final = {APPEND: _APPENDED, LEGACY: _APPENDED, REPLACE: [[], [11, 12], [13, 14], [15, 16, 17]]}
REPLACED: Final = {APPEND: [[], [], [], []], LEGACY: [[], [], [], []], REPLACE: [[], [1, 2], [3], []]}
"""Ids each range brings, and those of the old target that go with it."""
OLD: Final = {APPEND: [1, 2], LEGACY: [1, 2], REFRESH: [1, 2, 3], REPLACE: [1, 2, 3]}
NEW: Final = {
    APPEND: [1, 2, 3, 4, 5, 6],
    LEGACY: [1, 2, 3, 4, 5, 6],
    REFRESH: [1, 2, 3, 4, 5, 6, 7],
    REPLACE: [11, 12, 13, 14, 15, 16, 17],
}
OLD_CURSOR: Final = {APPEND: "30", LEGACY: "30", REFRESH: None, REPLACE: None}
NEW_CURSOR: Final = {APPEND: "70", LEGACY: "70", REFRESH: None, REPLACE: None}
PARTITIONS: Final = {APPEND: 4, LEGACY: 4, REFRESH: 4, REPLACE: 4}
BOTH: Final = (When.BEFORE, When.AFTER)
UNRESOLVED: Final = {"armed", "checkpoint_incomplete", "target_outcome_unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`guards`: a process that dies before (or after) this moment leaves an armed guard behind."""

    name: str
    call: str
    occurrence: int = 1
    whens: tuple[When, ...] = BOTH
    guards: tuple[When, ...] = ()


def _publication(number: int) -> tuple[Step, ...]:
    """Arm, publish and commit of the `number`-th batch."""
    return (
        Step(name=f"arm {number}", call="checkpoint exported", occurrence=number, guards=(When.AFTER,)),
        Step(name=f"finalize {number}", call="staged.finalize", occurrence=number, guards=BOTH),
        Step(name=f"commit {number}", call="checkpoint committed", occurrence=number, guards=(When.BEFORE,)),
    )


def _visible(number: int) -> tuple[Step, ...]:
    """Read, arm, show and commit of the `number`-th range of a sink without staging; the guard is armed inside."""
    return (
        Step(name=f"open range {number}", call="ranges.open_range", occurrence=number),
        Step(name=f"begin {number}", call="legacy.load", occurrence=number, whens=(When.BEFORE,)),
        Step(name=f"arm {number}", call="checkpoint exported", occurrence=number, guards=(When.AFTER,)),
        Step(
            name=f"finalize {number}",
            call="legacy.load",
            occurrence=number,
            whens=(When.AFTER,),
            guards=(When.AFTER,),
        ),
        Step(name=f"commit {number}", call="checkpoint committed", occurrence=number, guards=(When.BEFORE,)),
    )


_BEFORE: Final = (
    Step(name="bounds", call="ranges.key_bounds"),
    Step(name="planned", call="checkpoint planned"),
    Step(name="run opened", call="run open"),
    Step(name="prepare", call="staging.prepare"),
    Step(name="open range", call="read.open_range", occurrence=3),
    Step(name="stage", call="staged.stage", occurrence=3),
    Step(name="rows", call="rows", occurrence=2),
    Step(name="loaded", call="checkpoint loaded", occurrence=3),
    Step(name="last loaded", call="checkpoint loaded", occurrence=4),
)
_JUDGED: Final = (
    Step(name="gates recorded", call="load_steps quality_checked succeeded"),
    Step(name="acceptance source", call="metrics.source"),
)
_MEASURED: Final = (
    Step(name="acceptance target", call="metrics.target"),
    Step(name="evidence", call="load_steps finalized succeeded"),
)
_REPORTED: Final = (
    Step(name="report withdrawn", call="remove native.json"),
    Step(name="report.md", call="publish native.md"),
    Step(name="report.json", call="publish native.json"),
    Step(name="committed row", call="loads committed"),
    Step(name="load record", call="publish load.json"),
)
_AFTER: Final = (*_MEASURED, Step(name="cleanup", call="staged.cleanup", occurrence=2), *_REPORTED)
_END: Final = (
    Step(name="complete", call="run complete"),
    Step(name="lease release", call="leases released"),
    Step(name="run.json", call="publish run.json"),
)
STEPS: Final = {
    REFRESH: (
        *_BEFORE,
        Step(name="assemble", call="staging.assemble"),
        *_JUDGED,
        *_publication(1),
        *_AFTER,
        *_END,
    ),
    APPEND: (
        *_BEFORE,
        *_JUDGED,
        *_publication(1),
        *_publication(2),
        *_publication(3),
        *_AFTER,
        Step(name="state", call="cursor_state"),
        *_END,
    ),
    LEGACY: (
        Step(name="bounds", call="ranges.key_bounds"),
        Step(name="planned", call="checkpoint planned"),
        Step(name="run opened", call="run open"),
        Step(name="acceptance source", call="metrics.source"),
        *_visible(2),
        *_visible(3),
        *_visible(4),
        Step(name="gates recorded", call="load_steps quality_checked succeeded"),
        *_MEASURED,
        *_REPORTED,
        Step(name="state", call="cursor_state"),
        *_END,
    ),
    REPLACE: (
        *_BEFORE,
        *_JUDGED,
        *_publication(1),
        *_publication(2),
        *_publication(3),
        *_AFTER,
        *_END,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    sink: str
    mode: str
    step: Step
    when: When
    kind: FaultKind

    def __str__(self) -> str:
        return f"{self.sink}-{self.mode}-{self.step.name}-{self.when}-{self.kind}"

    @property
    def fault(self) -> dict[str, object]:
        return {"call": self.step.call, "occurrence": self.step.occurrence, "when": self.when, "kind": self.kind}

    @property
    def leaves_guard(self) -> bool:
        """Whether nobody may go on without an operator. A fault that is only an error is told by the sink or the
        store; one that nobody foresaw, at the sink, is not."""
        finalizes, commits = self.step.name.startswith("finalize"), self.step.name.startswith("commit ")
        match self.kind:
            case FaultKind.SIGKILL:
                return self.when in self.step.guards
            case FaultKind.SIGTERM:
                return False
            case FaultKind.ERROR:
                return (finalizes and self.when is When.AFTER) or commits
            case FaultKind.CRASH:
                return finalizes or commits


MODES: Final = {
    "duckdb": (REFRESH, APPEND, REPLACE),
    "clickhouse": (REFRESH, APPEND, REPLACE),
    "files": (LEGACY,),
}


def cells(sink: str) -> Iterator[Cell]:
    for mode in MODES[sink]:
        for step in STEPS[mode]:
            for when in step.whens:
                for kind in FaultKind:
                    yield Cell(sink=sink, mode=mode, step=step, when=when, kind=kind)


def manifest(sink: str, mode: str) -> dict[str, object]:
    partitioning = {"column": "id", "num_partitions": 3, "workers": 1}
    quality = {
        "gates": [{"type": "row_count_reconciliation"}],
        "acceptance": {"enabled": True, "mode": "required", "capture": {"staged": False}},
    }
    if mode == REFRESH:
        return flow(sink__type=sink, source__options={"partitioning": partitioning}, quality=quality)
    if mode == REPLACE:
        return flow(
            sink__type=sink,
            sink__strategy={"mode": REPLACE},
            sink__options={"physical_design": {"partition_by": {"column": "updated_at"}}},
            source__options={"partitioning": {**partitioning, "column": "updated_at"}},
            quality=quality,
        )
    options = {"incremental": {"cursor_column": "updated_at"}, "partitioning": partitioning}
    return append_flow(sink__type=sink, source__options=options, quality=quality)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a run left: its exit, stdout, receipt, the transfer's report, its port calls, and what the target holds."""

    exit_code: int
    report: dict[str, Any] | None
    receipt: dict[str, Any] | None
    native: dict[str, Any] | None
    calls: list[str]
    ids: list[int]
    leftovers: list[str]
    cursor: str | None
    partitions: dict[str, list[tuple[str, int | None, str | None]]]

    @classmethod
    def of(cls, root: Path, run_id: str, exit_code: int) -> Left:
        reports = list(root.glob(f"evidence/native_transfer/orders/native_transfer_runtime_{run_id}*.json"))
        calls = root / f"{run_id}.calls"
        return cls(
            exit_code=exit_code,
            report=_document(root / f"{run_id}.stdout"),
            receipt=_document(root / f"{run_id}.receipt"),
            native=_document(reports[0]) if reports else None,
            calls=calls.read_text("utf-8").splitlines() if calls.is_file() else [],
            **json.loads((root / "seen.json").read_text("utf-8")),
        )

    def phases(self, run_id: str) -> list[str | None]:
        return [phase for _, _, phase in self.partitions.get(run_id, [])]

    def statuses(self, run_id: str) -> list[str]:
        return [status for status, _, _ in self.partitions.get(run_id, [])]

    @property
    def code(self) -> str | None:
        return None if self.report is None else self.report["result"].get("error_code")


def _document(path: Path) -> dict[str, Any] | None:
    return dict(json.loads(path.read_text("utf-8"))) if path.is_file() else None


def reachable(mode: str) -> list[list[int]]:
    """Every target an attempt may leave: all ranges at once, or the first ones."""
    if mode == REFRESH:
        return [OLD[mode], NEW[mode]]
    ranges = range(len(RANGES[mode]))
    return [target_with(mode, [number < count for number in ranges]) for count in range(len(ranges) + 1)]


def target_with(mode: str, published: list[bool]) -> list[int]:
    """The old rows without those that were replaced, and those of the published ranges."""
    done = [number for number, is_published in enumerate(published) if is_published]
    replaced = {row for number in done for row in REPLACED[mode][number]}
    brought = [row for number in done for row in RANGES[mode][number]]
    return sorted([*(row for row in OLD[mode] if row not in replaced), *brought])


def violations(cell: Cell, left: Left) -> Iterator[str]:
    """Everything a run that met this fault says or left behind that is not true, or is too much."""
    mode = cell.mode
    if left.ids not in reachable(mode):
        yield f"the target holds {left.ids}"
    blocked = bool(UNRESOLVED & {phase for phase in left.phases("r") if phase is not None})
    if blocked is not cell.leaves_guard:
        yield f"unresolved guards: {left.phases('r')}"
    committed = [status == "committed" for status in left.statuses("r")]
    if mode != REFRESH and not blocked and target_with(mode, committed) != left.ids:
        yield f"checkpoints say {left.statuses('r')} of a target with {left.ids}"
    if mode == REFRESH and all(committed) and committed and left.ids != NEW[mode]:
        yield "all ranges are committed and the target is the old one"
    if left.cursor not in (OLD_CURSOR[mode], NEW_CURSOR[mode]):
        yield f"the cursor is {left.cursor}"
    if left.cursor == NEW_CURSOR[mode] is not None and left.ids != NEW[mode]:
        yield "the cursor advanced without its rows"
    if left.native is not None and left.native["passed"] and not (committed and all(committed)):
        yield f"the transfer's report says passed with {left.statuses('r')}"
    if left.report is None:
        return
    result = left.report["result"]
    if left.report["passed"]:
        if left.ids != NEW[mode] or not left.native or not left.native["passed"]:
            yield "a run that is not complete is reported as passed"
        return
    yield from _untrue(mode, result["failure_context"], left, blocked)


def _untrue(mode: str, said: dict[str, str], left: Left, blocked: bool) -> Iterator[str]:
    mutated = left.ids != OLD[mode] or "committed" in left.statuses("r")
    if said["target_state"] == "not_mutated" and mutated:
        yield "target_state not_mutated of a changed target"
    if said["target_state"] == "mutation_returned_success" and not mutated and not blocked:
        yield "target_state mutation_returned_success of the old target"
    if said["target_state"] == "unknown" and not blocked:
        yield "target_state unknown without a guard"
    if said["checkpoint_state"] == "committed" and "committed" not in left.statuses("r"):
        yield "checkpoint_state committed without a committed checkpoint"
    if said["source_state"] == "advanced" and left.cursor != NEW_CURSOR[mode]:
        yield "source_state advanced without a cursor"
    retry = said["retry_classification"]
    if retry == "retry_before_target_mutation" and (mutated or blocked):
        yield "a retry is called harmless"
    if retry == "retry_via_native_resume" and blocked:
        yield "a blocked run is called resumable"
    if retry == "retry_may_repeat_target_mutation" and not _is_complete(left):
        yield "an unfinished transfer repeats nothing"


def violations_of_resume(cell: Cell, left: Left, again: Left) -> Iterator[str]:
    """The next attempt of the same run: everything once, nothing twice, and no more reading than needed."""
    mode = cell.mode
    if again.exit_code != 0 or again.report is None or not again.report["passed"]:
        yield f"the resume ended with {again.exit_code}: {again.report and again.report['result'].get('errors')}"
        return
    if again.ids != NEW[mode]:
        yield f"after the resume the target holds {again.ids}"
    if again.cursor != NEW_CURSOR[mode]:
        yield f"after the resume the cursor is {again.cursor}"
    if set(again.statuses("r")) != {"committed"}:
        yield f"after the resume checkpoints say {again.statuses('r')}"
    if again.native is None or not again.native["passed"]:
        yield "the resume left no report"
    reads = [line for line in again.calls if line.startswith(("read.open_range", "ranges.open_range"))]
    finalized = [line for line in again.calls if line.startswith(("staged.finalize", "legacy.load"))]
    if _is_complete(left):
        return  # a completed run loads anew
    done = {"committed", "loaded"}
    expected = PARTITIONS[mode] - sum(status in done for status in left.statuses("r"))
    if left.statuses("r") and len(reads) != expected:
        yield f"{len(reads)} ranges were read, {expected} were missing"
    if set(left.statuses("r")) == {"committed"} and finalized:
        yield "the sink was called although every range was committed"


def _is_complete(left: Left) -> bool:
    return any(line.startswith("run complete") for line in left.calls) or (
        left.native is not None and left.native["passed"] and left.leftovers == [] and left.report is None
    )
