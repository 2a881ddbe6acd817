"""A session that is cut while PostgreSQL works: the load marker tells what happened, or the outcome is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import psycopg
import pytest

from dpone_core.connectors.postgres.sink.catalog import resolve
from dpone_core.connectors.postgres.sink.publish import publication_lock
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.artifacts import load_marker
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.control import ControlTables
from dpone_core.testing.builders import orders, stage_request
from dpone_core.testing.port_conformance import control_row, control_table
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import APPEND, FULL_REFRESH, postgres_database_of, postgres_sink
from tests.live.cutting_proxy import CuttingProxy, cutting_proxy
from tests.live.servers import scratch_postgres

MERGE = StrategyMode.INCREMENTAL_MERGE
STRATEGIES = [FULL_REFRESH, APPEND, MERGE]


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_postgres() as found:
        yield found


@pytest.fixture
def proxy(uri: str) -> Iterator[CuttingProxy]:
    parts = urlsplit(uri)
    with cutting_proxy(parts.hostname or "", parts.port or 5432) as found:
        yield found


@pytest.fixture
def sink(uri: str, proxy: CuttingProxy) -> Iterator[OpenSink]:
    parts = urlsplit(uri)
    through = parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}").geturl()
    with postgres_sink(f"{through}?sslmode=disable&gssencmode=disable", lock_timeout_seconds=1) as opened:
        yield opened
        proxy.heal()


@pytest.fixture
def direct(uri: str) -> Iterator[OpenSink]:
    """The same database, past the proxy."""
    with postgres_sink(uri) as opened:
        yield opened


def staged(sink: OpenSink, strategy: StrategyMode):  # type: ignore[no-untyped-def]
    """A target that holds rows 1 and 2, and a staged load of row 2 anew and row 3."""
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1, 2))
    request = replace(stage_request(table, "L1", strategy=strategy), unique_key=("id",))
    return table, sink.staged.stage(request, iter([orders(2, 3, name="new")]))


WANTED = {FULL_REFRESH: [2, 3], APPEND: [1, 2, 2, 3], MERGE: [1, 2, 3]}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_lost_answer_of_the_commit_is_settled_by_the_marker(
    sink: OpenSink, proxy: CuttingProxy, strategy: StrategyMode
) -> None:
    table, handle = staged(sink, strategy)
    proxy.cut_after(b"COMMIT")
    result = sink.staged.finalize(handle)
    assert proxy.cuts == 1
    assert (result.finaliser, result.total_rows) == ("settled_by_marker", len(WANTED[strategy]))
    assert (result.inserted_rows, result.updated_rows) == ((1, 1) if strategy is MERGE else (2, 0))
    assert sink.ids(table) == WANTED[strategy]
    assert sink.staged.finalize(handle).finaliser == "already_published"
    assert sink.ids(table) == WANTED[strategy]
    sink.staged.cleanup(handle.ref)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_second_call_that_is_cut_tells_what_the_first_one_did(
    sink: OpenSink, proxy: CuttingProxy, strategy: StrategyMode
) -> None:
    _, handle = staged(sink, strategy)
    first = sink.staged.finalize(handle)
    proxy.cut_after(b"BEGIN")
    second = sink.staged.finalize(handle)
    assert (second.finaliser, proxy.cuts) == ("settled_by_marker", 1)
    assert replace(second, finaliser=first.finaliser) == first
    sink.staged.cleanup(handle.ref)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_server_that_goes_away_behind_the_commit_denies_nothing(
    sink: OpenSink, direct: OpenSink, proxy: CuttingProxy, strategy: StrategyMode
) -> None:
    table, handle = staged(sink, strategy)
    proxy.cut_after(b"", once_seen=b"COMMIT", refuse_after_cut=True)
    result = sink.staged.finalize(handle)
    assert result.total_rows == len(WANTED[strategy])
    assert direct.ids(table) == WANTED[strategy]
    with pytest.raises(ConnectorError) as raised:
        sink.staged.cleanup(handle.ref)
    assert raised.value.code == "sink_unreachable" and proxy.cuts == 1
    proxy.heal()
    sink.staged.cleanup(handle.ref)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_commit_that_never_arrived_is_no_commit(sink: OpenSink, proxy: CuttingProxy, strategy: StrategyMode) -> None:
    table, handle = staged(sink, strategy)
    proxy.cut_after(b"COMMIT", before=True)
    with pytest.raises(ConnectorError) as raised:
        sink.staged.finalize(handle)
    assert not isinstance(raised.value, CommitOutcomeUnknownError)
    assert raised.value.code == "finaliser_refused" and proxy.cuts == 1
    assert sink.ids(table) == [1, 2]
    assert sink.staged.finalize(handle).total_rows == len(WANTED[strategy])
    assert sink.ids(table) == WANTED[strategy]
    sink.staged.cleanup(handle.ref)


@pytest.mark.parametrize("statement", [b"BEGIN", b"LOCK TABLE", b"INSERT INTO", b"COMMENT ON TABLE"])
def test_a_session_that_is_cut_at_any_statement_leaves_the_target_alone(
    sink: OpenSink, proxy: CuttingProxy, statement: bytes
) -> None:
    table, handle = staged(sink, APPEND)
    proxy.cut_after(statement)
    with pytest.raises(ConnectorError) as raised:
        sink.staged.finalize(handle)
    assert raised.value.code == "finaliser_refused" and proxy.cuts == 1
    assert sink.ids(table) == [1, 2]
    sink.staged.cleanup(handle.ref)


@pytest.mark.parametrize("before", [False, True])
def test_a_server_that_cannot_be_asked_leaves_the_outcome_unknown(
    sink: OpenSink, direct: OpenSink, proxy: CuttingProxy, before: bool
) -> None:
    table, handle = staged(sink, APPEND)
    proxy.cut_after(b"COMMIT", before=before, refuse_after_cut=True)
    with pytest.raises(CommitOutcomeUnknownError) as raised:
        sink.staged.finalize(handle)
    assert raised.value.code == "target_outcome_unknown"
    assert direct.ids(table) == ([1, 2] if before else WANTED[APPEND])
    proxy.heal()
    assert sink.staged.finalize(handle).total_rows == 4
    assert sink.ids(table) == WANTED[APPEND]
    sink.staged.cleanup(handle.ref)


def test_a_publication_that_still_runs_is_waited_for(uri: str, sink: OpenSink) -> None:
    """The answer is asked for under the lock that the running publication holds until it has ended."""
    table, handle = staged(sink, APPEND)
    publications = sink.ports.publications
    assert publications is not None
    with psycopg.connect(uri) as running:
        running.execute("SELECT pg_advisory_xact_lock(%s)", (publication_lock(resolve(table)),))
        marker = load_marker(handle.request.identity)
        running.execute(f"COMMENT ON TABLE {table} IS '{marker}'".encode())
        with pytest.raises(ConnectorError) as raised:
            publications.contains(handle.ref, "")
        assert raised.value.code == "sink_query_failed"
        running.commit()
    assert publications.contains(handle.ref, "") is True
    sink.staged.cleanup(handle.ref)


@pytest.mark.parametrize("statement", [b"COMMIT", b"CREATE TABLE", b"SELECT count"])
@pytest.mark.parametrize("before", [False, True])
def test_staging_that_is_cut_leaves_nothing(
    sink: OpenSink, proxy: CuttingProxy, statement: bytes, before: bool
) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1))
    proxy.cut_after(statement, before=before)
    with pytest.raises(ConnectorError) as raised:
        sink.staged.stage(stage_request(table, "L1"), iter([orders(2)]))
    assert raised.value.code == "sink_unreachable" and proxy.cuts == 1
    assert sink.ports.target.leftovers(table, None) == ()
    assert sink.ids(table) == [1]


def test_staging_that_could_not_be_dropped_is_a_leftover(sink: OpenSink, direct: OpenSink, proxy: CuttingProxy) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1))
    proxy.cut_after(b"COMMIT", refuse_after_cut=True)
    with pytest.raises(ConnectorError) as raised:
        sink.staged.stage(stage_request(table, "L1"), iter([orders(2)]))
    assert raised.value.code == "sink_unreachable"
    assert len(direct.ports.target.leftovers(table, None)) == 1
    assert direct.ids(table) == [1]


@pytest.mark.parametrize("before", [False, True])
def test_cleanup_whose_answer_is_lost_is_done_again(sink: OpenSink, proxy: CuttingProxy, before: bool) -> None:
    table, handle = staged(sink, APPEND)
    proxy.cut_after(b"COMMIT", before=before)
    sink.staged.cleanup(handle.ref)
    assert proxy.cuts == 1
    assert sink.ports.target.leftovers(table, None) == ()


def ready(sink: OpenSink):  # type: ignore[no-untyped-def]
    table = control_table()
    control = sink.ports.control
    assert control is not None
    control.ensure(table)
    return control, table


@pytest.mark.parametrize("before", [False, True])
def test_a_control_row_whose_answer_is_lost_is_written_once(sink: OpenSink, proxy: CuttingProxy, before: bool) -> None:
    control, table = ready(sink)
    control.upsert(table, [control_row("a", note="old")])
    proxy.cut_after(b"COMMIT", before=before)
    control.upsert(table, [control_row("a", seconds=1, note="new"), control_row("b")])
    assert proxy.cuts == 1
    assert [row["note"] for row in control.read(table, {})] == ["new", None]


@pytest.mark.parametrize("before", [False, True])
def test_a_lease_whose_answer_is_lost_is_ours_exactly_if_we_hold_it(
    sink: OpenSink, direct: OpenSink, proxy: CuttingProxy, before: bool
) -> None:
    control, table = ready(sink)
    other: ControlTables | None = direct.ports.control
    assert other is not None
    key = {"k": "lease"}
    proxy.cut_after(b"COMMIT", before=before)
    assert control.compare_and_set(table, key, None, control_row("lease", note="me"))
    assert not other.compare_and_set(table, key, None, control_row("lease", note="you"))
    proxy.cut_after(b"COMMIT", before=before)
    assert control.compare_and_set(table, key, {"note": "me"}, None)
    assert proxy.cuts == 2 and control.read(table, key) == ()
    assert other.compare_and_set(table, key, None, control_row("lease", note="you"))
    proxy.cut_after(b"FOR UPDATE")
    assert not control.compare_and_set(table, key, {"note": "me"}, control_row("lease", note="me"))


def test_an_idle_session_that_was_cut_is_replaced(uri: str, sink: OpenSink, direct: OpenSink) -> None:
    table, handle = staged(sink, APPEND)
    pid = postgres_database_of(sink).connection().info.backend_pid
    postgres_database_of(direct).rows("SELECT pg_terminate_backend($1)", (pid,))
    assert sink.staged.finalize(handle).finaliser == "insert_in_transaction"
    sink.staged.cleanup(handle.ref)
    assert sink.ids(table) == WANTED[APPEND]
