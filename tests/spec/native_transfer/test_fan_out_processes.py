"""Ranges staged by real processes, some at the same time, one of them killed: every row once, only lost ranges again.

Contract: NAT-20.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpone_core.contracts.receipt_verification import ReceiptExpectation, examine
from dpone_core.contracts.run_spec import RunSpec, RunSpecStep, parse_run_spec
from dpone_core.model.vocabulary import StepKind
from dpone_core.version import __version__
from tests.live.servers import scratch_postgres
from tests.spec.builders import Finished, Project, flow, hook, hooks
from tests.spec.gitops.test_bundles import PLATFORM
from tests.spec.native_transfer.fan_out_process import EVERY, RUN, STAGING, FanOut, fan_out_flow, split

DOUBLE = Path(__file__).parents[2] / "connectors" / "clickhouse_http_double.py"
AT_A_TIME = 3
PATIENCE_SECONDS = 120
SLOW_VIEW = (
    "CREATE TABLE slow (on_ boolean)",
    "INSERT INTO slow VALUES (false)",
    "CREATE VIEW v AS SELECT id, v, at FROM t"
    " WHERE id IS DISTINCT FROM 50 OR NOT (SELECT on_ FROM slow) OR pg_sleep(600) IS NOT NULL",
)
HELD_VIEW = (
    "CREATE FUNCTION held() RETURNS boolean VOLATILE LANGUAGE plpgsql AS"
    " $$ BEGIN PERFORM pg_advisory_lock_shared(7); RETURN true; END $$",
    *(statement.replace("pg_sleep(600) IS NOT NULL", "held()") for statement in SLOW_VIEW),
)
ASLEEP = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"


@pytest.fixture
def fan_out(tmp_path: Path) -> Iterator[FanOut]:
    with scratch_postgres() as uri:
        yield FanOut.at(tmp_path, uri)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, str(DOUBLE), str(tmp_path / "served")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"clickhouse://127.0.0.1:{int(process.stdout.readline())}/default"
        process.kill()


def planned(project: Project) -> tuple[str, int]:
    done = project.dpone("transfer", "plan", "m.yaml", "--run-id", RUN, "--format", "json")
    assert done.exit_code == 0, done.stdout + done.stderr
    return str(done.document["transfer_plan"]), int(done.document["partitions"])


def mapped(plan: str, index: int) -> dict[str, str]:
    """What the scheduler sets for the mapped task of one index."""
    item = {
        "schema": "dpone.airflow-mapping-item.v1",
        "mode": "native_transfer",
        "mapping_plan_fingerprint": plan,
        "item_index": index,
    }
    return {"DPONE_AIRFLOW_MAPPING_ITEM": json.dumps(item), "DPONE_MAP_INDEX": str(index), "DPONE_DAG_RUN_ID": RUN}


def started(project: Project, plan: str, index: int) -> tuple[subprocess.Popen[str], tuple[str, ...]]:
    receipt = str(project.root / f"receipt-{index}.json")
    arguments = ("transfer", "load", "m.yaml", "--format", "json", "--receipt-path", receipt)
    return project.start(*arguments, environment=mapped(plan, index)), arguments


def loaded(project: Project, plan: str, indexes: range) -> list[dict[str, Any]]:
    """The receipts of one process per index, `AT_A_TIME` of them together."""
    receipts: list[dict[str, Any]] = []
    for first in range(indexes.start, indexes.stop, AT_A_TIME):
        together = [started(project, plan, index) for index in range(first, min(first + AT_A_TIME, indexes.stop))]
        for process, arguments in together:
            done = project.finished(process, arguments)
            assert done.exit_code == 0 and done.receipt is not None, done.stdout + done.stderr
            receipts.append(done.receipt)
    return receipts


def published(project: Project, plan: str) -> Finished:
    return project.run("--run-id", RUN, "--partitions", "staged", environment={"DPONE_TRANSFER_PLAN": plan})


@pytest.mark.slow
def test_postgres_sixteen_ranges_and_the_one_of_null_by_processes_of_their_own(fan_out: FanOut) -> None:
    fan_out.project.written(fan_out_flow(source__options={"partitioning": split(num_partitions=16)}))
    plan, partitions = planned(fan_out.project)
    assert partitions == 17
    receipts = loaded(fan_out.project, plan, range(partitions))
    assert [receipt["map_index"] for receipt in receipts] == list(range(17))
    assert sum(receipt["extracted_rows"] for receipt in receipts) == len(EVERY) and not fan_out.has_target()
    done = published(fan_out.project, plan)
    assert done.exit_code == 0 and done.receipt is not None, done.stdout
    assert (done.receipt["extracted_rows"], done.receipt["inserted_rows"]) == (0, len(EVERY))
    assert fan_out.ids() == EVERY and fan_out.sql(STAGING) == []


@pytest.mark.slow
def test_sqlite_into_a_served_clickhouse_by_processes_of_their_own(tmp_path: Path, served: str) -> None:
    import clickhouse_connect

    project = Project(tmp_path, environment={"DPONE_CONN_DWH": served})
    rows = [(number, f"n{number}", number) for number in range(1, 101)]
    project.orders(rows)
    project.written(
        flow(
            source__options={"partitioning": split(num_partitions=16)},
            sink__type="clickhouse",
            quality={"gates": [{"type": "row_count_reconciliation"}]},
        )
    )
    plan, partitions = planned(project)
    receipts = loaded(project, plan, range(partitions))
    assert sum(receipt["extracted_rows"] for receipt in receipts) == 100
    again = loaded(project, plan, range(2))
    assert [receipt["extracted_rows"] for receipt in again] == [0, 0]
    with sqlite3.connect(tmp_path / "shop.sqlite") as source:
        source.execute("DELETE FROM orders")
    source.close()
    done = published(project, plan)
    assert done.exit_code == 0, done.stdout
    port = int(served.rsplit(":", 1)[1].split("/")[0])
    client = clickhouse_connect.get_client(host="127.0.0.1", port=port)
    try:
        assert client.query("SELECT id, name, updated_at FROM raw.orders ORDER BY id").result_rows == rows
        assert client.query("SELECT name FROM system.tables WHERE name LIKE '\\_\\_dpone\\_\\_stg%'").result_rows == []
    finally:
        client.close()


@pytest.mark.slow
def test_the_compiled_steps_hand_each_other_their_receipts(fan_out: FanOut) -> None:
    """As pods run them: every command of the run-spec with the variables that the scheduler gives it."""
    project = fan_out.project
    (project.root / "dpone.yaml").touch()
    pre = [hook("prepare", "UPDATE t SET v = 'x' WHERE id = 1", execution={"airflow": "separate_task"})]
    project.written(fan_out_flow(source__options={"partitioning": split(), **hooks(pre=pre)}))
    project.written(PLATFORM, "platform.yaml")
    assert project.dpone("gitops", "pack", "m.yaml", "--output", "m.pack.json").exit_code == 0
    compiling = ("gitops", "airflow", "run-spec", "m.yaml", "--pack", "m.pack.json", "--platform", "platform.yaml")
    spec = parse_run_spec(project.dpone(*compiling).stdout)
    receipts: dict[str, dict[str, Any]] = {}
    for step in spec.steps:
        expected = ReceiptExpectation(
            dag_id="orders",
            dag_run_id=RUN,
            map_index=-1,
            run_spec_fingerprint=spec.fingerprint,
            pack_fingerprint=spec.pack_fingerprint,
            policy_snapshot_id=spec.policy_snapshot_id,
            step_id=step.step_id,
            kind=step.kind,
            process=spec.process,
            sql_hash=step.hook.sql_hash if step.hook else None,
            dpone_version=__version__,
            transfer_plan=receipts["transfer_plan"]["transfer_plan"] if "transfer_plan" in receipts else None,
        )
        for index in range(receipts["transfer_plan"]["partitions"]) if step.mapped_over else (-1,):
            done = ran(project, spec, step, receipts, index)
            assert done.exit_code == 0, done.stdout + done.stderr
            examination = examine(done.receipt, replace(expected, map_index=index))
            assert examination.is_accepted, (step.step_id, examination.problems)
            assert done.receipt is not None
            receipts[step.step_id] = done.receipt
    assert fan_out.ids() == EVERY and fan_out.sql("SELECT v FROM raw.orders WHERE id = 1") == [("x",)]


def ran(project: Project, spec: RunSpec, step: RunSpecStep, receipts: dict[str, Any], index: int) -> Finished:
    plan = receipts.get("transfer_plan", {}).get("transfer_plan", "")
    environment = {
        "DPONE_STEP_ID": step.step_id,
        "DPONE_DAG_ID": "orders",
        "DPONE_DAG_RUN_ID": RUN,
        "DPONE_RUN_SPEC_FINGERPRINT": spec.fingerprint,
        "DPONE_MAP_INDEX": str(index),
        "DPONE_STEP_RECEIPTS": json.dumps({name: receipts[name] for name in step.receipts_from}),
        **({"DPONE_TRANSFER_PLAN": plan} if step.kind is StepKind.LOAD else {}),
        **(mapped(plan, index) if step.mapped_over else {}),
    }
    path = str(project.root / f"receipt-{step.step_id}-{index}.json")
    return project.dpone(*step.argv[1:-1], path, environment=environment)


def test_a_killed_range_is_the_only_one_that_is_read_again(fan_out: FanOut) -> None:
    fan_out.sql(*SLOW_VIEW)
    fan_out.project.written(fan_out_flow(source__table={"schema": "public", "name": "v"}))
    plan = fan_out.planned()
    for index in (0, 1, 3):
        assert fan_out.load(plan, index).error is None
    fan_out.sql("UPDATE slow SET on_ = true")
    process, arguments = started(fan_out.project, plan, 2)
    sleeping = waited(fan_out)
    process.send_signal(signal.SIGKILL)
    killed = fan_out.project.finished(process, arguments)
    assert killed.exit_code == -signal.SIGKILL and killed.receipt is None
    fan_out.sql("UPDATE slow SET on_ = false", *(f"SELECT pg_terminate_backend({pid})" for pid in sleeping))
    assert [status for status, _ in fan_out.checkpoints()] == ["loaded", "loaded", "planned", "loaded"]
    assert getattr(fan_out.publish(plan).error, "code", None) == "native_transfer_partition_not_staged"
    assert [fan_out.load(plan, index).extracted_rows for index in range(4)] == [0, 0, 33, 0]
    execution = fan_out.publish(plan)
    assert execution.error is None and fan_out.ids() == EVERY and fan_out.sql(STAGING) == []


def test_a_range_that_is_stopped_leaves_its_receipt_and_may_be_repeated(fan_out: FanOut) -> None:
    fan_out.sql(*SLOW_VIEW)
    fan_out.project.written(fan_out_flow(source__table={"schema": "public", "name": "v"}))
    plan = fan_out.planned()
    fan_out.sql("UPDATE slow SET on_ = true")
    process, arguments = started(fan_out.project, plan, 2)
    waited(fan_out)
    process.send_signal(signal.SIGTERM)
    stopped = fan_out.project.finished(process, arguments)
    assert stopped.exit_code == 143 and stopped.receipt is not None
    said = [stopped.receipt[name] for name in ("status", "map_index", "transfer_plan", "retry_classification")]
    assert said == ["interrupted", 2, plan, "retry_before_target_mutation"]
    fan_out.sql("UPDATE slow SET on_ = false")
    assert fan_out.load(plan, 2).extracted_rows == 33


@pytest.mark.slow
def test_two_processes_on_one_range_leave_every_row_once_or_a_range_to_repeat(fan_out: FanOut) -> None:
    """A scheduler that lost sight of a process starts another one; the first goes on when the second has begun."""
    fan_out.sql(*HELD_VIEW)
    fan_out.project.written(fan_out_flow(source__table={"schema": "public", "name": "v"}))
    plan = fan_out.staged(without=2)
    with psycopg.connect(fan_out.uri, autocommit=True) as session:
        session.execute("SELECT pg_advisory_lock(7)")
        fan_out.sql("UPDATE slow SET on_ = true")
        first, first_arguments = started(fan_out.project, plan, 2)
        waited(fan_out, "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        fan_out.sql("UPDATE slow SET on_ = false")
        second, second_arguments = started(fan_out.project, plan, 2)
        with suppress(subprocess.TimeoutExpired):  # it may have to wait for the first
            second.wait(10)
        session.execute("SELECT pg_advisory_unlock(7)")
    ends = [fan_out.project.finished(first, first_arguments), fan_out.project.finished(second, second_arguments)]
    assert 0 in {done.exit_code for done in ends}, [done.stdout for done in ends]
    execution = fan_out.publish(plan)
    if execution.error is not None:
        assert getattr(execution.error, "code", None) == "native_transfer_partition_not_staged"
        assert fan_out.load(plan, 2).error is None and fan_out.publish(plan).error is None
    assert fan_out.ids() == EVERY


def waited(fan_out: FanOut, sql: str = ASLEEP) -> list[int]:
    """Backends that wait in the middle of a range."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not (found := fan_out.sql(sql)):
        assert time.monotonic() < until, "the range was never read"
        time.sleep(0.05)
    return [row[0] for row in found]
