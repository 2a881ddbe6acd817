"""Partitioned loads end to end: every row once, gates over the whole workload, a resume that reads what is missing.

Contract: NAT-05, NAT-07, NAT-26, NAT-36, NAT-43, NAT-58, NAT-60.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpone_core.api import RunExecution, plan
from dpone_core.use_cases.run import RetryPolicy
from tests.marks import first_quick
from tests.spec.builders import Project, append_flow, code_of, flow, outcome_of, project_with_orders

STAGING = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '\\_\\_dpone\\_\\_stg%' ESCAPE '\\'"
ROWS = [(number, f"n{number}", number * 10) for number in range(1, 101)]
QUALITY = {
    "gates": [{"type": "row_count_reconciliation"}, {"type": "min_rows", "threshold": 1, "severity": "warning"}],
    "acceptance": {"enabled": True, "mode": "required", "capture": {"staged": False}},
}


def split(**changes: object) -> dict[str, object]:
    return {"column": "id", "num_partitions": 9, "workers": 2, **changes}


def refresh(**changes: object) -> dict[str, object]:
    return flow(**{"source__options": {"partitioning": split()}, "quality": QUALITY, **changes})


def append(**changes: object) -> dict[str, object]:
    options = {"incremental": {"cursor_column": "updated_at"}, "partitioning": split()}
    return append_flow(**{"source__options": options, "quality": QUALITY, **changes})


@pytest.fixture(name="project")
def hundred_orders(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path, rows=ROWS)


def step(execution: RunExecution, step_id: str) -> dict[str, Any]:
    (found,) = [step for step in outcome_of(execution).steps if step.step_id == step_id]
    return dict(found.details)


def report(project: Project, run_id: str) -> dict[str, Any]:
    (path,) = project.root.glob(f"evidence/native_transfer/orders/native_transfer_runtime_{run_id}-*.json")
    return dict(json.loads(path.read_text("utf-8")))


def checkpoints(project: Project, run_id: str) -> list[tuple[str, int]]:
    """Status and rows of each partition, in plan order."""
    return project.target(
        "SELECT status, rows_exported FROM etl_state.__dpone__transfer_checkpoints"
        f" WHERE run_id = '{run_id}' ORDER BY partition_index"
    )


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("checkpoints_in", ["sink", "file"])
def test_a_full_refresh_loads_every_row_once(project: Project, workers: int, checkpoints_in: str) -> None:
    options = {"partitioning": split(workers=workers, checkpoints=checkpoints_in)}
    project.written(refresh(source__options=options))
    execution = project.execute("r1")
    assert execution.error is None
    assert project.target() == ROWS
    assert outcome_of(execution).result.extracted_rows == 100
    assert report(project, "r1")["passed"] is True
    assert report(project, "r1")["checkpoint_summary"]["committed"] == 10
    scope = report(project, "r1")["quality_scope"]
    assert (scope["planned_count"], scope["active_count"]) == (10, 10)
    assert (scope["source_rows"], scope["target_rows"]) == (100, 100)
    assert report(project, "r1")["consistency"] == "none"


def test_the_same_run_id_after_success_transfers_anew(project: Project) -> None:
    project.written(refresh())
    assert project.execute("r1").error is None
    project.add_orders((0, "late", 5))
    again = project.execute("r1")
    assert again.error is None and len(project.target()) == 101
    assert step(again, "transfer_planned")["resumed"] is False


@pytest.mark.parametrize(
    ("declared", "values"),
    first_quick(
        [
            ("INTEGER", [1, 1, 1, 1, 2, 9_223_372_036_854_775_807, -9_223_372_036_854_775_808, None]),
            ("TEXT", ["", "a", "ä", "Z", "zz", "\U0001f600", "order-1", None]),
            ("TEXT COLLATE NOCASE", ["a", "A", "b", "B", "Ab", "aB", None, "c"]),
            ("DATE", ["2026-01-01", "2026-01-01", "1999-12-31", "2030-06-15", None, "2026-02-01"]),
            ("TIMESTAMP", ["2026-01-01 00:00:00", "2026-01-01T00:00:00.000001", "2026-01-02", None]),
            ("DECIMAL(12, 3)", [1.1, 2, -7.125, 0.3, 1e8 + 0.5, None, 0]),
            ("DECIMAL(20, 1)", [0.3, -1, 5.5, 12345.5]),
        ],
        3,
    ),
)
def test_whatever_the_key_every_row_lies_in_one_range(tmp_path: Path, declared: str, values: list[Any]) -> None:
    """NAT-05: keys on every bound, and NULL."""
    project = Project(tmp_path)
    project.source(f"CREATE TABLE orders (id INTEGER NOT NULL, k {declared})")
    with sqlite3.connect(tmp_path / "shop.sqlite") as connection:
        connection.executemany("INSERT INTO orders VALUES (?, ?)", list(enumerate(values)))
    connection.close()
    for partitions in (1, 2, 5):
        project.written(refresh(source__options={"partitioning": split(column="k", num_partitions=partitions)}))
        execution = project.execute(f"r{partitions}")
        assert execution.error is None, execution.error.__cause__ or execution.error
        assert project.target("SELECT id FROM raw.orders ORDER BY id") == [(n,) for n in range(len(values))]


@pytest.mark.parametrize("rows", [[], [(None, "a", 1), (None, "b", 2)]], ids=["empty", "null_only"])
def test_a_source_without_a_key_is_the_null_partition(tmp_path: Path, rows: list[Any]) -> None:
    """NAT-58: nothing to read is a real result, not a missing one."""
    project = Project(tmp_path)
    project.source("CREATE TABLE orders (id INTEGER, name TEXT, updated_at INTEGER NOT NULL)")
    with sqlite3.connect(tmp_path / "shop.sqlite") as connection:
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    connection.close()
    quality = {"gates": [{"type": "row_count_reconciliation"}]}
    project.written(refresh(quality=quality))
    execution = project.execute("r1")
    assert execution.error is None and len(project.target()) == len(rows)
    assert report(project, "r1")["quality_scope"]["planned_count"] == 1
    project.written(append(quality=quality, sink__table={"schema": "raw", "name": "appended"}))
    execution = project.execute("a1")
    assert execution.error is None
    saved = project.target("SELECT cursor_value FROM etl_state.__dpone__cursor_state")
    assert saved == [(None if not rows else "2",)]


def test_an_append_reads_its_window_in_ranges_and_saves_the_cursor(project: Project) -> None:
    """NAT-34: the newest cursor value waits, also when its rows lie in several ranges."""
    project.add_orders((101, "tie", 1000), (102, "tie", 1000))
    project.written(append())
    assert project.execute("a1").error is None
    assert project.target() == ROWS[:-1]
    assert project.target("SELECT cursor_value FROM etl_state.__dpone__cursor_state") == [("1000",)]
    project.add_orders((103, "later", 1010))
    assert project.execute("a2").error is None
    assert [row[0] for row in project.target()] == list(range(1, 103))


def broken(project: Project, key: int = 55) -> None:
    """A row in the middle range that cannot be read."""
    project.source(f"UPDATE orders SET updated_at = 'nonsense' WHERE id = {key}")


def repaired(project: Project, key: int = 55) -> None:
    project.source(f"UPDATE orders SET updated_at = {key * 10} WHERE id = {key}")


def test_a_failed_range_is_read_again_and_no_other(project: Project) -> None:
    """NAT-36: the staging of a range that failed half-way is gone; the others are counted and kept."""
    project.written(refresh(source__options={"partitioning": split(workers=1)}))
    broken(project, 99)
    first = project.execute("r1")
    assert code_of(first) == "source_value_out_of_range"
    context = outcome_of(first).failure_context()
    assert context is not None and context["retry_classification"] == "retry_before_target_mutation"
    assert [status for status, _ in checkpoints(project, "r1")] == ["loaded"] * 9 + ["failed"]
    repaired(project, 99)
    again = project.execute("r1")
    assert again.error is None and project.target() == ROWS
    staged = step(again, "staged")
    assert (staged["partitions"], staged["partitions_reused"]) == (10, 9)
    assert outcome_of(again).result.extracted_rows == 12 - 1 + 1
    assert outcome_of(again).result.inserted_rows == 100
    scope = report(project, "r1")["quality_scope"]
    assert (scope["planned_count"], scope["source_rows"], scope["target_rows"]) == (10, 100, 100)
    assert project.target(
        "SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE '\\_\\_dpone\\_\\_stg%' ESCAPE '\\'"
    ) == [(0,)]


DEADLY = """
import os, signal, sys, time
from pathlib import Path
from dpone_core.api import RunOptions, RunProcessPorts, execute_run
from dpone_core.invocation import RunArguments
def loaded():
    return sum(path.read_text().count('"loaded"') for path in Path("evidence").rglob("*.jsonl"))
