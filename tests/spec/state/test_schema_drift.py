"""A target that differs is refused with its differences, widened only by nullable columns, and never narrowed.

Contract: LIFE-48, LIFE-50, STATE-07.
"""

from __future__ import annotations

import pytest

from dpone_core.model.load_config import TableName
from dpone_core.model.vocabulary import TargetState
from dpone_core.testing.builders import orders, stage_request
from tests.connectors.sessions import duckdb_sink
from tests.spec.builders import Project, append_flow, code_of, flow, outcome_of

COLUMNS = (
    "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
    "WHERE table_schema = 'raw' AND table_name = 'orders' ORDER BY ordinal_position"
)
LINEAGE = {"lineage": {"enabled": True, "preset": "bulk_standard"}}


def names(project: Project) -> list[str]:
    return [str(row[0]) for row in project.target(COLUMNS)]


@pytest.mark.parametrize(
    "manifest", [flow(), append_flow(), flow(sink__options=LINEAGE), append_flow(sink__options=LINEAGE)]
)
def test_the_second_run_of_the_same_manifest_works(project: Project, manifest: dict[str, object]) -> None:
    project.written(manifest)
    for run_id in ("r1", "r2", "r2"):
        assert code_of(project.execute(run_id)) is None
    assert {"id", "name", "updated_at"} <= set(names(project))


def test_a_new_source_column_is_refused_and_named(project: Project) -> None:
    project.written(append_flow())
    project.execute("r1")
    project.source("ALTER TABLE orders ADD COLUMN city TEXT")
    execution = project.execute("r2")
    assert code_of(execution) == "target_schema_differs" and "'city'" in str(execution.error)
    assert "city" not in names(project)
    assert execution.error is not None and "add_columns" in str(getattr(execution.error, "fix", ""))


def test_add_columns_adds_it_nullable_and_keeps_old_rows(project: Project) -> None:
    project.written(append_flow(sink__options={"schema_evolution": "add_columns"}))
    project.execute("r1")
    project.source("ALTER TABLE orders ADD COLUMN city TEXT")
    project.source("INSERT INTO orders VALUES (4, 'd', 40, 'Rome')", "INSERT INTO orders VALUES (5, 'e', 50, NULL)")
    assert code_of(project.execute("r2")) is None
    assert project.target("SELECT id, city FROM raw.orders ORDER BY id") == [
        (1, None),
        (2, None),
        (3, None),
        (4, "Rome"),
    ]
    assert ("city", "VARCHAR", "YES") in project.target(COLUMNS)


def test_a_load_that_a_gate_blocks_adds_neither_row_nor_column(project: Project) -> None:
    gate = {"type": "min_rows", "side": "target", "threshold": 100}
    project.written(append_flow(sink__options={"schema_evolution": "add_columns"}))
    project.execute("r1")
    before = project.target("SELECT sql FROM duckdb_tables() WHERE table_name = 'orders'"), project.target()
    project.source("ALTER TABLE orders ADD COLUMN city TEXT")
    project.written(append_flow(sink__options={"schema_evolution": "add_columns"}, quality={"gates": [gate]}))
    execution = project.execute("r2")
    assert code_of(execution) == "DPONE_QUALITY_GATES_FAILED"
    assert outcome_of(execution).target_state is TargetState.NOT_MUTATED
    assert before == (
        project.target("SELECT sql FROM duckdb_tables() WHERE table_name = 'orders'"),
        project.target(),
    )


def test_added_columns_are_recorded_with_the_publication(project: Project) -> None:
    project.written(append_flow(sink__options={"schema_evolution": "add_columns"}))
    first = project.execute("r1")
    project.source("ALTER TABLE orders ADD COLUMN city TEXT")
    second = project.execute("r2")
    (before,) = [step for step in outcome_of(first).steps if step.step_id == "finalized"]
    (after,) = [step for step in outcome_of(second).steps if step.step_id == "finalized"]
    assert "columns_added" not in before.details and after.details["columns_added"] == ["city"]


