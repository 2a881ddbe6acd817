"""A source that changes while its ranges are read: seen and said, or refused where rows were lost (NAT-23, NAT-42)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dpone_core.api import RunExecution, RunOptions, RunProcessPorts, execute_run
from dpone_core.invocation import RunArguments
from tests.spec.builders import Project, code_of, outcome_of, project_with_orders
from tests.spec.native_transfer.test_transfers import ROWS, STAGING, refresh, report, split


@dataclass(slots=True)
class Meanwhile:
    """A progress port that does something once, when half of the rows went to the sink."""

    action: Callable[[], None]
    done: bool = False

    def phase(self, name: str) -> None:
        return None

    def rows(self, total_rows: int, total_bytes: int) -> None:
        if total_rows >= 50 and not self.done:
            self.done = True
            self.action()


def run(project: Project, action: Callable[[], None], run_id: str = "r1") -> RunExecution:
    return execute_run(
        project.root / "m.yaml",
        RunOptions(arguments=RunArguments(run_id=run_id)),
        environment=project.environment,
        project_dir=project.root,
        ports=RunProcessPorts(progress=Meanwhile(action)),
    )


@pytest.fixture(name="project")
def refresh_in_ranges(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path, refresh(source__options={"partitioning": split(workers=1)}), ROWS)


def changing(project: Project, statement: str) -> Callable[[], None]:
    def change() -> None:
        connection = sqlite3.connect(project.root / "shop.sqlite", timeout=30)
        with connection:
            connection.execute(statement)
        connection.close()

    return change


def test_a_row_that_moved_out_of_an_unread_range_is_a_loss(project: Project) -> None:
    execution = run(project, changing(project, "UPDATE orders SET id = 1 WHERE id = 95"))
    assert code_of(execution) == "partition_coverage_incomplete"
    context = outcome_of(execution).failure_context()
    assert context is not None and context["target_state"] == "not_mutated"
    assert project.target(STAGING) == [], "rows that cannot be trusted are read again"
    again = project.execute("r1")
    assert again.error is None and len(project.target()) == 100


def test_a_source_that_shrank_is_told(project: Project) -> None:
    execution = run(project, changing(project, "DELETE FROM orders WHERE id = 95"))
    assert execution.error is None and len(project.target()) == 99
    assert "source_changed_while_read" in outcome_of(execution).warnings
    assert report(project, "r1")["consistency"] == "none"
    assert "source_changed_while_read" in report(project, "r1")["warnings"]