class Deadly:
    def phase(self, name):
        pass
    def rows(self, total_rows, total_bytes):
        if total_rows >= int(sys.argv[2]):
            while loaded() < int(sys.argv[3]):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
options = RunOptions(arguments=RunArguments(run_id=sys.argv[1]))
execute_run(Path("m.yaml"), options, ports=RunProcessPorts(progress=Deadly()))
"""


def dies_after(project: Project, run_id: str, rows: int, *, loaded: int = 0) -> None:
    """A run whose own progress port ends the process once so many rows went to the sink, and its checkpoint file says
    that so many ranges are loaded."""
    died = project.dpone(run_id, str(rows), str(loaded), launcher=(sys.executable, "-c", DEADLY))
    assert died.exit_code == -signal.SIGKILL, died.stderr


@pytest.mark.parametrize("make", [refresh, append], ids=["full_refresh", "incremental_append"])
def test_a_run_killed_after_nine_of_ten_ranges_reads_one_more(project: Project, make: Any) -> None:
    """The show of native transfer: gates cover ten ranges, one is read."""
    if make is append:
        project.add_orders((101, "waits", 1001))
    options = dict(make()["source"]["options"])
    project.written(make(source__options={**options, "partitioning": split(workers=1, checkpoints="file")}))
    dies_after(project, "r1", 90, loaded=9)
    again = project.run("--run-id", "r1")
    assert again.exit_code == 0
    assert project.target() == ROWS
    assert again.result["extracted_rows"] < 13
    assert again.result["inserted_rows"] == 100
    scope = report(project, "r1")["quality_scope"]
    assert (scope["planned_count"], scope["source_rows"], scope["target_rows"]) == (10, 100, 100)
    staged = next(step for step in again.result["details"]["load_steps"] if step["step_id"] == "staged")
    assert staged["details_json"]["partitions_reused"] == 9
    assert again.result["details"]["warnings"] == [], "what a run resumes is no leftover"


def test_a_resume_reads_what_was_planned_although_the_source_grew(project: Project) -> None:
    project.add_orders((101, "waits", 1001))
    project.written(append(source__options={**append()["source"]["options"], "partitioning": split(workers=1)}))  # type: ignore[index]
    broken_name(project)
    assert code_of(project.execute("a1")) == "source_value_out_of_range"
    project.source("UPDATE orders SET name = 'n99' WHERE id = 99")
    project.add_orders((102, "new", 1500))
    assert project.execute("a1").error is None
    assert project.target() == ROWS
    assert project.target("SELECT cursor_value FROM etl_state.__dpone__cursor_state") == [("1001",)]
    project.add_orders((103, "newer", 1600))
    assert project.execute("a2").error is None
    assert [row[0] for row in project.target()] == list(range(1, 103))


def broken_name(project: Project) -> None:
    project.source("UPDATE orders SET name = x'00' WHERE id = 99")


def test_staged_rows_that_changed_since_are_read_again(project: Project) -> None:
    """Somebody removed a row from the staging of a range: it is not believed."""
    project.written(refresh(source__options={"partitioning": split(workers=1)}))
    broken(project, 99)
    project.execute("r1")
    repaired(project, 99)
    ((table,), *_) = project.target(f"{STAGING} AND estimated_size > 0 ORDER BY table_name")
    project.warehouse(f'DELETE FROM raw."{table}" WHERE id = (SELECT min(id) FROM raw."{table}")')
    again = project.execute("r1")
    assert again.error is None and project.target() == ROWS
    assert step(again, "staged")["partitions_reused"] == 8


def test_another_query_makes_other_partitions(project: Project) -> None:
    query = {"query": {"sql": "SELECT id, name, updated_at FROM orders"}, "partitioning": split(workers=1)}
    project.written(refresh(source__table=None, source__options=query))
    broken(project, 99)
    project.execute("r1")
    repaired(project, 99)
    other = {**query, "query": {"sql": "SELECT id, upper(name) AS name, updated_at FROM orders"}}
    project.written(refresh(source__table=None, source__options=other))
    again = project.execute("r1")
    assert code_of(again) is None
    assert step(again, "staged")["partitions_reused"] == 0
    assert {row[1] for row in project.target()} == {f"N{number}" for number in range(1, 101)}


LINEAGE = {"lineage": {"enabled": True, "preset": "bulk_standard"}}


def test_a_row_carries_the_load_that_staged_it(project: Project) -> None:
    project.written(refresh(source__options={"partitioning": split(workers=1)}, sink__options=LINEAGE))
    broken(project, 99)
    first = project.execute("r1")
    repaired(project, 99)
    again = project.execute("r1")
    assert again.error is None
    by_load = dict(project.target("SELECT __dpone__load_id, count(*) FROM raw.orders GROUP BY ALL"))
    assert set(by_load) == {outcome_of(first).identity.load_id, outcome_of(again).identity.load_id}
    assert by_load[outcome_of(again).identity.load_id] == outcome_of(again).result.extracted_rows
    assert project.target("SELECT DISTINCT __dpone__run_id FROM raw.orders") == [("r1",)]


def test_gates_that_fail_before_the_commit_leave_the_target_and_read_again(project: Project) -> None:
    quality = {**QUALITY, "gates": [{"type": "min_rows", "threshold": 101}]}
    project.written(refresh(quality=quality))
    first = project.execute("r1")
    assert code_of(first) == "DPONE_QUALITY_GATES_FAILED"
    context = outcome_of(first).failure_context()
    assert context is not None and context["failure_boundary"] == "pre_commit"
    assert {status for status, _ in checkpoints(project, "r1")} == {"failed"}
    project.add_orders((101, "n", 1))
    again = project.execute("r1")
    assert again.error is None or code_of(again) == "DPONE_QUALITY_GATES_FAILED"
    assert step(again, "staged")["partitions_reused"] == 0


def test_given_bounds_keep_the_ranges_while_the_source_grows(project: Project) -> None:
    bounds = {"lower": 1, "upper": "1000"}
    project.written(refresh(source__options={"partitioning": split(bounds=bounds)}))
    assert project.execute("r1").error is None
    assert len(checkpoints(project, "r1")) == 10 and len(project.target()) == 100
    project.add_orders((1001, "outside", 1))
    outside = project.execute("r2")
    assert code_of(outside) == "partition_bounds_do_not_cover"
    assert len(project.target()) == 100


@pytest.mark.parametrize(
    ("changes", "code", "path"),
    [
        (
            {"quality": {"acceptance": {"enabled": True, "mode": "required"}}},
            "staged_acceptance_metric_unavailable",
            "quality.acceptance",
        ),
        ({"quality": {"gates": [{"type": "typed_hash_reconciliation"}]}}, "DPONE_ROUTE_REFUSED", "quality.gates"),
        (
            {"source__options": {"partitioning": split(airflow="mapped")}},
            "DPONE_ROUTE_REFUSED",
            "source.options.partitioning.airflow",
        ),
    ],
)
def test_what_a_split_transfer_cannot_do_is_refused_before_it_runs(
    project: Project, changes: Mapping[str, object], code: str, path: str
) -> None:
    project.written(refresh(**changes))
    refused = project.execute("r1")
    problem = refused.refusal
    assert problem is not None
    text = json.dumps(refused.report.as_json())
    assert code in text and path in text.replace('"', "")
    assert not (project.root / "evidence").exists()


def test_a_column_without_ranges_is_refused_by_name(project: Project) -> None:
    project.source("CREATE TABLE odd (id REAL NOT NULL, name TEXT)", "INSERT INTO odd VALUES (1.5, 'a')")
    project.written(refresh(source__table={"name": "odd"}))
    execution = project.execute("r1")
    assert code_of(execution) == "partition_key_unsupported"
    assert outcome_of(execution).failure_context()["target_state"] == "not_mutated"  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("DPONE_TEST_CHDB") == "0", reason="embedded ClickHouse switched off")
@pytest.mark.parametrize("make", [refresh, append], ids=["full_refresh", "incremental_append"])
def test_embedded_clickhouse_resumes_a_killed_transfer(project: Project, make: Any) -> None:
    project.environment["DPONE_CONN_HOUSE"] = f"chdb:///{project.root / 'house'}"
    house = {"sink__type": "clickhouse", "sink__connection_ref": "house"}
    if make is append:
        project.add_orders((101, "waits", 1001))
    options = dict(make()["source"]["options"])
    design = {**LINEAGE, "physical_design": {"order_by": ["id"]}}
    project.written(make(**house, sink__options=design, source__options={**options, "partitioning": split(workers=2)}))
    dies_after(project, "r1", 60)
    again = project.run("--run-id", "r1")
    assert again.exit_code == 0, again.stdout
    assert again.result["inserted_rows"] == again.result["final_rows"] == 100
    assert again.result["extracted_rows"] < 100
    metrics = again.result["details"]["reconciliation_metrics"]["acceptance_metrics"]["snapshots"]
    assert metrics["target"]["row_count"] == 100
    scope = report(project, "r1")["quality_scope"]
    assert (scope["planned_count"], scope["source_rows"], scope["target_rows"]) == (10, 100, 100)


def test_the_plan_says_how_a_load_is_split(project: Project) -> None:
    project.written(append(source__options={**append()["source"]["options"], "partitioning": split()}))  # type: ignore[index]
    (shown,) = plan(project.root / "m.yaml", environment={})
    assert shown["partitioning"] == {
        "column": "id",
        "num_partitions": 9,
        "workers": 2,
        "bounds": "asked",
        "checkpoints": "sink",
        "publication": "range by range",
    }


def test_a_retry_of_the_same_process_resumes(project: Project) -> None:
    """An allowed retry has the same run id, so what is staged is not read again."""
    project.written(refresh(source__options={"partitioning": split(workers=1)}))
    broken(project, 99)

    def repairs(seconds: float) -> None:
        repaired(project, 99)

    execution = project.execute("r1", retry=RetryPolicy(retry_attempts=1, sleep=repairs))
    assert execution.error is None and project.target() == ROWS
    assert step(execution, "staged")["partitions_reused"] == 9
