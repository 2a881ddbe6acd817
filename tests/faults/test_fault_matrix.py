"""At every step of a load, whatever goes wrong there: no false success, no early state, a whole target, a usable retry.

Contract: FAIL-29.
Judged from what is left on disk and in the target alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.fault_points import FaultKind, When
from tests.faults.load_matrix import ADDED, APPEND, COURSES, manifest, violations, violations_of_next
from tests.faults.matrix import Bench, Cell, Course, Left, cells
from tests.spec.builders import Project

Projects = Callable[[str, Course], Path]


@pytest.fixture(scope="module")
def projects(bench: Bench, module_path: Path) -> Projects:
    """For each sink and strategy a project whose first load is done and whose source has news since."""
    made: dict[tuple[str, str], Path] = {}

    def of(sink: str, course: Course) -> Path:
        key = (sink, course.label)
        if key not in made:
            project = Project(module_path / "-".join(key).replace(" ", "-"))
            project.orders()
            project.source("CREATE TABLE log (what INTEGER)")
            project.written(manifest(sink, course))
            assert bench(project.root, sink, "first") == 0
            project.add_orders((4, "d", 40), (5, "e", 50))
            if course.widens:
                project.source(f"ALTER TABLE orders ADD COLUMN {ADDED} TEXT", f"UPDATE orders SET {ADDED} = 'Rome'")
            made[key] = project.root
        return made[key]

    return of


EARLY = (
    *("lease", "started row", "leftovers", "cursor read", "intent read", "pre-hook announced", "describe source"),
    *("describe target", "described row", "open stream"),
)
"""Steps before anything of this run is in the sink."""


def quick(cell: Cell) -> bool:
    """Each step by a kill on DuckDB, but of those before anything is staged only the first and the last; an exception,
    the legacy path and other strategies where they differ.
    """
    if cell.course.mode != APPEND.mode or cell.course.widens:
        near = cell.step.name in ("finalize", "state")
        return cell.sink == "duckdb" and near and cell.kind is FaultKind.SIGKILL
    differs = cell.step.name in ("load begin", "middle of rows", "load end", "gates recorded", "state")
    if cell.sink == "files" and not (differs and cell.kind is FaultKind.SIGKILL):
        return False
    if cell.step.name in EARLY[1:-1]:
        return False
    chosen = {(FaultKind.SIGKILL, When.AFTER)}
    if differs:
        chosen.add((FaultKind.ERROR, When.BEFORE))
    if cell.sink == "duckdb" and cell.step.name == "finalize":
        return cell.kind in (FaultKind.ERROR, FaultKind.SIGTERM, FaultKind.SIGKILL)
    bitten = {("run.json", FaultKind.CRASH), ("stage end", FaultKind.SIGTERM), ("state", FaultKind.ERROR)}
    if cell.sink == "duckdb" and (cell.step.name, cell.kind) in bitten:
        return True
    return cell.sink != "clickhouse" and ((cell.kind, cell.when) in chosen or len(cell.step.whens) == 1)


ALL = [
    pytest.param(cell, id=str(cell).replace(" ", "_"), marks=() if quick(cell) else pytest.mark.slow)
    for cell in cells(COURSES)
]


@pytest.mark.parametrize("cell", ALL)
def test_a_fault_leaves_the_truth_and_a_run_that_can_go_on(
    cell: Cell, bench: Bench, projects: Projects, cell_path: Path
) -> None:
    root = cell_path / "project"
    shutil.copytree(projects(cell.sink, cell.course), root, symlinks=True)
    exit_code = bench(root, cell.sink, "faulty", fault=cell.fault)
    assert bench(root, cell.sink, None) == 0
    left = Left.of(root, "faulty", exit_code)
    exit_code = bench(root, cell.sink, "next")
    again = Left.of(root, "next", exit_code)
    assert [*violations(cell, left, "faulty"), *violations_of_next(cell, left, again)] == []


@pytest.mark.parametrize("strategy", ["append", "merge", "replace"])
@pytest.mark.parametrize("sink", ["duckdb", "files", pytest.param("clickhouse", marks=pytest.mark.slow)])
def test_every_step_of_the_matrix_is_one_a_load_passes_through_in_this_order(
    sink: str, strategy: str, bench: Bench, projects: Projects, cell_path: Path
) -> None:
    root = cell_path / "project"
    course = next((course for course in COURSES[sink] if course.mode == strategy), None)
    if course is None:
        pytest.skip("a files target takes no such load")
    shutil.copytree(projects(sink, course), root, symlinks=True)
    assert bench(root, sink, "whole") == 0
    lines = (root / "whole.calls").read_text("utf-8").splitlines()
    steps = [f"{step.call}#{step.occurrence}" for step in course.steps]
    assert [line for line in lines if line in steps] == list(dict.fromkeys(steps))
