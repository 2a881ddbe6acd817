"""The bench that runs each cell in a process of its own, and how large the matrix was and how much of it failed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.matrix import Bench

REPOSITORY = Path(__file__).parents[2]
_MATRIX = "test_a_fault_leaves_the_truth_and_a_run_that_can_go_on["


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
