"""The fault matrix: every step of a load, every way it can go wrong there, and what must be true afterwards.

Rows 1 and 2 stand in the target when the fault happens, rows 3 and 4 are this load's. An incremental append with a
cursor is the hardest case: repeating it shows, and a cursor that moved too far loses rows. A merge and a partition
replacement read rows 1 to 3 first, may be repeated, and must say as truthfully what they did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from tests.faults.fault_points import FaultKind, When
from tests.faults.matrix import Cell, Course, Left, Step
from tests.spec.builders import append_flow, flow, hook, hooks

OLD: Final = [1, 2]
FRESH: Final = [3, 4]
NEW: Final = OLD + FRESH
OLD_CURSOR: Final = "30"
NEW_CURSOR: Final = "50"


def _steps(*steps: tuple[str, str] | Step) -> tuple[Step, ...]:
    return tuple(step if isinstance(step, Step) else Step(name=step[0], call=step[1]) for step in steps)


_BEFORE_ROWS: Final = (
    ("lease", "leases taken"),
    ("started row", "loads started"),
    ("leftovers", "target.leftovers"),
    ("cursor read", "cursor_state.read"),
    ("intent read", "commit_intents.read"),
    ("pre-hook announced", "load_steps open running"),
    ("pre-hook", "statements.execute"),
    ("describe source", "source.describe"),
    ("describe target", "target.describe_target"),
    ("described row", "load_steps source_described succeeded"),
    ("open stream", "source.open_stream"),
    ("preflight", "target.preflight"),
)
_AFTER_ROWS: Final = (
    ("committed row", "loads committed"),
    ("load record", "publish load.json"),
    ("state", "cursor_state"),
    ("post-hook announced", "load_steps close running"),
    Step(name="post-hook", call="statements.execute", occurrence=2),
    ("lease release", "leases released"),
    ("run.json", "publish run.json"),
)
_MIDDLE: Final = Step(name="middle of rows", call="rows", occurrence=2)
STAGED: Final = _steps(
    *_BEFORE_ROWS,
    Step(name="stage begin", call="staged.stage", whens=(When.BEFORE,)),
    _MIDDLE,
    Step(name="stage end", call="staged.stage", whens=(When.AFTER,)),
    ("staged row", "load_steps staged succeeded"),
    ("export row", "load_steps source_exported succeeded"),
    ("lineage projection", "staged.project_lineage"),
    ("gates recorded", "load_steps quality_checked succeeded"),
    ("acceptance source", "metrics.source"),
    ("acceptance staged", "metrics.staged"),
    Step(name="lease looked at", call="leases.read", occurrence=2),
    ("intent armed", "commit_intents"),
    ("finalize", "staged.finalize"),
    ("acceptance target", "metrics.target"),
    ("finalized evidence", "load_steps finalized succeeded"),
    ("cleanup", "staged.cleanup"),
    *_AFTER_ROWS,
)
LEGACY: Final = _steps(
    *_BEFORE_ROWS,
    ("acceptance source", "metrics.source"),
    Step(name="load begin", call="legacy.load", whens=(When.BEFORE,)),
    _MIDDLE,
    ("export row", "load_steps source_exported succeeded"),
    Step(name="lease looked at", call="leases.read", occurrence=2),
    ("intent armed", "commit_intents"),
    Step(name="load end", call="legacy.load", whens=(When.AFTER,)),
    ("gates recorded", "load_steps quality_checked succeeded"),
    ("acceptance target", "metrics.target"),
    ("finalized evidence", "load_steps finalized succeeded"),
    *_AFTER_ROWS,
)


def _without(*calls: str) -> tuple[Step, ...]:
    return tuple(step for step in STAGED if not step.call.startswith(calls))


APPEND: Final = Course(
    mode="append",
    label="",
    steps=STAGED,
    old=OLD,
    new=NEW,
    old_cursor=OLD_CURSOR,
    new_cursor=NEW_CURSOR,
    repeatable=False,
)
LEGACY_APPEND: Final = replace(APPEND, steps=LEGACY)
# Only an append says beforehand what it is about to commit; only a load with a cursor reads and saves one.
MERGE: Final = Course(
    mode="merge",
    label="merge",
    steps=_without("commit_intents"),
    old=[1, 2, 3],
    new=[1, 2, 3, 4, 5],
    old_cursor=OLD_CURSOR,
    new_cursor=NEW_CURSOR,
)
REPLACE: Final = Course(
    mode="replace",
    label="replace",
    steps=_without("commit_intents", "cursor_state"),
    old=[1, 2, 3],
    new=[1, 2, 3, 4, 5],
    old_cursor=None,
    new_cursor=None,
)


def _widening(course: Course) -> Course:
    """The same load when the source has a column more. By an error a process goes on, by a kill it does not."""
    kinds = (FaultKind.ERROR, FaultKind.SIGKILL)
    return replace(course, label=f"{course.mode} widening", widens=True, kinds=kinds)


COURSES: Final = {
    "duckdb": (APPEND, MERGE, REPLACE, *map(_widening, (APPEND, MERGE, REPLACE))),
    "files": (LEGACY_APPEND, _widening(LEGACY_APPEND)),
    "clickhouse": (APPEND, MERGE, REPLACE, *map(_widening, (APPEND, MERGE, REPLACE))),
}
ADDED: Final = "city"


def is_committed(cell: Cell) -> bool:
    """Whether the target holds this load's rows afterwards."""
    if cell.kind is FaultKind.SIGTERM and cell.step.name in ("lease looked at", "intent armed", "finalize"):
        return True  # the commit is near, so the termination waits until its record is durable
    return _is_done(cell, "load end" if cell.sink == "files" else "finalize")


