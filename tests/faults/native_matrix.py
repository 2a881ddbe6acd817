"""The fault matrix of native transfer: each step of it, each way it can go wrong, and what must be true afterwards.

An append publishes its ranges one by one (3 with the empty range of NULL keys, 4, 5 and 6), and so does a replacement,
whose ranges each hold whole partitions of the target; a full refresh publishes them together. A sink without staging
publishes each range when it is read, also that of NULL keys. The next attempt has the same run id. If it is blocked, an
operator looks and says what is true; then it must finish.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tests.faults.fault_points import FaultKind, When
from tests.faults.matrix import BOTH, Cell, Course, Left, Step
from tests.spec.builders import append_flow, flow

UNRESOLVED: Final = {"armed", "checkpoint_incomplete", "target_outcome_unknown"}


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
_PUBLISHED_ONE_BY_ONE: Final = (*_BEFORE, *_JUDGED, *_publication(1), *_publication(2), *_publication(3), *_AFTER)
_SAVED: Final = Step(name="state", call="cursor_state")
REFRESH: Final = Course(
    mode="full_refresh",
    label="full_refresh",
    steps=(
        *_BEFORE,
        Step(name="assemble", call="staging.assemble"),
        *_JUDGED,
        *_publication(1),
        *_AFTER,
        *_END,
    ),
    old=[1, 2, 3],
    new=[1, 2, 3, 4, 5, 6, 7],
    old_cursor=None,
    new_cursor=None,
)
APPEND: Final = Course(
    mode="incremental_append",
    label="incremental_append",
    steps=(*_PUBLISHED_ONE_BY_ONE, _SAVED, *_END),
    old=[1, 2],
    new=[1, 2, 3, 4, 5, 6],
    old_cursor="30",
    new_cursor="70",
    ranges=([], [3], [4], [5, 6]),
    replaced=([], [], [], []),
)
LEGACY: Final = replace(
    APPEND,
    mode="legacy_append",
    label="legacy_append",
    steps=(
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
        _SAVED,
        *_END,
    ),
)
REPLACE: Final = Course(
    mode="partition_replace",
    label="partition_replace",
    steps=(*_PUBLISHED_ONE_BY_ONE, *_END),
    old=[1, 2, 3],
    new=[11, 12, 13, 14, 15, 16, 17],
    old_cursor=None,
    new_cursor=None,
    ranges=([], [11, 12], [13, 14], [15, 16, 17]),
    replaced=([], [1, 2], [3], []),
)
COURSES: Final = {
    "duckdb": (REFRESH, APPEND, REPLACE),
    "clickhouse": (REFRESH, APPEND, REPLACE),
    "files": (LEGACY,),
}
PARTITIONS: Final = 4


def leaves_guard(cell: Cell) -> bool:
    """Whether nobody may go on without an operator. A fault that is only an error is told by the sink or the store;
    one that nobody foresaw, at the sink, is not."""
    finalizes, commits = cell.step.name.startswith("finalize"), cell.step.name.startswith("commit ")
    match cell.kind:
        case FaultKind.SIGKILL:
            return cell.when in cell.step.guards
        case FaultKind.SIGTERM:
            return False
        case FaultKind.ERROR:
            return (finalizes and cell.when is When.AFTER) or commits
        case FaultKind.CRASH:
            return finalizes or commits


def manifest(sink: str, course: Course) -> dict[str, object]:
    partitioning = {"column": "id", "num_partitions": 3, "workers": 1}
    quality = {
        "gates": [{"type": "row_count_reconciliation"}],
        "acceptance": {"enabled": True, "mode": "required", "capture": {"staged": False}},
    }
    if course == REFRESH:
        return flow(sink__type=sink, source__options={"partitioning": partitioning}, quality=quality)
    if course == REPLACE:
        return flow(
            sink__type=sink,
            sink__strategy={"mode": course.mode},
            sink__options={"physical_design": {"partition_by": {"column": "updated_at"}}},
            source__options={"partitioning": {**partitioning, "column": "updated_at"}},
            quality=quality,
        )
    options = {"incremental": {"cursor_column": "updated_at"}, "partitioning": partitioning}
    return append_flow(sink__type=sink, source__options=options, quality=quality)


def reachable(course: Course) -> list[list[int]]:
    """Every target an attempt may leave: all ranges at once, or the first ones."""
    if course == REFRESH:
        return [course.old, course.new]
    ranges = range(len(course.ranges))
    return [target_with(course, [number < count for number in ranges]) for count in range(len(ranges) + 1)]


def target_with(course: Course, published: list[bool]) -> list[int]:
    """The old rows without those that were replaced, and those of the published ranges."""
    done = [number for number, is_published in enumerate(published) if is_published]
    replaced = {row for number in done for row in course.replaced[number]}
    brought = [row for number in done for row in course.ranges[number]]
    return sorted([*(row for row in course.old if row not in replaced), *brought])


def violations(cell: Cell, left: Left) -> Iterator[str]:
    """Everything a run that met this fault says or left behind that is not true, or is too much."""
    course = cell.course
    if left.ids not in reachable(course):
        yield f"the target holds {left.ids}"
    blocked = bool(UNRESOLVED & {phase for phase in left.phases("r") if phase is not None})
    if blocked is not leaves_guard(cell):
        yield f"unresolved guards: {left.phases('r')}"
    committed = [status == "committed" for status in left.statuses("r")]
    if course != REFRESH and not blocked and target_with(course, committed) != left.ids:
        yield f"checkpoints say {left.statuses('r')} of a target with {left.ids}"
    if course == REFRESH and all(committed) and committed and left.ids != course.new:
        yield "all ranges are committed and the target is the old one"
    if left.cursor not in (course.old_cursor, course.new_cursor):
        yield f"the cursor is {left.cursor}"
    if left.cursor == course.new_cursor is not None and left.ids != course.new:
        yield "the cursor advanced without its rows"
    if left.native is not None and left.native["passed"] and not (committed and all(committed)):
        yield f"the transfer's report says passed with {left.statuses('r')}"
    if left.report is None:
        return
    result = left.report["result"]
    if left.report["passed"]:
        if left.ids != course.new or not left.native or not left.native["passed"]:
            yield "a run that is not complete is reported as passed"
        return
    yield from _untrue(course, result["failure_context"], left, blocked)


def _untrue(course: Course, said: dict[str, str], left: Left, blocked: bool) -> Iterator[str]:
    mutated = left.ids != course.old or "committed" in left.statuses("r")
    if said["target_state"] == "not_mutated" and mutated:
        yield "target_state not_mutated of a changed target"
    if said["target_state"] == "mutation_returned_success" and not mutated and not blocked:
        yield "target_state mutation_returned_success of the old target"
    if said["target_state"] == "unknown" and not blocked:
        yield "target_state unknown without a guard"
    if said["checkpoint_state"] == "committed" and "committed" not in left.statuses("r"):
        yield "checkpoint_state committed without a committed checkpoint"
    if said["source_state"] == "advanced" and left.cursor != course.new_cursor:
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
    course = cell.course
    if again.exit_code != 0 or again.report is None or not again.report["passed"]:
        yield f"the resume ended with {again.exit_code}: {again.report and again.report['result'].get('errors')}"
        return
    if again.ids != course.new:
        yield f"after the resume the target holds {again.ids}"
    if again.cursor != course.new_cursor:
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
    expected = PARTITIONS - sum(status in done for status in left.statuses("r"))
    if left.statuses("r") and len(reads) != expected:
        yield f"{len(reads)} ranges were read, {expected} were missing"
    if set(left.statuses("r")) == {"committed"} and finalized:
        yield "the sink was called although every range was committed"


def _is_complete(left: Left) -> bool:
    return any(line.startswith("run complete") for line in left.calls) or (
        left.native is not None and left.native["passed"] and left.leftovers == [] and left.report is None
    )
