"""The bench that runs each cell in a process of its own, and how large the matrix was and how much of it failed.

The files of a cell are kept in memory where there is room: half of the time of an embedded ClickHouse, copied for every
cell, is the disk's. Each cell removes its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.matrix import Bench

REPOSITORY = Path(__file__).parents[2]
_MATRIX = "test_a_fault_leaves_the_truth_and_a_run_that_can_go_on["


_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 * 1024**3


@pytest.fixture(scope="module")
def module_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory of one module; on the disk where memory has no room, as in a container."""
    has_room = os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES
    place = _MEMORY if has_room else tmp_path_factory.getbasetemp()
    with tempfile.TemporaryDirectory(prefix="dpone-faults-", dir=place) as directory:
        yield Path(directory)


@pytest.fixture
def cell_path(module_path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cell-", dir=module_path) as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """Runs one task in a process of its own and returns that process's exit status; without run id it only looks."""
    command = [sys.executable, "-m", "tests.faults.bench"]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        asked, answers = process.stdin, process.stdout
        assert asked is not None and answers is not None

        def run(root: Path, sink: str, run_id: str | None, **task: Any) -> int:
            asked.write(json.dumps({"root": str(root), "sink": sink, "run_id": run_id, **task}) + "\n")
            asked.flush()
            return int(answers.readline())

        yield run
        asked.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = {
        outcome: sum(
            isinstance(report, pytest.TestReport) and _MATRIX in report.nodeid
            for report in terminalreporter.getreports(outcome)
        )
        for outcome in ("passed", "failed", "error")
    }
    violated = counts["failed"] + counts["error"]
    if violated or counts["passed"]:
        terminalreporter.write_line(f"fault matrix: {violated + counts['passed']} cells, {violated} violated")
