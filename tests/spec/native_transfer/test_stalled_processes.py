"""A process that was given up and wakes up late takes back nothing of what others wrote since: it is refused.

NAT-73, NAT-74: one may stage a range beside another, and COMMITTED and an armed guard stand whatever comes later. ADR
0004.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpone_core.api import RunOptions, RunProcessPorts, execute_run
from dpone_core.errors import DponeError
from dpone_core.evidence.outcome import failure_facts
from dpone_core.invocation import RunArguments
from dpone_core.model.partition import CheckpointStatus, TransferRunState
from dpone_core.model.vocabulary import RetryClassification, TargetState
from dpone_core.native_transfer.checkpoint_table import CheckpointTables
from dpone_core.native_transfer.checkpoints import CheckpointSupersededError
from dpone_core.native_transfer.ledger import TransferLedger
from dpone_core.native_transfer.report import report_path
from dpone_core.ports.control import ControlRow, ControlTable
from dpone_core.testing.fakes import FixedClock, MemoryControlTables, MemoryWarehouse
from dpone_core.use_cases.fan_out import TransferExecution
from dpone_core.wiring.runtime import SilentProgress
from tests.live.servers import scratch_postgres
from tests.spec.builders import code_of, outcome_of
from tests.spec.native_transfer.builders import (
    ROUTE,
    OpenStore,
    checkpoint,
    file_store,
    ledger,
    partitions,
    run,
    table_store,
    transferred,
)
from tests.spec.native_transfer.fan_out_process import RUN, FanOut, fan_out_append_flow
from tests.spec.native_transfer.stalled_processes import (
    Stalls,
    arm_guard_of,
    ledger_of,
    load_with_stall,
    plan_with_stall,
    statuses,
    stored,
)

DOUBLE = Path(__file__).parents[2] / "connectors" / "clickhouse_http_double.py"
SUPERSEDED = "partition_checkpoint_superseded"
LATE = 2


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_postgres() as found:
        yield found


@pytest.fixture(params=["postgres", pytest.param("clickhouse", marks=pytest.mark.slow)])
def fan_out(request: pytest.FixtureRequest, uri: str, tmp_path: Path) -> Iterator[FanOut]:
    """An append of three ranges and the one of NULL keys, all of them planned from PostgreSQL."""
    made = FanOut.at(tmp_path, uri)
    made.sql("INSERT INTO t VALUES (1000, 'waits', 101)")
    if request.param == "postgres":
        made.project.written(fan_out_append_flow())
        yield made
        return
    with subprocess.Popen(
        [sys.executable, str(DOUBLE), str(tmp_path / "served")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        made.project.environment["DPONE_CONN_DWH"] = f"clickhouse://127.0.0.1:{int(process.stdout.readline())}/default"
        made.project.written(fan_out_append_flow(sink__type="clickhouse"))
        yield made
        process.kill()


def code(execution: TransferExecution) -> str | None:
    return getattr(execution.error, "code", None)


def refused_late(execution: TransferExecution) -> None:
    assert code(execution) == SUPERSEDED, execution.error
    assert isinstance(execution.error, DponeError) and execution.error.fix
    assert failure_facts(execution.error).exit_code == 1
    assert execution.retry is RetryClassification.RETRY_BEFORE_TARGET_MUTATION and execution.document is None


def published_without_report(fan_out: FanOut, plan: str) -> None:
    """Every range is staged and committed; then the report fails, so that the run is not complete."""
    assert fan_out.load(plan, LATE).error is None
    blocked = fan_out.project.root / "evidence" / f"{report_path('orders', RUN)}.json"
    (blocked / "in_the_way").mkdir(parents=True)
    execution = fan_out.publish(plan)
    assert outcome_of(execution).retry is RetryClassification.RETRY_VIA_NATIVE_RESUME, execution.error
    (blocked / "in_the_way").rmdir()
    blocked.rmdir()
    assert set(statuses(fan_out)) == {"committed"}


@pytest.mark.parametrize("stalls", list(Stalls))
def test_a_committed_range_stays_so_and_its_rows_come_once(fan_out: FanOut, stalls: Stalls) -> None:
    plan = fan_out.staged(without=LATE)
    late = load_with_stall(fan_out, plan, LATE, lambda: published_without_report(fan_out, plan), stalls)
    if stalls is Stalls.FAILING:
        assert code(late) == "source_unreachable"
    else:
        refused_late(late)
    assert set(statuses(fan_out)) == {"committed"}
    again = fan_out.publish(plan)
    assert code_of(again) is None, again.error
    outcome = outcome_of(again)
    assert (outcome.result.inserted_rows, outcome.result.final_rows) == (0, 101)
    assert fan_out.project.dpone("cleanup", "m.yaml", "--run-id", RUN).exit_code == 0


@pytest.mark.parametrize("stalls", list(Stalls))
def test_an_armed_guard_stays_armed(fan_out: FanOut, stalls: Stalls) -> None:
    plan = fan_out.staged(without=LATE)

    def publication_that_died() -> None:
        assert fan_out.load(plan, LATE).error is None
        arm_guard_of(fan_out, LATE)

    late = load_with_stall(fan_out, plan, LATE, publication_that_died, stalls)
    assert code(late) == ("source_unreachable" if stalls is Stalls.FAILING else SUPERSEDED)
    assert statuses(fan_out)[LATE] == "exported"
    assert code_of(fan_out.publish(plan)) == "native_transfer_manual_reconciliation_required"


@pytest.mark.parametrize("stalls", list(Stalls))
def test_a_plan_that_was_made_anew_takes_nothing_from_the_one_before(fan_out: FanOut, stalls: Stalls) -> None:
    plan = fan_out.staged(without=LATE)

    def planned_anew() -> None:
        assert fan_out.load(plan, LATE).error is None and code_of(fan_out.publish(plan)) is None
        fan_out.sql("INSERT INTO t SELECT i, 'new', i FROM generate_series(2000, 2100) i")
        assert fan_out.planned() != plan

    late = load_with_stall(fan_out, plan, LATE, planned_anew, stalls)
    assert code(late) == ("source_unreachable" if stalls is Stalls.FAILING else SUPERSEDED)
    assert {record.status.value for record in stored(fan_out)} == {"committed", "planned"}


@pytest.mark.parametrize("stalls", list(Stalls))
def test_a_released_run_takes_no_range_any_more(fan_out: FanOut, stalls: Stalls) -> None:
    plan = fan_out.planned()

    def released() -> None:
        done = fan_out.project.dpone(
            *("transfer", "reconcile", "m.yaml", "--run-id", RUN, "--found", "removed", "--reason", "given up")
        )
        assert done.exit_code == 0, done.stdout

    late = load_with_stall(fan_out, plan, LATE, released, stalls)
    assert code(late) == ("source_unreachable" if stalls is Stalls.FAILING else SUPERSEDED)
    assert statuses(fan_out) == ["planned"] * 4


def test_of_two_tries_the_later_one_is_refused_and_the_range_repeated(fan_out: FanOut) -> None:
    """Its rows stand where those of the other try stood: the publication counts them, and asks for the range."""
    plan = fan_out.staged(without=LATE)

    def staged_by_another() -> None:
        assert fan_out.load(plan, LATE).staged_rows == 33
        fan_out.sql("INSERT INTO t VALUES (50, 'twice', 50)")

    refused_late(load_with_stall(fan_out, plan, LATE, staged_by_another, Stalls.STAGING))
    assert statuses(fan_out) == ["loaded"] * 4
    assert code_of(fan_out.publish(plan)) == "native_transfer_partition_not_staged"
    assert fan_out.load(plan, LATE).extracted_rows == 34
    execution = fan_out.publish(plan)
    assert code_of(execution) is None and outcome_of(execution).result.inserted_rows == 102


def test_a_range_that_was_staged_anew_behind_the_gates_is_not_published(fan_out: FanOut) -> None:
    plan = fan_out.staged()
    with ledger_of(fan_out) as late:
        first, *_ = late.run.plan.partitions(late.run.route, late.run.plan.query_hash, late.run.plan.schema_hash)

        class Restaged(SilentProgress):
            def phase(self, name: str) -> None:
                if name == "finalize":
                    record = late.latest[first.id]
                    late.append([replace(record, started_at=record.started_at.replace(year=2001))])

        execution = execute_run(
            fan_out.project.root / "m.yaml",
            RunOptions(arguments=RunArguments(run_id=RUN, transfer_plan=plan), partitions="staged"),
            environment=fan_out.project.environment,
            project_dir=fan_out.project.root,
            ports=RunProcessPorts(progress=Restaged()),
        )
    assert code_of(execution) == SUPERSEDED, execution.error
    assert outcome_of(execution).target_state is TargetState.NOT_MUTATED
    assert statuses(fan_out) == ["loaded"] * 4
    assert code_of(fan_out.publish(plan)) is None


@pytest.mark.parametrize("make", [file_store, table_store], ids=["file", "table"])
def test_a_record_takes_the_place_of_the_one_its_writer_knew(make: Callable[[Path], OpenStore], tmp_path: Path) -> None:
    opened = make(tmp_path)
    first, second, third = partitions()
    early = ledger(opened())
    with pytest.raises(CheckpointSupersededError):
        opened().save_run(run(), None)
    late = TransferLedger(store=opened(), run=early.run, clock=early.clock, latest=dict(early.latest))
    early.record_loaded(transferred(first))
    with pytest.raises(CheckpointSupersededError):
        late.record_loaded(transferred(first, 9))
    with pytest.raises(CheckpointSupersededError):
        late.record_failed(first, "source_unreachable")
    guard_commit = late.guard_commit([transferred(second), transferred(first)], {})
    with pytest.raises(CheckpointSupersededError):
        guard_commit.arm()
    guard_commit.mark_refused(SUPERSEDED)  # nothing was handed over
    with pytest.raises(CheckpointSupersededError):
        opened().append(ROUTE, "r1", [checkpoint(third)], {third.id: ()})
    found = {record.partition_id: record for record in opened().latest(ROUTE, "r1")}
    assert found[first.id].rows_exported == 2 and found[second.id].status is CheckpointStatus.PLANNED


class _Between(MemoryControlTables):
    """Somebody writes between what is read next and what is written after it."""

    then: Callable[[], None] | None = None

    def read(self, table: ControlTable, where: ControlRow) -> tuple[ControlRow, ...]:
        found = super().read(table, where)
        act, self.then = self.then, None
        if act is not None:
            act()
        return found


def test_a_checkpoint_that_came_between_the_look_and_the_write_stands() -> None:
    warehouse = MemoryWarehouse()
    control = _Between(warehouse)
    slow = CheckpointTables(control=control, schema="etl_state", clock=FixedClock())
    quick = CheckpointTables(control=MemoryControlTables(warehouse), schema="etl_state", clock=FixedClock())
    first, *_ = partitions()
    planned, committed = checkpoint(first, CheckpointStatus.PLANNED), checkpoint(first, CheckpointStatus.COMMITTED)
    released = replace(run(), state=TransferRunState.RELEASED)
    quick.save_run(run(), None)
    quick.append(ROUTE, "r1", [planned])
    control.then = lambda: quick.append(ROUTE, "r1", [committed], {first.id: (planned,)})
    with pytest.raises(CheckpointSupersededError):
        slow.append(ROUTE, "r1", [checkpoint(first, CheckpointStatus.LOADED)], {first.id: (planned,)})
    control.then = lambda: quick.save_run(released, run())
    with pytest.raises(CheckpointSupersededError):
        slow.save_run(replace(run(), state=TransferRunState.COMPLETE), run())
    assert quick.latest(ROUTE, "r1") == (committed,) and quick.run(ROUTE, "r1") == released


def test_a_guard_is_armed_only_in_a_run_that_is_still_open(tmp_path: Path) -> None:
    opened = file_store(tmp_path)
    first, *_ = partitions()
    made = ledger(opened())
    made.record_loaded(transferred(first))
    opened().save_run(replace(run(), state=TransferRunState.RELEASED), run())
    with pytest.raises(CheckpointSupersededError):
        made.guard_commit([transferred(first)], {}).arm()
    assert {record.status for record in opened().latest(ROUTE, "r1")} == {"loaded", "planned"}


def test_who_finds_its_range_taken_over_touches_no_staging(fan_out: FanOut) -> None:
    plan = fan_out.staged(without=LATE)

    def staged_by_another() -> None:
        assert fan_out.load(plan, LATE).staged_rows == 33
        fan_out.sql("INSERT INTO t VALUES (50, 'twice', 50)")

    refused_late(load_with_stall(fan_out, plan, LATE, staged_by_another, Stalls.HAVING_READ))
    execution = fan_out.publish(plan)
    assert code_of(execution) is None and outcome_of(execution).result.inserted_rows == 101


def test_a_late_plan_takes_nothing_back(fan_out: FanOut) -> None:
    """It counted its ranges before the source grew; the plan that was made meanwhile stands."""
    plans: list[str] = []

    def planned_by_another() -> None:
        fan_out.sql("INSERT INTO t VALUES (2000, 'new', 200)")
        plans.append(fan_out.planned())

    late = plan_with_stall(fan_out, planned_by_another)
    assert code(late) == SUPERSEDED, late.error
    with ledger_of(fan_out) as standing:
        assert [standing.run.plan_fingerprint] == plans
