"""Whoever takes over a target of ClickHouse takes the staging of earlier loads away: their late statements are refused.

The late statement has been sent and stands still until the rival has loaded. Wire-tested against an HTTP endpoint over
chDB, which runs one statement at a time. Contract: STATE-28.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dpone_core.connectors.clickhouse.revocation import ClickHouseRevocation, wait_for_statements
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.errors import ConnectorError
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.testing.builders import stage_request
from dpone_core.testing.open_sink import OpenSink, fresh_table
from dpone_core.testing.replace_conformance import BY_NAME, parts
from tests.connectors.sessions import FULL_REFRESH, clickhouse_sink, session_of
from tests.connectors.test_clickhouse_lost_answers import OLD, SCENES, Faults, faults, held, request

__all__ = ("faults",)

COMMITS = r"^(EXCHANGE TABLES|RENAME TABLE .*_stg_|ALTER TABLE .* (MOVE|REPLACE|ATTACH) PARTITION)"
NOBODY: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def uri(faults: Faults) -> str:
    return f"clickhouse://127.0.0.1:{faults.port}/default"


@pytest.fixture(scope="module")
def late(uri: str) -> Iterator[OpenSink]:
    with clickhouse_sink(uri) as opened:
        yield opened


@pytest.fixture(scope="module")
def rival(uri: str) -> Iterator[OpenSink]:
    with clickhouse_sink(uri) as opened:
        yield opened


@pytest.mark.parametrize("name", SCENES)
def test_a_statement_that_arrives_behind_the_revocation_is_refused(
    late: OpenSink, rival: OpenSink, faults: Faults, name: str
) -> None:
    scene, table = SCENES[name], fresh_table()
    if scene.target:
        late.load(request(table, StrategyMode.FULL_REFRESH, "L0"), parts(*OLD))
    wanted = request(table, scene.strategy, "late")
    handle = late.staged.stage(wanted, iter([parts(*scene.rows)]))
    raised: list[BaseException] = []

    def publish() -> None:
        try:
            late.staged.finalize(handle)
        except BaseException as error:
            raised.append(error)

    before, newer = faults.held(), [(7, "a"), (8, "z")]
    thread = threading.Thread(target=publish)
    with faults.planned(match=COMMITS, stage="held"):
        thread.start()
        deadline = time.monotonic() + 60
        while faults.held() == before:
            assert time.monotonic() < deadline and thread.is_alive(), raised
            time.sleep(0.02)
        assert rival.ports.revocation is not None and rival.ports.publications is not None
        own = request(table, StrategyMode.FULL_REFRESH, "rival")
        assert rival.ports.revocation.revoke(own.ref, NOBODY)
        assert rival.ports.publications.contains(handle.ref, None if not scene.target else "") is not True
        rival.load(own, parts(*newer))
    thread.join(60)
    assert held(rival, table) == newer
    [error] = raised
    assert isinstance(error, ConnectorError) and error.code == "finaliser_refused", error
    late.staged.cleanup(handle.ref)


def test_a_finished_shadow_is_taken_away_too(late: OpenSink, rival: OpenSink, faults: Faults) -> None:
    """It needs no staging any more: only its own name keeps the exchange from it."""
    table = fresh_table()
    late.load(request(table, StrategyMode.FULL_REFRESH, "L0"), parts(*OLD))
    handle = late.staged.stage(request(table, StrategyMode.INCREMENTAL_MERGE, "late"), iter([parts((1, "b"))]))
    raised: list[BaseException] = []

    def publish() -> None:
        try:
            late.staged.finalize(handle)
        except BaseException as error:
            raised.append(error)

    before, thread = faults.held(), threading.Thread(target=publish)
    with faults.planned(match="^EXCHANGE TABLES", stage="held"):
        thread.start()
        while faults.held() == before:
            assert thread.is_alive(), raised
            time.sleep(0.02)
        assert rival.ports.revocation is not None
        taken = rival.ports.revocation.revoke(request(table, StrategyMode.FULL_REFRESH, "rival").ref, NOBODY)
    thread.join(60)
    assert len(taken) == 2 and len(raised) == 1 and held(rival, table) == OLD
    late.staged.cleanup(handle.ref)
    assert rival.ports.target.leftovers(table, None) == ()


def test_what_was_taken_away_still_proves_a_publication(late: OpenSink, rival: OpenSink) -> None:
    """A moved partition leaves no mark in the target: the staging that it emptied does."""
    table = fresh_table()
    late.load(request(table, StrategyMode.FULL_REFRESH, "L0"), parts(*OLD))
    published = late.staged.stage(request(table, StrategyMode.INCREMENTAL_APPEND, "P"), iter([parts((4, "a"))]))
    late.staged.finalize(published)
    waiting = late.staged.stage(request(table, StrategyMode.INCREMENTAL_APPEND, "W"), iter([parts((5, "a"))]))
    own = request(table, StrategyMode.INCREMENTAL_APPEND, "rival").ref
    assert rival.ports.revocation is not None and rival.ports.publications is not None
    taken = rival.ports.revocation.revoke(own, NOBODY)
    assert set(taken) == {published.table.name, waiting.table.name}
    mark = rival.ports.publications.last_marker(table)
    assert rival.ports.publications.contains(published.ref, mark) is True
    assert rival.ports.publications.contains(waiting.ref, mark) is False
    left = {leftover.role for leftover in rival.ports.target.leftovers(table, None)}
    assert left == {"scratch"}, "reported, and removed by run id"
    for handle in (published, waiting):
        late.staged.cleanup(handle.ref)
    assert rival.ports.target.leftovers(table, None) == ()


def test_own_and_kept_staging_stay(late: OpenSink) -> None:
    table = fresh_table()
    kept = late.staged.stage(stage_request(table, "kept", schema=BY_NAME), iter([parts((1, "a"))]))
    own = late.staged.stage(stage_request(table, "own", schema=BY_NAME), iter([parts((1, "a"))]))
    other = late.staged.stage(stage_request(fresh_table(), "other", schema=BY_NAME), iter([parts((1, "a"))]))
    revocation = ClickHouseRevocation(session_of(late))
    assert revocation.revoke(own.ref, frozenset({kept.table.name})) == ()
    assert late.staged.finalize(replace(own)).inserted_rows == 1
    for handle in (kept, own, other):
        late.staged.cleanup(handle.ref)
    assert FULL_REFRESH is own.request.strategy


class Running(Session):
    """A server on which a statement runs for so many looks."""

    def __init__(self, looks: int) -> None:
        super().__init__(lambda: None, default_schema="default", embedded=False)  # type: ignore[arg-type, return-value]
        self.looks, self.asked = looks, ""

    def rows(self, sql: str, parameters: object = None) -> list[list[object]]:
        self.looks, self.asked = self.looks - 1, sql
        return [[1 if self.looks >= 0 else 0]]


def test_a_statement_that_found_its_table_first_is_waited_for() -> None:
    session = Running(3)
    wait_for_statements(session, ["__dpone__stg_a"], None, 60)
    assert session.looks == -1 and "system.processes" in session.asked and "'__dpone__stg_a'" in session.asked
    with pytest.raises(ConnectorError) as raised:
        wait_for_statements(Running(10_000), ["__dpone__stg_a"], None, 0.2)
    assert raised.value.code == "load_in_progress"
    wait_for_statements(session, [], None, 0)
    wait_for_statements(session, ["__dpone__stg_a"], "all", 60)
    assert "clusterAllReplicas('all', system.processes)" in session.asked
