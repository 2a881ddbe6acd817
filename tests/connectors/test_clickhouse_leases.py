"""Processes that share a ClickHouse server: one row, one target, one writer at a time; a dead one holds nobody up.

Contract: STATE-14, STATE-15. Wire-tested against an HTTP endpoint over chDB, with real processes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.sink.control import ClickHouseControlTables
from dpone_core.connectors.clickhouse.sink.mutex import ServerMutex
from dpone_core.errors import ConnectorError, LoadInProgressError
from dpone_core.model.connector import ConnectorType
from dpone_core.model.load_config import LoadConfig, SinkConfig, SourceConfig, StrategyConfig, TableName
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.control import ControlRowBusyError
from dpone_core.state.lease import LEASE_DURATION, LeaseStore
from dpone_core.testing.builders import load_identity
from dpone_core.testing.open_sink import OpenSink
from dpone_core.testing.port_conformance import control_row, control_table
from tests.connectors.sessions import clickhouse_sink, session_of
from tests.spec.builders import Project, flow

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
WRITERS = 4
Faults = Callable[..., None]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    double = Path(__file__).with_name("clickhouse_http_double.py")
    with subprocess.Popen(
        [sys.executable, str(double), str(tmp_path_factory.mktemp("served") / "data")],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


@pytest.fixture(scope="module")
def uri(port: int) -> str:
    return f"clickhouse://127.0.0.1:{port}/default"


@pytest.fixture(scope="module")
def sink(uri: str) -> Iterator[OpenSink]:
    with clickhouse_sink(uri) as opened:
        yield opened


@pytest.fixture
def faults(port: int) -> Iterator[Faults]:
    def plan(*planned: dict[str, object]) -> None:
        body = json.dumps(planned).encode()
        urllib.request.urlopen(f"http://127.0.0.1:{port}/_faults", data=body, timeout=10).read()

    yield plan
    plan()


def started(code: str, uri: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, uri, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def said(processes: list[subprocess.Popen[str]]) -> list[str]:
    answers = [process.communicate(timeout=120)[0].strip() for process in processes]
    assert all(process.returncode == 0 for process in processes)
    return answers


def mutexes(sink: OpenSink) -> list[str]:
    rows = session_of(sink).rows("SELECT name FROM system.tables WHERE startsWith(name, '__dpone__mutex_')")
    return [str(row[0]) for row in rows]


def config(table: str, schema: str | None = "raw") -> LoadConfig:
    return LoadConfig(
        process="orders",
        manifest="m.yaml",
        source=SourceConfig(type=ConnectorType.SQLITE, table=TableName(schema=None, name="orders")),
        sink=SinkConfig(
            type=ConnectorType.CLICKHOUSE,
            table=TableName(schema=schema, name=table),
            strategy=StrategyConfig(mode=StrategyMode.FULL_REFRESH),
        ),
    )


def leases(sink: OpenSink) -> LeaseStore:
    assert sink.ports.control is not None
    return LeaseStore(control=sink.ports.control, schema="etl_state", exclusive_process=False)


COUNTS_UP = """
import sys, time
from datetime import UTC, datetime, timedelta
from dpone_core.testing.port_conformance import control_row, control_table
from dataclasses import replace
from tests.connectors.sessions import clickhouse_sink
uri, name, begin = sys.argv[1:]
table = replace(control_table(), name=name)
with clickhouse_sink(uri) as sink:
    control, done = sink.ports.control, 0
    control.ensure(table)
    while time.time() < float(begin):
        time.sleep(0.001)
    while done < 5:
        found = control.read(table, {"k": "counter"})
        seen = found[0]["n"] if found else None
        row = {**control_row("counter"), "n": (seen or 0) + 1, "version": datetime.now(UTC)}
        if control.compare_and_set(table, {"k": "counter"}, {"n": seen} if found else None, row):
            done += 1
