"""Prints the matrix of pod ends when its module has run: one line per scenario, expected and observed, and what the
gate advises.
"""

from __future__ import annotations

import pytest

from tests.airflow.provider.test_kpo_matrix import MATRIX_ROW


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if isinstance(report, pytest.TestReport)
        for name, value in report.user_properties
        if name == MATRIX_ROW
    ]
    if not rows:
        return
    surprises = sum(expected != observed for _, _, expected, observed, _ in rows)
    for mode, name, expected, observed, advice in sorted(rows, key=lambda row: row[:2]):
        seen = "as expected" if observed == expected else f"OBSERVED {observed}"
        terminalreporter.write_line(f"kpo matrix: {mode:8} {name:22} {expected}: {seen}")
        if advice:
            terminalreporter.write_line(f"{'':34} -> {advice}")
    terminalreporter.write_line(f"kpo matrix: {len(rows)} scenarios, {surprises} surprises")
