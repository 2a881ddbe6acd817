"""At every step of a load, whatever goes wrong there: no false success, no early state, a whole target, a usable retry.

Contract: FAIL-29.
Judged from what is left on disk and in the target alone.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.fault_points import FaultKind, When
from tests.faults.matrix import COURSES, Cell, Left, cells, manifest, steps_of, violations, violations_of_next
from tests.spec.builders import Project

Bench = Callable[..., int]
Projects = Callable[[str, str], Path]
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """Runs one task in a process of its own and returns that process's exit status."""
    command = [sys.executable, "-m", "tests.faults.bench"]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        asked, answers = process.stdin, process.stdout
        assert asked is not None and answers is not None

        def run(root: Path, sink: str, run_id: str, **task: Any) -> int:
            asked.write(json.dumps({"root": str(root), "sink": sink, "run_id": run_id, **task}) + "\n")
            asked.flush()
            return int(answers.readline())

        yield run
        asked.close()


@pytest.fixture(scope="module")
def projects(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Projects:
    """For each sink and strategy a project whose first load is done and whose source has news since."""
    made: dict[tuple[str, str], Path] = {}

    def of(sink: str, strategy: str) -> Path:
        if (sink, strategy) not in made:
            project = Project(tmp_path_factory.mktemp(f"{sink}-{strategy}"))
            project.orders()
            project.source("CREATE TABLE log (what INTEGER)")
            project.written(manifest(sink, strategy))
            assert bench(project.root, sink, "first", look_first=False) == 0
            project.add_orders((4, "d", 40), (5, "e", 50))
            made[sink, strategy] = project.root
        return made[sink, strategy]

    return of


def quick(cell: Cell) -> bool:
    """Every step by exception and by kill on DuckDB; the legacy path and other strategies where they differ."""
    if cell.strategy != "append":
        near = cell.step.name in ("finalize", "state")
        return cell.sink == "duckdb" and near and cell.kind in (FaultKind.ERROR, FaultKind.SIGKILL)
    differs = cell.step.name in ("load begin", "middle of rows", "load end", "gates recorded", "state")
    if cell.sink == "files" and not differs:
        return False
    chosen = {(FaultKind.ERROR, When.BEFORE), (FaultKind.SIGKILL, When.AFTER)}
    if cell.sink == "duckdb" and cell.step.name == "finalize":
        return True
    bitten = {("run.json", FaultKind.CRASH), ("stage end", FaultKind.SIGTERM), ("state", FaultKind.ERROR)}
    if cell.sink == "duckdb" and (cell.step.name, cell.kind) in bitten:
        return True
    return cell.sink != "clickhouse" and ((cell.kind, cell.when) in chosen or len(cell.step.whens) == 1)


ALL = [
    pytest.param(cell, id=str(cell).replace(" ", "_"), marks=() if quick(cell) else pytest.mark.slow)
    for sink, strategies in {
        "duckdb": ("append", "merge", "replace"),
        "files": ("append",),
        "clickhouse": ("append", "merge", "replace"),
    }.items()
    for strategy in strategies
    for cell in cells(sink, strategy)
]


@pytest.mark.parametrize("cell", ALL)
def test_a_fault_leaves_the_truth_and_a_run_that_can_go_on(
    cell: Cell, bench: Bench, projects: Projects, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    shutil.copytree(projects(cell.sink, cell.strategy), root, symlinks=True)
    exit_code = bench(root, cell.sink, "faulty", fault=cell.fault)
    next_exit_code = bench(root, cell.sink, "next", look_first=True)
    looked = json.loads((root / "seen.json").read_text("utf-8"))
    left = Left.of(root, "faulty", exit_code, looked["before"])
    again = Left.of(root, "next", next_exit_code, looked["after"])
    shutil.rmtree(root)
    assert [*violations(cell, left, "faulty"), *violations_of_next(cell, left, again)] == []


@pytest.mark.parametrize("strategy", list(COURSES))
@pytest.mark.parametrize("sink", ["duckdb", "files", pytest.param("clickhouse", marks=pytest.mark.slow)])
def test_every_step_of_the_matrix_is_one_a_load_passes_through_in_this_order(
    sink: str, strategy: str, bench: Bench, projects: Projects, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    if sink == "files" and strategy != "append":
        pytest.skip("a files target takes no such load")
    shutil.copytree(projects(sink, strategy), root, symlinks=True)
    assert bench(root, sink, "whole", look_first=False) == 0
    lines = (root / "whole.calls").read_text("utf-8").splitlines()
    steps = [f"{step.call}#{step.occurrence}" for step in steps_of(sink, strategy)]
    assert [line for line in lines if line in steps] == list(dict.fromkeys(steps))