def is_advanced(cell: Cell) -> bool:
    """Whether the cursor is durable afterwards."""
    return _is_done(cell, "state") or (cell.kind is FaultKind.SIGTERM and is_committed(cell))


def is_complete(cell: Cell) -> bool:
    """Whether all of the load is durable, its evidence included."""
    if cell.kind is FaultKind.SIGTERM:
        return cell.step.name == "run.json"  # nothing is left to interrupt
    return cell.kind is FaultKind.SIGKILL and _is_done(cell, "run.json")


def loses_staging(cell: Cell) -> bool:
    """Whether nobody can remove staging: the process is gone, its name was lost, or it may be the only copy."""
    lost = {
        ("stage end", When.AFTER, FaultKind.ERROR),
        ("stage end", When.AFTER, FaultKind.CRASH),
        ("finalize", When.BEFORE, FaultKind.CRASH),
    }
    return cell.kind is FaultKind.SIGKILL or (cell.step.name, cell.when, cell.kind) in lost


def _is_done(cell: Cell, name: str) -> bool:
    steps = LEGACY if cell.sink == "files" else STAGED
    index = next(number for number, step in enumerate(steps) if step.name == name)
    here = steps.index(cell.step)
    return here > index or (here == index and cell.when is When.AFTER)


def manifest(sink: str, course: Course = APPEND) -> dict[str, object]:
    capture = {"source": True, "staged": sink != "files", "target": True}
    both = hooks(pre=[hook("open", "INSERT INTO log VALUES (1)")], post=[hook("close", "INSERT INTO log VALUES (2)")])
    options: dict[str, object] = {"schema_evolution": "add_columns"} if course.widens else {}
    changes: dict[str, object] = {
        "sink__type": sink,
        "sink__options": options,
        "source__options": {**both, "incremental": {"cursor_column": "updated_at"}},
        "quality": {
            "gates": [{"type": "row_count_reconciliation"}],
            "acceptance": {"enabled": True, "mode": "required", "capture": capture},
        },
    }
    match course.mode:
        case "merge":
            return append_flow(**changes, sink__strategy={"mode": "incremental_merge", "unique_key": ["id"]})
        case "replace":
            options["physical_design"] = {"partition_by": {"column": "updated_at"}}
            return flow(**{**changes, "source__options": both}, sink__strategy={"mode": "partition_replace"})
        case _:
            return append_flow(**changes)


def violations(cell: Cell, left: Left, run_id: str) -> Iterator[str]:
    """Everything a run that met this fault says or left behind that is not true, or is too much."""
    course = cell.course
    if left.ids != (course.new if is_committed(cell) else course.old):
        yield f"the target holds {left.ids}"
    if (ADDED in left.columns) != (course.widens and is_committed(cell)):
        yield f"the target has the columns {left.columns}"
    if left.cursor != (course.new_cursor if is_advanced(cell) else course.old_cursor):
        yield f"the cursor is {left.cursor}"
    if "committed" in left.loads.get(run_id, []) and not is_committed(cell):
        yield "the audit says committed"
    if left.leftovers and not is_committed(cell) and not loses_staging(cell):
        yield f"staging was not removed: {left.leftovers}"
    if cell.kind is FaultKind.SIGKILL:
        yield from _killed(cell, left)
    elif is_complete(cell):
        yield from _successful(left)
    else:
        yield from _failed(cell, left)


def _killed(cell: Cell, left: Left) -> Iterator[str]:
    if left.exit_code != -9 or left.receipt is not None or left.report is not None:
        yield f"a killed run said something: {left.exit_code}"
    if left.published is not None and not is_complete(cell):
        yield "a killed run published run.json"