def test_a_column_that_left_the_source_stays_in_the_target_as_null(project: Project) -> None:
    project.written(append_flow())
    project.execute("r1")
    project.source("ALTER TABLE orders DROP COLUMN name", "INSERT INTO orders VALUES (4, 40)")
    assert code_of(project.execute("r2")) is None
    assert project.target() == [(1, "a", 10), (2, "b", 20), (3, None, 30)]


def test_full_refresh_follows_new_and_lost_columns(project: Project) -> None:
    project.written(flow())
    project.execute("r1")
    project.source("ALTER TABLE orders ADD COLUMN city TEXT", "ALTER TABLE orders DROP COLUMN name")
    assert code_of(project.execute("r2")) is None
    assert names(project) == ["id", "updated_at", "city"]


def test_full_refresh_never_narrows_a_wider_column(project: Project) -> None:
    project.source("CREATE TABLE prices (id INTEGER NOT NULL, price DECIMAL(10, 2) NOT NULL)")
    project.source("INSERT INTO prices VALUES (1, 1.5)")
    project.written(flow(source__table={"name": "prices"}))
    first = project.execute("r1")
    if code_of(first) is not None:
        pytest.skip("this source has no type narrower than what the target can hold")
    project.warehouse("ALTER TABLE raw.orders ALTER price SET DATA TYPE DECIMAL(20, 4)")
    assert code_of(project.execute("r2")) is None
    assert ("price", "DECIMAL(20,4)") in [(row[0], row[1]) for row in project.target(COLUMNS)]


def test_a_type_the_target_cannot_hold_is_refused_without_a_row_written(project: Project) -> None:
    project.written(append_flow())
    project.execute("r1")
    project.warehouse("ALTER TABLE raw.orders ALTER updated_at SET DATA TYPE SMALLINT")
    project.add_orders((4, "d", 40))
    execution = project.execute("r2")
    assert code_of(execution) == "target_schema_differs" and "'updated_at'" in str(execution.error)
    assert len(project.target()) == 2


def test_a_target_column_that_must_not_be_null_and_that_the_source_lacks_is_refused(project: Project) -> None:
    project.warehouse(
        "CREATE SCHEMA raw",
        "CREATE TABLE raw.orders (id BIGINT, name VARCHAR, updated_at BIGINT, must INTEGER NOT NULL)",
    )
    project.written(append_flow())
    assert code_of(project.execute("r1")) == "target_schema_differs"


def test_lineage_switched_on_later_is_a_difference_like_any_other(project: Project) -> None:
    project.written(append_flow())
    project.execute("r1")
    project.written(append_flow(sink__options=LINEAGE))
    assert code_of(project.execute("r2")) == "target_schema_differs"
    project.written(append_flow(sink__options={**LINEAGE, "schema_evolution": "add_columns"}))
    assert code_of(project.execute("r3")) is None
    assert "__dpone__load_id" in names(project)


@pytest.mark.parametrize("changed", [append_flow(), flow()], ids=["to append", "same strategy"])
def test_a_strategy_change_finds_no_stale_staging(project: Project, changed: dict[str, object]) -> None:
    """Staging that a dead load has left, with rows of its own, is named and neither read nor published."""
    with duckdb_sink(project.root) as sink:
        dead = sink.staged.stage(stage_request(TableName(schema="raw", name="orders"), "dead"), iter([orders(77, 78)]))
    (project.root / "warehouse.duckdb").rename(project.root / "dwh.duckdb")
    project.written(flow())
    assert code_of(project.execute("r1")) is None
    assert len(project.target()) == 3
    project.written(changed)
    execution = project.execute("r2")
    assert code_of(execution) is None
    assert any(str(dead.table) in warning for warning in outcome_of(execution).warnings)
    assert not {77, 78} & {row[0] for row in project.target()}
    assert len(project.target(f"SELECT id FROM {dead.table}")) == 2, (
        "it is the only copy of what the dead load had read"
    )
