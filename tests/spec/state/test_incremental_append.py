"""incremental_append loads every row once: the window is half-open, so ties and late equals wait and are never lost.

Contract: STATE-10, STATE-17, STATE-24.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dpone_core.model.vocabulary import SourceState
from tests.spec.builders import Project, append_flow, code_of, flow, outcome_of

IDS = "SELECT list(id ORDER BY id) FROM raw.orders"
STATE = "SELECT cursor_column, cursor_value FROM etl_state.__dpone__cursor_state ORDER BY updated_at DESC LIMIT 1"


@pytest.fixture(name="project")
def append_to_load(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.written(append_flow())
    return project


def load(project: Project, run_id: str) -> list[int]:
    """Runs once; ids in the target afterwards."""
    assert code_of(project.execute(run_id)) is None
    return ids(project)


def ids(project: Project) -> list[int]:
    return list(project.target(IDS)[0][0] or [])


def test_the_newest_cursor_value_waits_and_nothing_is_loaded_twice(project: Project) -> None:
    project.orders([(1, "a", 10), (2, "b", 20), (3, "c", 30)])
    assert load(project, "r1") == [1, 2]
    assert project.target(STATE) == [("updated_at", "30")]
    assert load(project, "r2") == [1, 2], "a run without news loads nothing"
    project.add_orders((4, "d", 40))
    assert load(project, "r3") == [1, 2, 3]


def test_rows_that_share_the_newest_cursor_value_arrive_together(project: Project) -> None:
    project.orders([(1, "a", 10), (2, "b", 16), (3, "c", 16)])
    assert load(project, "r1") == [1]
    project.add_orders((4, "late tie", 16))
    assert load(project, "r2") == [1]
    project.add_orders((5, "e", 17))
    assert load(project, "r3") == [1, 2, 3, 4]


def test_a_row_below_the_saved_value_is_not_seen_and_the_plan_says_so(project: Project) -> None:
    project.orders([(1, "a", 10), (2, "b", 20)])
    load(project, "r1")
    project.add_orders((3, "too late", 5), (4, "d", 30))
    assert load(project, "r2") == [1, 2]
    plan = project.dpone("plan", "m.yaml", "--format", "json").document
    assert "a later smaller cursor is not seen" in plan["delivery"]["semantics"]


def test_an_empty_source_is_a_success_that_saves_a_real_value(project: Project) -> None:
    project.orders([])
    assert load(project, "r1") == []
    assert project.target(STATE) == [("updated_at", None)]
    project.add_orders((1, "a", 10), (2, "b", 20))
    assert load(project, "r2") == [1]


def test_a_source_that_becomes_empty_keeps_its_saved_value(project: Project) -> None:
    project.orders([(1, "a", 10), (2, "b", 20)])
    load(project, "r1")
    project.orders([])
    assert load(project, "r2") == [1]
    assert project.target(STATE) == [("updated_at", "20")]


def test_a_null_cursor_value_is_refused_before_anything_is_staged(project: Project) -> None:
    project.source("CREATE TABLE orders (id INTEGER, name TEXT, updated_at INTEGER)")
    project.add_orders((1, "a", 10), (2, "b", 20))
    assert load(project, "r1") == [1]
    project.source("INSERT INTO orders VALUES (3, 'c', NULL)")
    execution = project.execute("r2")
    assert code_of(execution) == "cursor_has_nulls" and "1 NULL" in str(execution.error)
    assert ids(project) == [1] and outcome_of(execution).source_state is SourceState.NOT_ADVANCED


def test_another_cursor_column_is_refused_until_a_person_decides(project: Project) -> None:
    project.orders()
    load(project, "r1")
    project.written(append_flow(source__options={"incremental": {"cursor_column": "id"}}))
    assert code_of(project.execute("r2")) == "cursor_column_changed"
    assert project.target(STATE) == [("updated_at", "30")]


@pytest.mark.parametrize(
    ("column", "code"),
    [("nothing", "cursor_column_unknown"), ("COALESCE(a,b)", "DPONE_MANIFEST_VALUE_INVALID")],
)
def test_a_cursor_is_a_column_of_the_source(project: Project, column: str, code: str) -> None:
    project.orders()
    project.written(append_flow(source__options={"incremental": {"cursor_column": column}}))
    assert code_of(project.execute("r1")) == code


def test_the_saved_value_never_moves_backwards(project: Project) -> None:
    """A source that lost its newest rows and gets them again must not have them loaded twice."""
    project.orders([(1, "a", 10), (2, "b", 20), (3, "c", 99)])
    assert load(project, "r1") == [1, 2]
    project.orders([(1, "a", 10)])
    assert load(project, "r2") == [1, 2]
    assert project.target(STATE) == [("updated_at", "99")]
    project.orders([(1, "a", 10), (2, "b", 20), (3, "c", 99), (4, "d", 100)])
    assert load(project, "r3") == [1, 2, 3]


def test_lookback_is_refused_because_append_would_repeat_the_overlap(project: Project) -> None:
    project.orders()
    project.written(append_flow(source__options={"incremental": {"cursor_column": "updated_at", "lookback": "PT1H"}}))
    execution = project.execute("r1")
    assert execution.refusal is not None and "lookback" in str(execution.refusal)
    assert not (project.root / "dwh.duckdb").exists()


def test_incremental_without_state_is_refused(project: Project) -> None:
    project.written(append_flow(state={"type": "disabled"}))
    assert project.execute("r1").refusal is not None


def test_a_renamed_target_starts_from_the_beginning(project: Project) -> None:
    project.orders()
    load(project, "r1")
    project.written(append_flow(sink__table={"schema": "raw", "name": "orders2"}))
    assert code_of(project.execute("r2")) is None
    assert project.target("SELECT count(*) FROM raw.orders2") == [(2,)]


@pytest.mark.parametrize(
    ("declared", "values"), [("TEXT", ["2026-01-01", "2026-01-02", "2026-01-03"]), ("INTEGER", [-5, 0, 9_000_000_000])]
)
def test_every_orderable_cursor_type_survives_the_way_through_text(
    project: Project, declared: str, values: list[object]
) -> None:
    project.source(f"CREATE TABLE orders (id INTEGER NOT NULL, name TEXT, updated_at {declared} NOT NULL)")
    for number, value in enumerate(values):
        project.source(f"INSERT INTO orders VALUES ({number}, 'n', {value!r})")
    assert load(project, "r1") == [0, 1]
    assert load(project, "r2") == [0, 1]


def test_a_cursor_of_floats_is_refused_because_equality_would_lie(project: Project) -> None:
    project.source("CREATE TABLE orders (id INTEGER NOT NULL, updated_at REAL NOT NULL)")
    project.source("INSERT INTO orders VALUES (1, 0.5)")
    assert code_of(project.execute("r1")) == "source_column_unsupported"


CLICKHOUSE = {
    "sink__type": "clickhouse",
    "sink__connection_ref": "house",
    "sink__options": {"load_governance": {"audit": {"state_schema": "ops"}}},
}
COUNT = """
import json, sys, clickhouse_connect
client = clickhouse_connect.get_client(interface="chdb", path=sys.argv[1])
print(json.dumps([list(row) for row in client.query(sys.argv[2]).result_rows]))
"""


def house(project: Project, sql: str) -> list[list[object]]:
    """What the embedded ClickHouse answers, asked in a process of its own."""
    done = project.dpone(str(project.root / "house"), sql, launcher=(sys.executable, "-c", COUNT))
    assert done.exit_code == 0, done.stderr
    return list(json.loads(done.stdout))


def test_embedded_clickhouse_keeps_the_same_promises(project: Project) -> None:
    """One CLI process per run: an embedded engine opens one path per process."""
    project.environment["DPONE_CONN_HOUSE"] = f"chdb:///{project.root / 'house'}"
    project.written(append_flow(**CLICKHOUSE))
    project.orders([(1, "a", 10), (2, "b", 16), (3, "c", 16)])
    assert project.run("--run-id", "r1").exit_code == 0
    project.add_orders((4, "late tie", 16), (5, "e", 17))
    second = project.run("--run-id", "r2")
    assert second.exit_code == 0 and second.receipt is not None
    assert (second.receipt["source_state"], second.receipt["inserted_rows"]) == ("advanced", 3)
    third = project.run("--run-id", "r3")
    assert third.result["inserted_rows"] == 0 and third.exit_code == 0
    assert house(project, "SELECT id FROM raw.orders ORDER BY id") == [[1], [2], [3], [4]]
    assert house(project, "SELECT cursor_value FROM ops.__dpone__cursor_state FINAL") == [["17"]]


def test_full_refresh_after_append_needs_no_state(project: Project) -> None:
    project.orders()
    load(project, "r1")
    project.written(flow())
    assert code_of(project.execute("r2")) is None
    assert ids(project) == [1, 2, 3]
