"""Says at the end how large the fault matrix was and how many of its cells were violated."""

from __future__ import annotations

import pytest

_MATRIX = "test_a_fault_leaves_the_truth_and_a_run_that_can_go_on["


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
