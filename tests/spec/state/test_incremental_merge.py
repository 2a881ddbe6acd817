"""incremental_merge end to end: rows read again are upserted, so the newest rows are loaded and none is doubled.

Contract: LIFE-32, MAN-15, STATE-19. `schema_evolution` and lineage as for every strategy.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.model.vocabulary import RetryClassification, SourceState, TargetState
from tests.spec.builders import Project, code_of, flow, outcome_of

TABLE = "CREATE TABLE orders (id INTEGER, name TEXT, updated_at TIMESTAMP)"
STATE = "SELECT cursor_value FROM etl_state.__dpone__cursor_state ORDER BY updated_at DESC LIMIT 1"
ROWS = "SELECT id, name FROM raw.orders ORDER BY ALL"


def merge_flow(*, lookback: str = "PT0S", **changes: object) -> dict[str, object]:
    return flow(
        **{
            "sink__strategy": {"mode": "incremental_merge", "unique_key": ["id"]},
            "source__options": {"incremental": {"cursor_column": "updated_at", "lookback": lookback}},
            "state": {"type": "sink"},
            **changes,
        }
    )


def at(minute: int) -> str:
    return f"2026-01-01 10:{minute:02}:00"


@pytest.fixture(name="project")
def merge_to_load(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.source(TABLE)
    project.written(merge_flow())
    return project


def put(project: Project, *rows: tuple[int, str, int]) -> None:
    """Rows of the source as they are now: an id that is there is updated."""
    for row_id, name, minute in rows:
        project.source(
            f"DELETE FROM orders WHERE id = {row_id}",
            f"INSERT INTO orders VALUES ({row_id}, '{name}', '{at(minute)}')",
        )


def counts(project: Project, run_id: str) -> tuple[int | None, ...]:
    """Runs once, successfully: extracted, inserted, updated, final."""
    execution = project.execute(run_id)
    assert code_of(execution) is None, execution.error
    result = outcome_of(execution).result
    return result.extracted_rows, result.inserted_rows, result.updated_rows, result.final_rows


def test_the_second_run_updates_and_inserts_and_reports_both(project: Project) -> None:
    gates = [{"type": "row_count_reconciliation"}, {"type": "typed_hash_reconciliation"}]
    project.written(merge_flow(quality={"gates": gates, "acceptance": {"enabled": True, "mode": "required"}}))
    put(project, (1, "a", 1), (2, "b", 2), (3, "c", 3))
    assert counts(project, "r1") == (3, 3, 0, 3)
    put(project, (2, "B", 4), (4, "d", 5))
    assert counts(project, "r2") == (3, 1, 2, 4), "the newest row of the last run is read again"
    assert project.target(ROWS) == [(1, "a"), (2, "B"), (3, "c"), (4, "d")]


def test_the_newest_rows_do_not_wait_and_ties_are_neither_lost_nor_doubled(project: Project) -> None:
    put(project, (1, "a", 1), (2, "b", 9))
    counts(project, "r1")
    assert project.target(ROWS) == [(1, "a"), (2, "b")]
    put(project, (3, "tie", 9))
    counts(project, "r2")
    counts(project, "r3")
    assert project.target(ROWS) == [(1, "a"), (2, "b"), (3, "tie")]


def test_a_person_reads_what_was_updated_and_what_was_read_again(project: Project) -> None:
    project.written(merge_flow(lookback="PT10M"))
    put(project, (1, "a", 1))
    project.dpone("run", "m.yaml", "--run-id", "r1")
    said = project.dpone("run", "m.yaml", "--run-id", "r2").stdout
    assert "extracted 1, staged 1, inserted 0, updated 1, target 1" in said
    assert "updated_at from 2026-01-01T09:51:00 (included) to the end" in said, "ten minutes before 10:01"


def test_a_lookback_finds_late_rows_and_doubles_none(project: Project) -> None:
    project.written(merge_flow(lookback="PT10M"))
    put(project, (1, "a", 5), (2, "b", 30))
    counts(project, "r1")
    put(project, (3, "late", 20), (4, "too late", 19))
    assert counts(project, "r2") == (2, 1, 1, 3)
    assert project.target(ROWS) == [(1, "a"), (2, "b"), (3, "late")]
    assert str(project.target(STATE)[0][0]).replace("T", " ").startswith(at(30)), "a lookback moves no cursor back"


def test_the_plan_says_what_is_read_again(project: Project) -> None:
    project.written(merge_flow(lookback="PT10M"))
    plan = project.dpone("plan", "m.yaml", "--format", "json").document
    assert "saved - 0:10:00" in plan["delivery"]["semantics"] and "upserted by key" in plan["delivery"]["semantics"]


@pytest.mark.parametrize("kind", ["INTEGER", "TEXT"])
def test_a_lookback_on_a_cursor_without_time_is_refused_before_anything_is_read(project: Project, kind: str) -> None:
    project.written(merge_flow(lookback="PT10M"))
    project.source("DROP TABLE orders", f"CREATE TABLE orders (id INTEGER, name TEXT, updated_at {kind})")
    execution = project.execute("r1")
    assert code_of(execution) == "cursor_lookback_unsupported"
    assert outcome_of(execution).target_state is TargetState.NOT_MUTATED


def test_a_lookback_on_dates_is_rounded_down_to_days(project: Project) -> None:
    project.written(merge_flow(lookback="PT1H"))
    project.source("DROP TABLE orders", "CREATE TABLE orders (id INTEGER, name TEXT, updated_at DATE)")
    project.source("INSERT INTO orders VALUES (1, 'a', '2026-01-02'), (2, 'b', '2026-01-03')")
    counts(project, "r1")
    project.source("INSERT INTO orders VALUES (3, 'late', '2026-01-02'), (4, 'too late', '2026-01-01')")
    counts(project, "r2")
    assert project.target(ROWS) == [(1, "a"), (2, "b"), (3, "late")]


def test_an_empty_source_is_no_obstacle_for_rows_that_come_later(project: Project) -> None:
    assert counts(project, "r1") == (0, 0, 0, 0)
    put(project, (1, "a", 1))
    assert counts(project, "r2") == (1, 1, 0, 1)


@pytest.mark.parametrize(
    ("rows", "code"),
    [([(7, "a", 5), (7, "b", 6)], "merge_key_duplicate"), ([("NULL", "a", 5)], "merge_key_null")],
)
def test_a_bad_key_is_refused_before_the_commit_and_moves_nothing(
    project: Project, rows: list[tuple[object, str, int]], code: str
) -> None:
    put(project, (1, "a", 1))
    counts(project, "r1")
    before = project.target(STATE)
    for row_id, name, minute in rows:
        project.source(f"INSERT INTO orders VALUES ({row_id}, '{name}', '{at(minute)}')")
    execution = project.execute("r2")
    outcome = outcome_of(execution)
    assert code_of(execution) == code and "'id'" in str(execution.error)
    assert outcome.target_state is TargetState.NOT_MUTATED
    assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    assert outcome.source_state is SourceState.NOT_ADVANCED
    assert project.target(ROWS) == [(1, "a")] and project.target(STATE) == before


def test_a_key_without_nulls_is_declared_so_in_the_target(project: Project) -> None:
    """SQLite and every query call all columns nullable; what decides is whether a NULL arrives."""
    put(project, (1, "a", 1))
    counts(project, "r1")
    nullable = "SELECT column_name, is_nullable FROM duckdb_columns() WHERE table_name = 'orders' ORDER BY column_index"
    assert project.target(nullable) == [("id", False), ("name", True), ("updated_at", True)]
    counts(project, "r2")


def test_a_key_that_is_not_in_the_source_is_refused(project: Project) -> None:
    project.written(merge_flow(sink__strategy={"mode": "incremental_merge", "unique_key": ["order_id"]}))
    put(project, (1, "a", 1))
    execution = project.execute("r1")
    assert code_of(execution) == "key_column_unknown" and "'order_id'" in str(execution.error)


def test_merge_without_a_key_is_refused_by_check(project: Project) -> None:
    project.written(merge_flow(sink__strategy={"mode": "incremental_merge"}))
    finished = project.dpone("check", "m.yaml")
    assert finished.exit_code == 2 and "sink.strategy.unique_key" in finished.stdout


def test_a_full_refresh_may_become_a_merge(project: Project) -> None:
    project.written(flow())
    put(project, (1, "a", 1), (2, "b", 2))
    assert code_of(project.execute("r1")) is None
    project.written(merge_flow())
    put(project, (2, "B", 3))
    assert counts(project, "r2") == (2, 0, 2, 2)
    assert project.target(ROWS) == [(1, "a"), (2, "B")]


def test_a_column_the_source_lost_keeps_its_values_and_a_new_one_is_filled(project: Project) -> None:
    project.written(merge_flow(sink__options={"schema_evolution": "add_columns"}))
    put(project, (1, "a", 1), (2, "b", 2))
    counts(project, "r1")
    project.source("ALTER TABLE orders DROP COLUMN name", "ALTER TABLE orders ADD COLUMN city TEXT")
    project.source(f"UPDATE orders SET city = 'Bonn', updated_at = '{at(3)}' WHERE id = 2")
    assert counts(project, "r2") == (1, 0, 1, 2)
    rows = "SELECT id, name, city FROM raw.orders ORDER BY id"
    assert project.target(rows) == [(1, "a", None), (2, "b", "Bonn")]


def test_lineage_of_an_updated_row_names_the_load_that_updated_it(project: Project) -> None:
    lineage = {"enabled": True, "preset": "debug"}
    project.written(merge_flow(sink__options={"lineage": lineage}))
    put(project, (1, "a", 1), (2, "b", 2))
    counts(project, "r1")
    ids = "SELECT id, __dpone__row_id, __dpone__load_id, __dpone__op FROM raw.orders ORDER BY id"
    before = project.target(ids)
    put(project, (2, "B", 3))
    counts(project, "r2")
    after = project.target(ids)
    assert after[0] == before[0] and after[1][1] == before[1][1] and after[1][2] != before[1][2]
    assert {row[3] for row in after} == {"upsert"}


def test_a_files_target_refuses_a_merge_before_it_runs(project: Project) -> None:
    project.written(merge_flow(sink__type="files"))
    execution = project.execute("r1")
    assert execution.refusal is not None
    assert "sink 'files' does not support strategy 'incremental_merge'" in str(execution.refusal)