print(done)
"""


@pytest.mark.slow
def test_no_change_of_a_row_is_lost_between_processes(sink: OpenSink, uri: str) -> None:
    """Every process counts to five on one row: fewer than all of it would be two inside at once."""
    table = control_table()
    begin = str(time.time() + 4)
    answers = said([started(COUNTS_UP, uri, table.name, begin) for _ in range(WRITERS)])
    assert answers == ["5"] * WRITERS
    assert sink.ports.control is not None
    assert [row["n"] for row in sink.ports.control.read(table, {"k": "counter"})] == [5 * WRITERS]
    assert mutexes(sink) == []


class LooksWithMe(Session):
    """A server on which another process, which also saw no claim, creates its own right before this one does."""

    def __init__(self, server: Session) -> None:
        super().__init__(server.client, default_schema=server.default_schema, embedded=server.embedded)
        self.others: list[str] = []

    def command(self, sql: str, *, code: str = "sink_statement_refused", message: str = "ClickHouse refused") -> None:
        claim = re.search(r"__dpone__mutex_[0-9a-f]+_", sql)
        if claim is not None and sql.startswith("CREATE") and not self.others:
            self.others.append(f"etl_state.{claim[0]}another")
            super().command(f"CREATE TABLE {self.others[0]} (taken UInt8) ENGINE = Null")
        super().command(sql, code=code, message=message)


def test_of_two_processes_that_enter_at_once_one_waits_for_the_other(sink: OpenSink) -> None:
    server = session_of(sink)
    server.command("CREATE DATABASE IF NOT EXISTS etl_state")
    crowded = LooksWithMe(server)
    with pytest.raises(ControlRowBusyError), ServerMutex(crowded, wait_seconds=0.5).enter("etl_state", "subject"):
        pytest.fail("two are inside")
    assert [f"etl_state.{name}" for name in mutexes(sink)] == crowded.others
    server.command(f"DROP TABLE {crowded.others[0]} SYNC")
    with ServerMutex(crowded).enter("etl_state", "subject"):
        assert len(mutexes(sink)) == 1


TAKES_LEASES = """
import sys, time
from datetime import UTC, datetime
from dpone_core.errors import LoadInProgressError
from dpone_core.testing.builders import load_identity
from tests.connectors.test_clickhouse_leases import NOW, config, leases
from tests.connectors.sessions import clickhouse_sink
uri, owner, begin = sys.argv[1:]
with clickhouse_sink(uri) as sink:
    store, won = leases(sink), []
    while time.time() < float(begin):
        time.sleep(0.001)
    for target in ("a", "b", "c", "d", "e"):
        try:
            store.acquire(config(target), load_identity(owner), NOW)
            won.append(target)
        except LoadInProgressError:
            pass
print("".join(won))
"""


def test_of_processes_that_race_for_a_target_exactly_one_wins(sink: OpenSink, uri: str) -> None:
    begin = str(time.time() + 4)
    answers = said([started(TAKES_LEASES, uri, f"owner-{number}", begin) for number in range(WRITERS)])
    assert sorted("".join(answers)) == ["a", "b", "c", "d", "e"]
    for number, won in enumerate(answers):
        for target in won:
            with pytest.raises(LoadInProgressError, match=f"owner-{number}"):
                leases(sink).acquire(config(target), load_identity("later"), NOW)


DIES_WITH_A_LEASE = """
import os, signal, sys
from dpone_core.testing.builders import load_identity
from tests.connectors.test_clickhouse_leases import NOW, config, leases
from tests.connectors.sessions import clickhouse_sink
with clickhouse_sink(sys.argv[1]) as sink:
    leases(sink).acquire(config("dead"), load_identity("dead"), NOW)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_lease_of_a_dead_process_ends_with_its_time(sink: OpenSink, uri: str) -> None:
    assert started(DIES_WITH_A_LEASE, uri).wait(timeout=60) == -9
    store, end = leases(sink), NOW + LEASE_DURATION
    with pytest.raises(LoadInProgressError, match="dead"):
        store.acquire(config("dead"), load_identity("early"), end - timedelta(minutes=1))
    lease = store.acquire(config("dead"), load_identity("late"), end + timedelta(minutes=1))
    assert store.renew(lease, end)
    store.release(lease)
    assert not store.renew(lease, end)


