"""At every step of a native transfer, whatever goes wrong there: the truth, and a resume that loads every row once.

Contract: NAT-16, NAT-52. Judged from what is left on disk and in the target alone.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.bench import connections
from tests.faults.fault_points import FaultKind, When
from tests.faults.matrix import Bench, Cell, Course, Left, cells
from tests.faults.native_matrix import (
    APPEND,
    COURSES,
    LEGACY,
    REFRESH,
    REPLACE,
    UNRESOLVED,
    manifest,
    violations,
    violations_of_resume,
)
from tests.spec.builders import Finished, Project

Projects = Callable[[str, Course], Path]


@pytest.fixture(scope="module")
def projects(bench: Bench, module_path: Path) -> Projects:
    """For each sink and strategy a project whose first load is done and whose source has news since."""
    made: dict[tuple[str, str], Path] = {}

    def of(sink: str, course: Course) -> Path:
        if (sink, course.mode) not in made:
            project = Project(module_path / f"{sink}-{course.mode}")
            project.orders()
            project.written(manifest(sink, course))
            assert bench(project.root, sink, "first") == 0
            assert Left.of(project.root, "first", 0).ids == course.old
            project.add_orders((4, "d", 40), (5, "e", 50), (6, "f", 60), (7, "g", 70))
            if course == REPLACE:
                with closing(sqlite3.connect(project.root / "shop.sqlite")) as source, source:
                    source.execute("UPDATE orders SET id = id + 10")
            made[sink, course.mode] = project.root
        return made[sink, course.mode]

    return of


def quick(cell: Cell) -> bool:
    """Each step of an append by a kill, but those that a load without ranges has too; where the target is published,
    each strategy by what differs there, and the embedded ClickHouse, whose start costs seconds, once.
    """
    place, kind = (cell.course.mode, cell.step.name, cell.when), cell.kind
    if cell.sink == "clickhouse":
        return kind is FaultKind.SIGKILL and place == (APPEND.mode, "finalize 2", When.AFTER)
    if cell.sink == "files":
        return kind is FaultKind.SIGKILL and place in {
            (LEGACY.mode, "finalize 3", When.AFTER),
            (LEGACY.mode, "commit 3", When.AFTER),
            (LEGACY.mode, "gates recorded", When.BEFORE),
        }
    if cell.course == APPEND:
        return ((kind, cell.when) == (FaultKind.SIGKILL, When.AFTER) and cell.step.name not in AS_WITHOUT_RANGES) or (
            kind is FaultKind.ERROR and cell.step.name in ("finalize 2", "commit 2", "stage")
        )
    if cell.course == REPLACE:
        published = {(REPLACE.mode, "finalize 2", When.BEFORE), (REPLACE.mode, "finalize 2", When.AFTER)}
        return kind is FaultKind.SIGKILL and place in {*published, (REPLACE.mode, "commit 2", When.BEFORE)}
    published = {(REFRESH.mode, "finalize 1", When.BEFORE), (REFRESH.mode, "finalize 1", When.AFTER)}
    return (kind is FaultKind.SIGKILL and place in published) or (
        kind is FaultKind.ERROR and cell.when is When.BEFORE and cell.step.name in ("assemble", "report.json")
    )


AS_WITHOUT_RANGES = (
    *("acceptance source", "acceptance target", "evidence", "committed row", "load record", "lease release"),
)


ALL = [
    pytest.param(cell, id=str(cell).replace(" ", "_"), marks=() if quick(cell) else pytest.mark.slow)
    for cell in cells(COURSES)
]


@pytest.mark.parametrize("cell", ALL)
def test_a_fault_leaves_the_truth_and_a_run_that_resumes(
    cell: Cell, bench: Bench, projects: Projects, cell_path: Path
) -> None:
    root = cell_path / "project"
    shutil.copytree(projects(cell.sink, cell.course), root, symlinks=True)
    exit_code = bench(root, cell.sink, "r", fault=cell.fault)
    assert bench(root, cell.sink, None) == 0
    left = Left.of(root, "r", exit_code)
    assert [*violations(cell, left)] == []
    if UNRESOLVED & set(left.phases("r")):
        an_operator_settles_it(root, cell, left, bench)
    exit_code = bench(root, cell.sink, "r")
    again = Left.of(root, "r", exit_code)
    assert [*violations_of_resume(cell, settled(cell, left), again)] == []


def an_operator_settles_it(root: Path, cell: Cell, left: Left, bench: Bench) -> None:
    """The run is refused, the load marker says the truth, a false declaration is refused, the true one releases it."""
    assert bench(root, cell.sink, "r") == 1
    blocked = Left.of(root, "r", 1)
    assert blocked.code == "native_transfer_manual_reconciliation_required"
    assert blocked.ids == left.ids and not [line for line in blocked.calls if line.startswith(("read.", "staged."))]
    context = blocked.report and blocked.report["result"]["failure_context"]
    assert context and context["retry_classification"] == "operator_verification_required"
    assert bench(root, cell.sink, "other") == 1, "another run of the route is blocked as well"
    shown = transfer(root, cell, "show").document
    (run,) = [run for run in shown["runs"] if run["run_id"] == "r"]
    (batch,) = run["unresolved"]
    truth, lie = ("published", "not_published") if is_published(cell, left) else ("not_published", "published")
    unsaid = cell.sink == "files" and truth == "published"  # files may be there in part
    assert batch["load_marker_says"] == ("cannot_say" if unsaid else truth)
    if not unsaid:
        refused = transfer(root, cell, "reconcile", "--run-id", "r", "--found", lie, "--reason", "looked")
        assert (refused.exit_code, refused.code) == (2, "DPONE_TRANSFER_MARKER_CONTRADICTS")
    applied = transfer(root, cell, "reconcile", "--run-id", "r", "--found", truth, "--reason", "looked")
    assert applied.exit_code == 0 and applied.document["run"]["unresolved"] == []
    (record,) = root.glob("evidence/runs/orders/transfer_reconciliations/*.json")
    assert json.loads(record.read_text("utf-8"))["status"] == "applied"


def is_published(cell: Cell, left: Left) -> bool:
    """By the target alone."""
    if cell.course == REFRESH:
        return left.ids != cell.course.old
    unresolved = [number for number, phase in enumerate(left.phases("r")) if phase in UNRESOLVED]
    return cell.course.ranges[unresolved[-1]][0] in left.ids


def settled(cell: Cell, left: Left) -> Left:
    """What the operator's declaration made of the checkpoints, as a resume finds them."""
    published = is_published(cell, left) if UNRESOLVED & set(left.phases("r")) else False
    status = "committed" if published else "failed"
    records = [
        (status, rows, phase) if phase in UNRESOLVED else (before, rows, phase)
        for before, rows, phase in left.partitions.get("r", [])
    ]
    return replace(left, partitions={"r": records})