def _successful(left: Left) -> Iterator[str]:
    receipt = left.receipt or {}
    if left.exit_code != 0 or receipt.get("status") != "succeeded" or not left.published:
        yield f"a complete run is not told as one: {left.exit_code} {receipt.get('status')}"


def _failed(cell: Cell, left: Left) -> Iterator[str]:
    expected = (143, "interrupted") if cell.kind is FaultKind.SIGTERM else (1, "failed")
    receipt = left.receipt or {}
    if (left.exit_code, receipt.get("status")) != expected or receipt.get("exit_code") != left.exit_code:
        yield f"exit {left.exit_code}, receipt {receipt.get('status')} instead of {expected}"
    if left.report is None:
        yield "nothing was printed"
        return
    documents = [left.report] if left.published is None else [left.report, left.published["report"]]
    if left.published is None and cell.step.name != "run.json":
        yield "no run.json"
    for document in documents:
        if document["passed"] or document["result"]["status"] != "error" or not document["result"].get("error_code"):
            yield "a failed run is reported as passed"
            return
        yield from _untrue(cell, document["result"]["failure_context"])
    yield from _untrue(cell, receipt)


def _untrue(cell: Cell, said: dict[str, Any]) -> Iterator[str]:
    """What is claimed of target, boundary, state and retry; `unknown` is never untrue, where it can be unknown."""
    states = {True: "mutation_returned_success", False: "not_mutated"}
    commits = cell.step.name in ("finalize", "load begin", "load end", "middle of rows")
    if said["target_state"] != states[is_committed(cell)] and not (commits and said["target_state"] == "unknown"):
        yield f"target_state {said['target_state']}"
    if said["failure_boundary"] == "pre_commit" and is_committed(cell):
        yield "failure_boundary pre_commit after the commit"
    if said["failure_boundary"] == "post_commit" and said["target_state"] == "not_mutated":
        yield "failure_boundary post_commit without a commit"
    if said["retry_classification"] == "retry_before_target_mutation" and said["target_state"] != "not_mutated":
        yield "a retry is called safe"
    if cell.course.new_cursor is None:
        if said["source_state"] not in ("not_applicable", "not_advanced"):
            yield f"source_state {said['source_state']} without a cursor"
        return
    if said["source_state"] != ("advanced" if is_advanced(cell) else "not_advanced") and cell.step.name != "state":
        yield f"source_state {said['source_state']}"
    if said["source_state"] == "not_advanced" and is_advanced(cell):
        yield "source_state not_advanced with a cursor"
    if said["source_state"] == "advanced" and not is_advanced(cell):
        yield "source_state advanced without a cursor"


def violations_of_next(cell: Cell, left: Left, again: Left) -> Iterator[str]:
    """What the next run of the same manifest must do: succeed, name what it found, and load what is missing once.

    An append that is in the target behind an old cursor is not repeated: that is refused until a person has decided.
    """
    if is_committed(cell) and not is_advanced(cell) and not cell.course.repeatable:
        yield from _refused_as_committed(cell, left, again)
        return
    if again.exit_code != 0 or again.report is None or not again.report["passed"]:
        yield f"the next run ended with {again.exit_code}: {again.report and again.report['result'].get('errors')}"
        return
    warnings = [text for text in again.report["result"]["details"]["warnings"] if "leftovers" in text]
    if bool(warnings) != bool(left.leftovers) or any(_without_role(name) not in warnings[0] for name in left.leftovers):
        yield f"leftovers {left.leftovers} are reported as {warnings}"
    if again.ids != cell.course.new:
        yield f"after the next run the target holds {again.ids}"
    if again.cursor != cell.course.new_cursor:
        yield f"after the next run the cursor is {again.cursor}"


def _refused_as_committed(cell: Cell, left: Left, again: Left) -> Iterator[str]:
    """ClickHouse moves the one partition of an append that adds no column; once its emptied staging is gone, nothing
    proves the move."""
    unprovable = cell.sink == "clickhouse" and not left.leftovers and not cell.course.widens
    code = "earlier_load_unknown" if unprovable else "load_already_committed"
    receipt = again.receipt or {}
    said = (again.exit_code, receipt.get("error_code"), receipt.get("retry_classification"))
    if said != (1, code, "operator_verification_required"):
        yield f"the next run of a committed load says {said}"
    if receipt.get("target_state") != "not_mutated" or again.published is None:
        yield f"the refusal claims {receipt.get('target_state')}, or published nothing"
    if (again.ids, again.cursor) != (left.ids, left.cursor):
        yield f"the refusal changed the target to {again.ids} or the cursor to {again.cursor}"


def _without_role(artifact: str) -> str:
    """The part of a leftover's name that stays when the next load takes it away by a rename."""
    return artifact.removeprefix("__dpone__").partition("_")[2]
