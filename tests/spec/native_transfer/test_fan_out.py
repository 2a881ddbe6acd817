"""A run whose ranges are staged by processes of their own publishes exactly the plan, wholly staged, or nothing.

Plan, one load per range, one publish that reads no rows: NAT-17, NAT-18, NAT-19, NAT-21, NAT-54, NAT-55.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpone_core.api import check
from dpone_core.errors import ETLConfigurationError
from dpone_core.model.vocabulary import Boundary, RetryClassification, TargetState
from dpone_core.native_transfer.report import report_path
from tests.live.servers import scratch_postgres
from tests.spec.builders import code_of, hook, hooks, outcome_of
from tests.spec.native_transfer.fan_out_process import (
    EVERY,
    RUN,
    STAGING,
    FanOut,
    fan_out_append_flow,
    fan_out_flow,
    split,
)

FOREIGN = "sha256:" + "f" * 64


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_postgres() as found:
        yield found


@pytest.fixture
def fan_out(uri: str, tmp_path: Path) -> FanOut:
    return FanOut.at(tmp_path, uri)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(ETLConfigurationError) as raised:
        act()
    return raised.value.code


def refused_code(execution: object) -> str:
    error = getattr(execution, "error", None)
    assert isinstance(error, ETLConfigurationError)
    return error.code


def test_what_was_planned_and_staged_is_published_without_reading_a_row(fan_out: FanOut) -> None:
    planned = fan_out.plan()
    plan = planned.transfer_plan
    assert planned.error is None and plan is not None and planned.partitions == 4
    assert fan_out.checkpoints() == [("planned", None)] * 4 and not fan_out.has_target()
    loads = [fan_out.load(plan, index) for index in range(4)]
    assert [load.extracted_rows for load in loads] == [1, 33, 33, 34]
    assert fan_out.checkpoints() == [("loaded", 1), ("loaded", 33), ("loaded", 33), ("loaded", 34)]
    assert not fan_out.has_target()
    execution = fan_out.publish(plan)
    assert code_of(execution) is None, execution.error
    assert fan_out.ids() == EVERY and fan_out.sql(STAGING) == []
    result = outcome_of(execution).result
    assert (result.extracted_rows, result.staged_rows, result.inserted_rows) == (0, 101, 101)
    assert (outcome_of(execution).transfer_plan, outcome_of(execution).partitions) == (plan, 4)
    assert {status for status, _ in fan_out.checkpoints()} == {"committed"}
    (report,) = fan_out.project.root.glob("evidence/native_transfer/orders/*.json")
    assert json.loads(report.read_text("utf-8"))["consistency"] == "none"


def test_a_plan_that_is_made_again_under_its_run_id_is_the_same(fan_out: FanOut) -> None:
    plan = fan_out.planned()
    fan_out.load(plan, 1)
    fan_out.sql("INSERT INTO t VALUES (900, 'late', 900)")
    again = fan_out.plan()
    assert (again.transfer_plan, again.document and again.document["resumed"]) == (plan, True)
    assert fan_out.checkpoints()[1] == ("loaded", 33)
    assert fan_out.planned("another") != plan


def test_a_column_that_came_to_the_source_is_staged_by_the_ranges_and_added_with_their_rows(fan_out: FanOut) -> None:
    fan_out.sql("CREATE SCHEMA raw", "CREATE TABLE raw.orders (id int8, v text, at int8 NOT NULL)")
    fan_out.sql("INSERT INTO raw.orders VALUES (7, 'old', 7)")
    fan_out.project.written(fan_out_append_flow(sink__options={"schema_evolution": "add_columns"}))
    fan_out.sql("ALTER TABLE t ADD COLUMN note text DEFAULT 'new'")
    plan = fan_out.staged()
    assert fan_out.sql("SELECT * FROM raw.orders") == [(7, "old", 7)]
    assert code_of(fan_out.publish(plan)) is None
    assert fan_out.sql("SELECT note, count(*) FROM raw.orders GROUP BY 1 ORDER BY 1") == [("new", 100), (None, 1)]


def test_an_empty_source_is_one_range_and_a_real_result(fan_out: FanOut) -> None:
    fan_out.sql("TRUNCATE t")
    planned = fan_out.plan()
    assert planned.partitions == 1
    done = fan_out.load(planned.transfer_plan, 0)
    assert (done.error, done.extracted_rows, done.staged_rows) == (None, 0, 0)
    assert code_of(fan_out.publish(planned.transfer_plan)) is None and fan_out.ids() == []


def test_a_range_that_is_staged_is_not_read_again(fan_out: FanOut) -> None:
    plan = fan_out.planned()
    assert fan_out.load(plan, 2).extracted_rows == 33
    again = fan_out.load(plan, 2)
    assert (again.error, again.extracted_rows, again.staged_rows) == (None, 0, 33)
    assert again.document is not None and again.document["state"] == "reused"


@pytest.mark.parametrize("missing", [0, 3])
def test_a_range_that_is_not_staged_is_named_and_nothing_is_published(fan_out: FanOut, missing: int) -> None:
    fan_out.sql("CREATE SCHEMA raw", "CREATE TABLE raw.orders (id int8, v text, at int8 NOT NULL)")
    fan_out.sql("INSERT INTO raw.orders VALUES (7, 'old', 7)")
    plan = fan_out.staged(without=missing)
    execution = fan_out.publish(plan)
    assert code_of(execution) == "native_transfer_partition_not_staged"
    assert f"index {missing}" in str(execution.error) and "clear" in (getattr(execution.error, "fix", "") or "")
    outcome = outcome_of(execution)
    assert (outcome.boundary, outcome.target_state) == (Boundary.PRE_COMMIT, TargetState.NOT_MUTATED)
    assert outcome.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    assert outcome.result.extracted_rows in (0, None) and fan_out.ids() == [7]
    assert fan_out.load(plan, missing).error is None
    assert code_of(fan_out.publish(plan)) is None and fan_out.ids() == EVERY


@pytest.mark.parametrize("tampering", ["INSERT INTO {} SELECT * FROM {} LIMIT 1", "DELETE FROM {}", "DROP TABLE {}"])
def test_staging_that_does_not_hold_what_was_counted_is_not_published(fan_out: FanOut, tampering: str) -> None:
    plan = fan_out.staged()
    tables = [f'raw."{row[0]}"' for row in fan_out.sql(STAGING)]
    (table,) = [name for name in tables if fan_out.sql(f"SELECT count(*) FROM {name}") == [(34,)]]
    fan_out.sql(tampering.format(table, table))
    execution = fan_out.publish(plan)
    assert code_of(execution) == "native_transfer_partition_not_staged" and "index 3" in str(execution.error)
    assert not fan_out.has_target()
    assert fan_out.load(plan, 3).extracted_rows == 34
    assert code_of(fan_out.publish(plan)) is None and fan_out.ids() == EVERY


def test_a_foreign_plan_is_neither_staged_nor_published(fan_out: FanOut) -> None:
    plan = fan_out.staged()
    assert refused_code(fan_out.load(FOREIGN, 1)) == "DPONE_TRANSFER_PARTITION_REFUSED"
    assert refused_code(fan_out.load(plan, 4)) == "DPONE_TRANSFER_PARTITION_REFUSED"
    assert refused_code(fan_out.load(plan, 1, "another")) == "DPONE_TRANSFER_PARTITION_REFUSED"
    execution = fan_out.publish(FOREIGN)
    assert code_of(execution) == "native_transfer_plan_mismatch" and not fan_out.has_target()
    assert outcome_of(execution).retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    assert code_of(fan_out.publish(plan, "another")) == "native_transfer_plan_mismatch"


def test_whoever_publishes_or_stages_must_be_told_which_plan(fan_out: FanOut) -> None:
    fan_out.planned()
    assert code_of(fan_out.publish(None)) == "DPONE_TRANSFER_PLAN_MISSING"
    assert refusal(lambda: fan_out.load(None, 1)) == "DPONE_TRANSFER_PLAN_MISSING"
    assert refusal(lambda: fan_out.load(None, None)) == "DPONE_AIRFLOW_MAPPING_ITEM_MISSING"
    assert refusal(lambda: fan_out.load("sha256:1", 1)) == "DPONE_TRANSFER_PLAN_INVALID"


def mapping_item(plan: str, index: object, **changes: object) -> dict[str, str]:
    item = {
        "schema": "dpone.airflow-mapping-item.v1",
        "mode": "native_transfer",
        "mapping_plan_fingerprint": plan,
        "item_index": index,
        **changes,
    }
    return {"DPONE_AIRFLOW_MAPPING_ITEM": json.dumps(item)}


def test_a_mapped_task_stages_the_range_of_its_own_index(fan_out: FanOut) -> None:
    plan = fan_out.planned()
    done = fan_out.load(None, None, environment={**mapping_item(plan, 3), "DPONE_MAP_INDEX": "3"})
    assert (done.error, done.staged_rows, done.transfer_plan) == (None, 34, plan)
    foreign = {**mapping_item(plan, 3), "DPONE_MAP_INDEX": "2"}
    assert refusal(lambda: fan_out.load(None, None, environment=foreign)) == "DPONE_AIRFLOW_MAPPING_ITEM_FOREIGN"
    assert refusal(lambda: fan_out.load(plan, 1, environment=foreign)) == "DPONE_AIRFLOW_MAPPING_ITEM_FOREIGN"
    assert [status for status, _ in fan_out.checkpoints()] == ["planned", "planned", "planned", "loaded"]


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "backfill"},
        {"item_index": True},
        {"item_index": -1},
        {"item_index": "1"},
        {"mapping_plan_fingerprint": None},
        {"mapping_plan_fingerprint": "sha256:1"},
    ],
)
def test_a_mapping_item_that_names_no_range_is_refused(fan_out: FanOut, changes: dict[str, object]) -> None:
    item = mapping_item(FOREIGN, 1, **changes)
    assert refusal(lambda: fan_out.load(None, None, environment=item)) == "DPONE_AIRFLOW_MAPPING_ITEM_INVALID"


@pytest.mark.parametrize("when", ["before_loads", "before_publish"])
def test_a_source_whose_columns_changed_since_the_plan_is_refused(fan_out: FanOut, when: str) -> None:
    plan = fan_out.planned() if when == "before_loads" else fan_out.staged()
    fan_out.sql("ALTER TABLE t ADD COLUMN more int8")
    assert refused_code(fan_out.load(plan, 1)) == "DPONE_TRANSFER_PARTITION_REFUSED"
    assert code_of(fan_out.publish(plan)) == "native_transfer_plan_mismatch" and not fan_out.has_target()
    anew = fan_out.planned()
    assert anew != plan
    assert fan_out.load(plan, 1).error is not None and fan_out.load(anew, 1).error is None


def test_a_second_publication_only_validates(fan_out: FanOut) -> None:
    plan = fan_out.staged()
    assert code_of(fan_out.publish(plan)) is None
    again = fan_out.publish(plan)
    assert code_of(again) is None and fan_out.ids() == EVERY
    assert outcome_of(again).result.inserted_rows == 0
    assert {step.step_id for step in outcome_of(again).steps}.isdisjoint({"staged", "finalized"})


def test_a_commit_whose_report_failed_is_only_validated_and_its_ranges_are_not_read_again(fan_out: FanOut) -> None:
    plan = fan_out.staged()
    blocked = fan_out.project.root / "evidence" / f"{report_path('orders', RUN)}.json"
    (blocked / "in_the_way").mkdir(parents=True)
    first = fan_out.publish(plan)
    assert code_of(first) is not None and fan_out.ids() == EVERY
    assert outcome_of(first).retry is RetryClassification.RETRY_VIA_NATIVE_RESUME
    again = fan_out.load(plan, 3)
    assert (again.error, again.extracted_rows, again.staged_rows) == (None, 0, 34)
    assert again.document is not None and again.document["state"] == "committed"
    (blocked / "in_the_way").rmdir()
    blocked.rmdir()
    second = fan_out.publish(plan)
    assert code_of(second) is None, second.error
    assert fan_out.ids() == EVERY and outcome_of(second).result.inserted_rows == 0


def test_an_append_that_was_published_in_part_goes_on_with_what_is_missing(fan_out: FanOut) -> None:
    fan_out.project.written(fan_out_append_flow(quality={"gates": [{"type": "row_count_reconciliation"}]}))
    fan_out.sql("CREATE SCHEMA raw", "CREATE TABLE raw.orders (id int8 CHECK (id < 50), v text, at int8 NOT NULL)")
    plan = fan_out.staged()
    first = fan_out.publish(plan)
    assert code_of(first) is not None and len(fan_out.ids()) == 34
    assert [status for status, _ in fan_out.checkpoints()] == ["committed", "committed", "failed", "loaded"]
    fan_out.sql("ALTER TABLE raw.orders DROP CONSTRAINT orders_id_check")
    assert code_of(fan_out.publish(plan)) == "native_transfer_partition_not_staged"
    assert [fan_out.load(plan, index).extracted_rows for index in range(4)] == [0, 0, 33, 0]
    second = fan_out.publish(plan)
    assert code_of(second) is None, second.error
    assert len(fan_out.ids()) == 100 and outcome_of(second).result.inserted_rows == 66


def test_a_run_that_finished_takes_no_range_until_it_is_planned_anew(fan_out: FanOut) -> None:
    plan = fan_out.staged()
    assert code_of(fan_out.publish(plan)) is None
    assert refused_code(fan_out.load(plan, 1)) == "DPONE_TRANSFER_PARTITION_REFUSED"
    fan_out.sql("UPDATE t SET v = 'changed' WHERE id = 1")
    anew = fan_out.planned()
    assert fan_out.checkpoints() == [("planned", None)] * 4
    assert code_of(fan_out.publish(anew)) == "native_transfer_partition_not_staged"
    for index in range(4):
        assert fan_out.load(anew, index).extracted_rows
    assert code_of(fan_out.publish(anew)) is None
    assert fan_out.sql("SELECT v FROM raw.orders WHERE id = 1") == [("changed",)]


def test_an_append_keeps_the_window_of_its_plan(fan_out: FanOut) -> None:
    fan_out.project.written(fan_out_append_flow())
    plan = fan_out.planned()
    fan_out.sql("INSERT INTO t VALUES (50, 'late', 500)")
    loads = [fan_out.load(plan, index) for index in range(4)]
    assert sum(load.staged_rows or 0 for load in loads) == 100  # the newest cursor value waits
    assert code_of(fan_out.publish(plan)) is None and len(fan_out.ids()) == 100
    assert fan_out.sql("SELECT cursor_value FROM etl_state.__dpone__cursor_state") == [("100",)]
    assert fan_out.staged("next") != plan
    assert code_of(fan_out.publish(fan_out.planned("next"), "next")) is None
    assert sorted(row[0] for row in fan_out.sql("SELECT at FROM raw.orders")) == list(range(101))
    assert code_of(fan_out.publish(plan)) == "native_transfer_plan_mismatch"  # another run went on from there


def test_a_released_run_is_neither_staged_nor_published(fan_out: FanOut) -> None:
    plan = fan_out.staged()
    released = fan_out.project.dpone(
        *("transfer", "reconcile", "m.yaml", "--run-id", RUN, "--found", "removed", "--reason", "given up")
    )
    assert released.exit_code == 0, released.stdout
    assert refused_code(fan_out.load(plan, 1)) == "DPONE_TRANSFER_PARTITION_REFUSED"
    assert code_of(fan_out.publish(plan)) == "native_transfer_plan_mismatch" and not fan_out.has_target()


def test_another_load_in_between_is_found_by_its_cursor(fan_out: FanOut) -> None:
    fan_out.project.written(fan_out_append_flow())
    plan = fan_out.planned()
    assert code_of(fan_out.project.execute("other")) is None
    load = fan_out.load(plan, 1)
    assert getattr(load.error, "code", None) == "native_transfer_cursor_moved"
    assert load.retry is RetryClassification.OPERATOR_VERIFICATION_REQUIRED
    assert code_of(fan_out.publish(plan)) == "native_transfer_cursor_moved"


def test_a_row_that_cannot_be_read_fails_its_own_range(fan_out: FanOut) -> None:
    fan_out.sql("ALTER TABLE t ADD COLUMN d date", "UPDATE t SET d = 'infinity' WHERE id = 50")
    plan = fan_out.planned()
    failed = fan_out.load(plan, 2)
    assert getattr(failed.error, "code", None) == "source_value_out_of_range"
    assert failed.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    assert (failed.transfer_plan, failed.partitions) == (plan, 4)
    assert fan_out.load(plan, 1).error is None
    assert [status for status, _ in fan_out.checkpoints()] == ["planned", "loaded", "failed", "planned"]
    fan_out.sql("UPDATE t SET d = NULL")
    assert fan_out.load(plan, 2).extracted_rows == 33


def test_by_hand_such_a_manifest_runs_in_one_process(fan_out: FanOut) -> None:
    assert code_of(fan_out.project.execute("by-hand")) is None
    assert fan_out.ids() == EVERY


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"source__options": {"partitioning": split(checkpoints="file")}}, "source.options.partitioning.checkpoints"),
        ({"sink__type": "duckdb"}, "source.options.partitioning.airflow"),
        (
            {"source__options": {"partitioning": split(), **hooks(pre=[hook("prepare", "UPDATE t SET v = 'x'")])}},
            "source.options.hooks.pre_hook",
        ),
    ],
)
def test_what_processes_cannot_share_is_refused_before_it_runs(
    fan_out: FanOut, changes: dict[str, object], path: str
) -> None:
    fan_out.project.written(fan_out_flow(**changes))
    (problem,) = check(fan_out.project.root / "m.yaml", project_dir=fan_out.project.root).errors
    assert (problem.code, problem.path) == ("DPONE_ROUTE_REFUSED", path)
    assert refusal(fan_out.plan) == "DPONE_ROUTE_REFUSED"


def test_pre_hooks_are_taken_by_receipt_or_not_at_all(fan_out: FanOut) -> None:
    separate = hook("prepare", "UPDATE t SET v = 'x'", execution={"airflow": "separate_task"})
    fan_out.project.written(fan_out_flow(source__options={"partitioning": split(), **hooks(pre=[separate])}))
    assert refusal(fan_out.plan) == "DPONE_ROUTE_REFUSED"
    assert refusal(lambda: fan_out.plan(separate_hooks="receipts")) == "DPONE_RECEIPT_REQUIRED"
    assert code_of(fan_out.publish(FOREIGN)) == "DPONE_ROUTE_REFUSED"
    assert fan_out.sql("SELECT count(*) FROM t WHERE v = 'x'") == [(0,)]


def test_an_embedded_engine_is_no_sink_of_several_processes(fan_out: FanOut, tmp_path: Path) -> None:
    fan_out.project.environment["DPONE_CONN_DWH"] = f"chdb:///{tmp_path / 'house'}"
    fan_out.project.written(fan_out_flow(sink__type="clickhouse"))
    assert refusal(fan_out.plan) == "DPONE_ROUTE_REFUSED"
    assert refusal(lambda: fan_out.load(FOREIGN, 1)) == "DPONE_ROUTE_REFUSED"
    assert code_of(fan_out.publish(FOREIGN)) == "DPONE_ROUTE_REFUSED"


def test_every_exit_leaves_the_receipt_of_its_step(fan_out: FanOut) -> None:
    project, receipt = fan_out.project, fan_out.project.root / "receipt.json"
    common = ("m.yaml", "--run-id", RUN, "--format", "json", "--receipt-path", str(receipt))
    planned = project.dpone("transfer", "plan", *common)
    assert planned.exit_code == 0 and planned.receipt is not None, planned.stdout
    plan = planned.document["transfer_plan"]
    assert (planned.receipt["kind"], planned.receipt["transfer_plan"]) == ("transfer_plan", plan)
    assert (planned.receipt["partitions"], planned.receipt["status"]) == (4, "succeeded")
    loaded = project.dpone("transfer", "load", *common, "--partition", "1", "--transfer-plan", plan)
    assert loaded.exit_code == 0 and loaded.receipt is not None
    assert (loaded.receipt["kind"], loaded.receipt["transfer_plan"]) == ("transfer_partition", plan)
    assert (loaded.receipt["extracted_rows"], loaded.receipt["staged_rows"]) == (33, 33)
    refused = project.dpone("transfer", "load", *common, "--partition", "9", "--transfer-plan", plan)
    assert refused.exit_code == 2 and refused.receipt is not None and refused.code == refused.receipt["error_code"]
    assert (refused.receipt["kind"], refused.receipt["status"]) == ("transfer_partition", "refused")
    published = project.dpone("run", *common, "--partitions", "staged", environment={"DPONE_TRANSFER_PLAN": plan})
    assert published.exit_code == 1 and published.receipt is not None
    assert published.receipt["error_code"] == "native_transfer_partition_not_staged"
    assert published.receipt["retry_classification"] == "retry_before_target_mutation"
    assert (published.receipt["transfer_plan"], published.receipt["partitions"]) == (plan, 4)
    for index in (0, 2, 3):
        fan_out.load(plan, index)
    published = project.dpone("run", *common, "--partitions", "staged", "--transfer-plan", plan)
    assert published.exit_code == 0 and published.receipt is not None
    assert (published.receipt["transfer_plan"], published.receipt["partitions"]) == (plan, 4)
    usage = project.dpone("run", *common, "--transfer-plan", plan)
    assert (usage.exit_code, usage.code) == (2, "DPONE_USAGE")


def test_a_finished_run_that_is_planned_again_stands_in_nobodys_way(fan_out: FanOut) -> None:
    """What an earlier plan under its run id has published is whole: none of it is a part of the new one."""
    fan_out.project.written(fan_out_append_flow(sink__options={"schema_evolution": "add_columns"}))
    fan_out.sql("INSERT INTO t VALUES (1000, 'waits', 101)")
    plan = fan_out.staged()
    assert code_of(fan_out.publish(plan)) is None
    fan_out.sql("INSERT INTO t SELECT i, 'new', i FROM generate_series(2000, 2100) i")
    assert fan_out.planned() != plan
    assert fan_out.plan("other").error is None
    fan_out.sql("ALTER TABLE t ADD COLUMN more int8")
    assert getattr(fan_out.plan().error, "code", None) != "native_transfer_workload_changed"


def test_a_range_that_failed_says_so_in_its_audit_row(fan_out: FanOut) -> None:
    fan_out.sql("ALTER TABLE t ADD COLUMN d date", "UPDATE t SET d = 'infinity' WHERE id = 50")
    plan = fan_out.planned()
    assert fan_out.load(plan, 2).error is not None and fan_out.load(plan, 1).error is None
    fan_out.load(plan, 9)
    rows = fan_out.sql("SELECT status, error_message FROM etl_state.__dpone__loads ORDER BY status")
    assert rows == [("failed", "source_value_out_of_range"), ("staged", None)]