def transfer(root: Path, cell: Cell, *arguments: str) -> Finished:
    project = Project(root)
    action, *rest = arguments
    return project.dpone(
        *("transfer", action, "m.yaml", "--format", "json"), *rest, environment=connections(root, cell.sink)
    )


@pytest.mark.parametrize(
    ("sink", "course"),
    [
        pytest.param(sink, course, id=f"{sink}-{course.mode}", marks=pytest.mark.slow if sink == "clickhouse" else ())
        for sink, courses in COURSES.items()
        for course in courses
    ],
)
def test_every_step_of_the_matrix_is_one_a_transfer_passes_through_in_this_order(
    sink: str, course: Course, bench: Bench, projects: Projects, cell_path: Path
) -> None:
    root = cell_path / "project"
    shutil.copytree(projects(sink, course), root, symlinks=True)
    assert bench(root, sink, "whole") == 0
    lines = Left.of(root, "whole", 0).calls
    steps = [f"{step.call}#{step.occurrence}" for step in course.steps]
    assert [step for step in steps if step not in lines] == []
    beside_readers = {"read.open_range", "staged.stage", "rows", "checkpoint loaded", "legacy.load"}
    ordered = [step for step in steps if step.rpartition("#")[0] not in beside_readers]
    assert [line for line in lines if line in ordered] == ordered
