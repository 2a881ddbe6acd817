"""A run whose ranges are all committed says success only while the target shows what it has published.

NAT-72: an older full refresh repeated by hand or by a scheduler, after another one has replaced the target.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import duckdb
import pytest

from dpone_core.api import RunExecution
from dpone_core.model.vocabulary import Boundary, RetryClassification, TargetState
from dpone_core.native_transfer.report import report_path
from tests.live.servers import scratch_postgres
from tests.marks import first_quick
from tests.spec.builders import Project, code_of, outcome_of, project_with_orders
from tests.spec.native_transfer.fan_out_process import EVERY, FanOut, fan_out_append_flow
from tests.spec.native_transfer.test_legacy_ranges import into_files
from tests.spec.native_transfer.test_replaced_ranges import filled, held, replaced
from tests.spec.native_transfer.test_transfers import ROWS, refresh

OTHER_MARKER = "[dpone 0123456789abcdef]"


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_postgres() as found:
        yield found


@pytest.fixture
def fan_out(uri: str, tmp_path: Path) -> FanOut:
    return FanOut.at(tmp_path, uri)


@pytest.fixture(name="project")
def hundred_orders(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path, rows=ROWS)


def committed_without_report(project: Project, run_id: str) -> None:
    """The run has published every range and stays open, for its report could not be written."""
    blocked = project.root / "evidence" / f"{report_path('orders', run_id)}.json"
    (blocked / "in_the_way").mkdir(parents=True)
    first = project.execute(run_id)
    assert outcome_of(first).retry is RetryClassification.RETRY_VIA_NATIVE_RESUME
    shutil.rmtree(blocked)


def is_refused(execution: RunExecution) -> None:
    assert code_of(execution) == "native_transfer_target_replaced", execution.error
    outcome = outcome_of(execution)
    assert (outcome.boundary, outcome.target_state) == (Boundary.RESUME_VALIDATION, TargetState.NOT_MUTATED)
    assert outcome.retry is RetryClassification.OPERATOR_VERIFICATION_REQUIRED
    assert "another run id" in str(getattr(execution.error, "fix", ""))


@pytest.mark.parametrize("newer", ["staged", "by_hand"])
def test_an_older_run_is_not_validated_against_what_replaced_it(fan_out: FanOut, newer: str) -> None:
    plan = fan_out.staged()
    assert code_of(fan_out.publish(plan)) is None
    fan_out.sql("DELETE FROM t WHERE id > 50")
    replacing = (
        fan_out.publish(fan_out.staged("newer"), "newer") if newer == "staged" else fan_out.project.execute("newer")
    )
    assert code_of(replacing) is None
    fan_out.sql("INSERT INTO t SELECT i, 'v', i FROM generate_series(51, 100) i")
    is_refused(fan_out.publish(plan))
    assert len(fan_out.ids()) == 51
    assert code_of(fan_out.publish(fan_out.staged())) is None and fan_out.ids() == EVERY  # planned anew, it loads


def test_a_target_that_somebody_emptied_and_filled_is_not_taken_for_this_run_s(fan_out: FanOut) -> None:
    plan = fan_out.staged()
    assert code_of(fan_out.publish(plan)) is None
    fan_out.sql("CREATE TABLE raw.kept (LIKE raw.orders INCLUDING DEFAULTS)", "INSERT INTO raw.kept TABLE raw.orders")
    fan_out.sql("DROP TABLE raw.orders", "ALTER TABLE raw.kept RENAME TO orders")
    is_refused(fan_out.publish(plan))


def test_a_run_without_rows_has_no_marker_and_is_told_by_who_committed_later(fan_out: FanOut) -> None:
    fan_out.sql("TRUNCATE t")
    plan = fan_out.staged()
    assert code_of(fan_out.publish(plan)) is None and code_of(fan_out.publish(plan)) is None
    assert code_of(fan_out.project.execute("newer")) is None
    is_refused(fan_out.publish(plan))


def test_an_append_is_validated_although_another_process_has_appended_since(fan_out: FanOut) -> None:
    fan_out.project.written(fan_out_append_flow())
    plan = fan_out.staged()
    assert code_of(fan_out.publish(plan)) is None
    fan_out.sql(f"COMMENT ON TABLE raw.orders IS '{OTHER_MARKER}'")
    again = fan_out.publish(plan)
    assert code_of(again) is None, again.error
    assert outcome_of(again).result.inserted_rows == 0


@pytest.mark.parametrize("sink", first_quick(["duckdb", "clickhouse"]))
def test_an_open_run_in_one_process_is_held_to_the_same(project: Project, sink: str) -> None:
    if sink == "clickhouse" and os.environ.get("DPONE_TEST_CHDB") == "0":
        pytest.skip("embedded ClickHouse switched off")
    house = {"sink__type": "clickhouse", "sink__connection_ref": "house"} if sink == "clickhouse" else {}
    project.environment["DPONE_CONN_HOUSE"] = f"chdb:///{project.root / 'house'}"
    project.written(refresh(**house))
    committed_without_report(project, "first")
    resumed = project.execute("first")
    assert code_of(resumed) is None, resumed.error
    committed_without_report(project, "older")
    project.add_orders((0, "late", 5))
    assert code_of(project.execute("newer")) is None
    is_refused(project.execute("older"))
    assert code_of(project.execute("newest")) is None


def test_an_older_replacement_of_partitions_is_not_validated_either(project: Project) -> None:
    filled(project, [(number, date(2024, 1 + number, 1)) for number in range(9)])
    project.written(replaced())
    committed_without_report(project, "older")
    resumed = project.execute("older")
    assert code_of(resumed) is None, resumed.error
    committed_without_report(project, "once-more")
    before = held(project)
    with duckdb.connect(project.root / "dwh.duckdb") as target:
        target.execute(f"COMMENT ON TABLE raw.orders IS '{OTHER_MARKER}'")
    assert code_of(project.execute("once-more")) == "native_transfer_target_replaced"
    assert held(project) == before


def test_files_that_are_gone_are_noticed(project: Project) -> None:
    project.environment["DPONE_CONN_LAKE"] = f"file:///{project.root / 'lake'}"
    project.add_orders((101, "waits", 1001))
    project.written(into_files())
    committed_without_report(project, "whole")
    assert code_of(project.execute("whole")) is None
    project.add_orders(*((number, "more", number * 10) for number in range(102, 200)))
    committed_without_report(project, "older")
    newest = max((project.root / "lake/raw/orders").glob("part-*"), key=lambda path: path.stat().st_mtime_ns)
    newest.unlink()
    is_refused(project.execute("older"))
