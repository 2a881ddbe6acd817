"""The same sink code over HTTP keeps the same promises, and settles every lost answer truthfully.

Wire-tested against an HTTP endpoint over chDB; not a server or cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpone_core.connectors.clickhouse.sink.publish import publish
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.testing.builders import orders, stage_request
from dpone_core.testing.port_conformance import (
    ControlTablesConformance,
    SinkProbeConformance,
    SinkStatementConformance,
)
from dpone_core.testing.sink_conformance import OpenSink, StagedSinkConformance, fresh_table
from tests.connectors.sessions import APPEND, FULL_REFRESH, clickhouse_sink, session_of

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
def sink(port: int) -> Iterator[OpenSink]:
    with clickhouse_sink(f"clickhouse://default:s3cret@127.0.0.1:{port}/default") as opened:
        yield opened


@pytest.fixture
def faults(port: int) -> Iterator[Faults]:
    def plan(*planned: dict[str, object]) -> None:
        body = json.dumps(planned).encode()
        urllib.request.urlopen(f"http://127.0.0.1:{port}/_faults", data=body, timeout=10).read()

    yield plan
    plan()


class TestStaging(StagedSinkConformance):
    pass


class TestControlTables(ControlTablesConformance):
    pass


class TestProbe(SinkProbeConformance):
    pass


class TestStatements(SinkStatementConformance):
    pass


def dropped(match: str, stage: str, times: int = 1) -> dict[str, object]:
    return {"match": match, "stage": stage, "code": None, "times": times}


@pytest.mark.parametrize(
    ("strategy", "statement", "published"), [(FULL_REFRESH, "^EXCHANGE", [2]), (APPEND, "MOVE PARTITION", [1, 2])]
)
def test_a_commit_whose_answer_is_lost_is_seen(
    sink: OpenSink, faults: Faults, strategy: StrategyMode, statement: str, published: list[int]
) -> None:
    table = fresh_table()
    sink.load(stage_request(table), orders(1))
    handle = sink.ports.staged.stage(stage_request(table, "L2", strategy=strategy), iter([orders(2)]))
    faults(dropped(statement, "after"))
    sink.ports.staged.finalize(handle)
    assert sink.ids(table) == published
    sink.ports.staged.cleanup(handle.ref)
    assert sink.ports.target.leftovers(table, None) == ()


@pytest.mark.parametrize(("strategy", "statement"), [(FULL_REFRESH, "^EXCHANGE"), (APPEND, "MOVE PARTITION")])
def test_a_commit_that_never_arrived_leaves_the_target_and_can_no_longer_happen(
    sink: OpenSink, faults: Faults, strategy: StrategyMode, statement: str
) -> None:
    table = fresh_table()
    sink.load(stage_request(table), orders(1))
    handle = sink.ports.staged.stage(stage_request(table, "L2", strategy=strategy), iter([orders(2)]))
    faults(dropped(statement, "before"))
    with pytest.raises(ConnectorError) as raised:
        sink.ports.staged.finalize(handle)
    assert raised.value.code == "finaliser_refused"
    assert sink.ids(table) == [1]
    assert handle.table not in [left.table for left in sink.ports.target.leftovers(table, None)]
    sink.ports.staged.cleanup(handle.ref)
    assert sink.ports.target.leftovers(table, None) == ()


def test_the_marker_cannot_be_read_after_a_lost_commit(sink: OpenSink, faults: Faults, port: int) -> None:
    table = fresh_table()
    sink.load(stage_request(table), orders(1))
    handle = sink.ports.staged.stage(stage_request(table, "L2"), iter([orders(2)]))
    session = session_of(sink)
    attempt = session.attempt

    class LosesEverythingAfterwards:
        """The session as it is, until the commit: from then on nothing answers."""

        def __getattr__(self, name: str) -> object:
            return getattr(session, name)

        def attempt(self, sql: str) -> Exception | None:
            faults(dropped("^EXCHANGE", "after"), dropped("system.tables", "before", 99))
            return attempt(sql)

    with pytest.raises(CommitOutcomeUnknownError):
        publish(LosesEverythingAfterwards(), handle, table, fresh_table())
    faults()
    assert sink.ids(table) == [2]
    sink.ports.staged.cleanup(handle.ref)


def test_a_block_whose_answer_is_lost_fails_the_load_and_is_not_sent_twice(sink: OpenSink, faults: Faults) -> None:
    table = fresh_table()
    faults(dropped("^INSERT INTO .*stg_", "after"))
    with pytest.raises(ConnectorError) as raised:
        sink.ports.staged.stage(stage_request(table), iter([orders(1)]))
    assert raised.value.code == "sink_unreachable"
    assert sink.ports.target.leftovers(table, None) == ()


def test_a_refused_commit_leaves_the_target(sink: OpenSink, faults: Faults) -> None:
    table = fresh_table()
    sink.load(stage_request(table), orders(1))
    handle = sink.ports.staged.stage(stage_request(table, "L2"), iter([orders(2)]))
    faults({"match": "^EXCHANGE", "stage": "before", "code": 497, "times": 1})
    with pytest.raises(ConnectorError) as raised:
        sink.ports.staged.finalize(handle)
    assert raised.value.code == "finaliser_refused"
    assert sink.ids(table) == [1]
    sink.ports.staged.finalize(handle)
    assert sink.ids(table) == [2]
    sink.ports.staged.cleanup(handle.ref)


def test_a_commit_the_server_gave_up_on_is_settled_like_a_lost_answer(sink: OpenSink, faults: Faults) -> None:
    table = fresh_table()
    sink.load(stage_request(table), orders(1))
    handle = sink.ports.staged.stage(stage_request(table, "L2"), iter([orders(2)]))
    faults({"match": "^EXCHANGE", "stage": "after", "code": 159, "times": 1})
    sink.ports.staged.finalize(handle)
    assert sink.ids(table) == [2]
    sink.ports.staged.cleanup(handle.ref)


def test_an_unreachable_server_is_named_so_and_its_address_is_not_shown() -> None:
    with pytest.raises(ConnectorError) as raised, clickhouse_sink("clickhouse://u:canary@127.0.0.1:1/db"):
        pass
    assert raised.value.code == "sink_unreachable"
    assert "canary" not in str(raised.value) and "127.0.0.1" not in str(raised.value)
