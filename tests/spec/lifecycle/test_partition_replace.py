"""partition_replace end to end: the partitions of this load are replaced as a whole, and an empty load says so first.

Contract: LIFE-34, LIFE-41.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.model.vocabulary import RetryClassification, TargetState
from tests.spec.builders import Project, code_of, flow, outcome_of

ROWS = "SELECT id, day FROM raw.orders ORDER BY id"
DESIGN = {"physical_design": {"partition_by": {"column": "day", "granularity": "month"}}}


def replace_flow(**changes: object) -> dict[str, object]:
    return flow(**{"sink__strategy": {"mode": "partition_replace"}, "sink__options": DESIGN, **changes})


@pytest.fixture(name="project")
def orders_by_day(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.source("CREATE TABLE orders (id INTEGER NOT NULL, day DATE)")
    project.written(replace_flow())
    return project


def put(project: Project, *rows: tuple[int, str | None]) -> None:
    project.source("DELETE FROM orders")
    for row_id, day in rows:
        project.source(f"INSERT INTO orders VALUES ({row_id}, {'NULL' if day is None else repr(day)})")


def counts(project: Project, run_id: str) -> tuple[int | None, ...]:
    execution = project.execute(run_id)
    assert code_of(execution) is None, execution.error
    result = outcome_of(execution).result
    return result.staged_rows, result.inserted_rows, result.updated_rows, result.final_rows


def ids(project: Project) -> list[int]:
    return [row[0] for row in project.target(ROWS)]


def test_months_of_this_load_are_replaced_and_others_stay(project: Project) -> None:
    gates = [{"type": "row_count_reconciliation"}, {"type": "min_rows", "threshold": 1}]
    project.written(replace_flow(quality={"gates": gates, "acceptance": {"enabled": True, "mode": "required"}}))
    put(project, (1, "2026-01-01"), (2, "2026-01-31"), (3, "2026-02-01"), (4, "2026-03-01"))
    assert counts(project, "r1") == (4, 4, 0, 4)
    put(project, (5, "2026-01-15"), (6, "2026-03-31"), (7, "2026-04-01"))
    assert counts(project, "r2") == (3, 3, 0, 4)
    assert ids(project) == [3, 5, 6, 7]
    assert counts(project, "r3") == (3, 3, 0, 4), "repeating a replacement changes nothing"


def test_rows_without_a_partition_value_are_a_partition(project: Project) -> None:
    put(project, (1, None), (2, "2026-01-01"))
    counts(project, "r1")
    put(project, (3, None))
    counts(project, "r2")
    assert ids(project) == [2, 3]


def test_an_empty_load_is_refused_before_the_commit(project: Project) -> None:
    put(project, (1, "2026-01-01"))
    counts(project, "r1")
    put(project)
    execution = project.execute("r2")
    outcome = outcome_of(execution)
    assert code_of(execution) == "partition_empty_refused" and "allow_empty" in str(execution.error.fix)  # type: ignore[union-attr]
    assert outcome.target_state is TargetState.NOT_MUTATED
    assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    assert ids(project) == [1]
    tables = "SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE '\\_\\_dpone\\_\\_stg%' ESCAPE '\\'"
    assert project.target(tables) == [(0,)]


def test_allow_empty_replaces_nothing(project: Project) -> None:
    project.written(replace_flow(sink__strategy={"mode": "partition_replace", "allow_empty": True}))
    put(project, (1, "2026-01-01"))
    counts(project, "r1")
    put(project)
    assert counts(project, "r2") == (0, 0, 0, 1)
    assert ids(project) == [1]


def test_a_partition_column_that_is_not_in_the_source_is_refused(project: Project) -> None:
    project.written(replace_flow(sink__options={"physical_design": {"partition_by": {"column": "month"}}}))
    put(project, (1, "2026-01-01"))
    execution = project.execute("r1")
    assert code_of(execution) == "key_column_unknown" and "'month'" in str(execution.error)


def test_the_plan_names_partition_and_boundary(project: Project) -> None:
    plan = project.dpone("plan", "m.yaml", "--format", "json").document
    [target] = plan["targets"]
    assert target["partition_by"] == "month(day)" and target["finaliser"]["name"] == "replace_in_transaction"
    assert "whole load" in target["finaliser"]["atomic_for"]
    assert "stay as they are" in plan["delivery"]["semantics"]


def test_without_a_partition_key_check_says_what_is_missing(project: Project) -> None:
    project.written(flow(sink__strategy={"mode": "partition_replace"}))
    finished = project.dpone("check", "m.yaml")
    assert finished.exit_code == 2 and "sink.options.physical_design" in finished.stdout
    assert "partition_by" in finished.stdout