DIES_INSIDE = """
import os, signal, sys
from dpone_core.connectors.clickhouse.sink.mutex import ServerMutex
from tests.connectors.sessions import clickhouse_sink, session_of
with clickhouse_sink(sys.argv[1]) as sink, ServerMutex(session_of(sink)).enter("etl_state", sys.argv[2]):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_section_of_a_dead_process_is_entered_once_its_claim_is_old(sink: OpenSink, uri: str) -> None:
    assert sink.ports.control is not None
    sink.ports.control.ensure(control_table())
    session_of(sink).command("CREATE DATABASE IF NOT EXISTS etl_state")
    assert started(DIES_INSIDE, uri, "subject").wait(timeout=60) == -9
    [claim] = mutexes(sink)
    with (
        pytest.raises(ConnectorError) as raised,
        ServerMutex(session_of(sink), wait_seconds=0.5).enter("etl_state", "subject"),
    ):
        pass
    assert raised.value.code == "control_table_busy" and mutexes(sink) == [claim]
    with ServerMutex(session_of(sink)).enter("etl_state", "other"):
        assert len(mutexes(sink)) == 2
    with ServerMutex(session_of(sink), expiry_seconds=2, wait_seconds=10).enter("etl_state", "subject"):
        assert len(mutexes(sink)) == 1 and mutexes(sink) != [claim], "the dead claim is gone, ours stands"
    assert mutexes(sink) == []


def dropped(match: str, stage: str) -> dict[str, object]:
    return {"match": match, "stage": stage}


@pytest.mark.parametrize(("stage", "taken"), [("after", True), ("before", False)])
def test_a_lost_answer_to_a_control_row_is_read_back(sink: OpenSink, faults: Faults, stage: str, taken: bool) -> None:
    """Else a run that never began would hold its target for hours."""
    control, table = sink.ports.control, control_table()
    assert control is not None
    control.ensure(table)
    faults(dropped(f"^INSERT INTO .*{table.name}", stage))
    if taken:
        assert control.compare_and_set(table, {"k": "a"}, None, control_row("a"))
    else:
        with pytest.raises(ConnectorError):
            control.compare_and_set(table, {"k": "a"}, None, control_row("a"))
    assert len(control.read(table, {"k": "a"})) == taken
    assert mutexes(sink) == []


@pytest.mark.parametrize("stage", ["before", "after"])
def test_a_lost_answer_to_a_deletion_is_read_back(sink: OpenSink, faults: Faults, stage: str) -> None:
    control, table = sink.ports.control, control_table()
    assert control is not None
    control.ensure(table)
    control.upsert(table, [control_row("a")])
    faults(dropped(f"^ALTER TABLE .*{table.name}.* DELETE", stage))
    if stage == "after":
        assert control.compare_and_set(table, {"k": "a"}, {"k": "a"}, None)
    else:
        with pytest.raises(ConnectorError):
            control.compare_and_set(table, {"k": "a"}, {"k": "a"}, None)
    assert len(control.read(table, {"k": "a"})) == (stage == "before")


@pytest.mark.parametrize("stage", ["before", "after"])
@pytest.mark.parametrize("statement", ["^CREATE TABLE .*__dpone__mutex_", "^DROP TABLE .*__dpone__mutex_"])
def test_a_lost_answer_of_the_section_itself_says_nothing_false(
    sink: OpenSink, faults: Faults, statement: str, stage: str
) -> None:
    table = control_table()
    control = ClickHouseControlTables(session_of(sink), ServerMutex(session_of(sink), expiry_seconds=2))
    control.ensure(table)
    faults(dropped(statement, stage))
    if statement.startswith("^CREATE"):
        with pytest.raises(ConnectorError):
            control.compare_and_set(table, {"k": "a"}, None, control_row("a"))
        assert control.read(table, {}) == () and mutexes(sink) == []
    else:
        assert control.compare_and_set(table, {"k": "a"}, None, control_row("a"))
    faults()
    expected = {"k": "a"} if control.read(table, {}) else None
    assert control.compare_and_set(table, {"k": "a"}, expected, control_row("a", seconds=1))
    assert mutexes(sink) == []


def test_a_run_is_refused_while_another_load_holds_the_target_and_not_after(
    tmp_path: Path, sink: OpenSink, uri: str
) -> None:
    project = Project(tmp_path, environment={"DPONE_CONN_DWH": uri})
    project.written(flow(sink__type="clickhouse", sink__table={"schema": "raw", "name": "leased"}))
    project.orders()
    store = leases(sink)
    lease = store.acquire(config("leased"), load_identity("another"), datetime.now(UTC))
    refused = project.run("--run-id", "r1")
    assert (refused.exit_code, refused.code) == (1, "load_in_progress")
    context = refused.result["failure_context"]
    assert context["target_state"] == "not_mutated"
    assert context["retry_classification"] == "retry_before_target_mutation"
    assert sink.ports.target.describe_target(TableName(schema="raw", name="leased")) is None
    store.release(lease)
    assert project.run("--run-id", "r1").exit_code == 0
    assert len(sink.rows(TableName(schema="raw", name="leased"))) == 3
    expired = datetime.now(UTC) - LEASE_DURATION - timedelta(minutes=1)
    store.acquire(config("leased"), load_identity("dead"), expired)
    assert project.run("--run-id", "r2").exit_code == 0
