"""A statement that a signal stopped leaves a session that still works: the failure must be recordable.

DuckDB hands an interruption to whatever runs next when the interrupted statement has already ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest

from dpone_core.cli.signals import SignalCancellation
from dpone_core.connectors.duckdb.database import Database
from dpone_core.errors import ConnectorError, RunTerminated
from dpone_core.loading.pump import Pump
from dpone_core.testing.builders import ORDERS, orders, stage_request
from dpone_core.testing.sink_conformance import fresh_table
from dpone_core.wiring.runtime import SilentProgress
from tests.connectors.sessions import database_of, duckdb_sink


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = Database(str(tmp_path / "w.duckdb"))
    database.rows("CREATE TABLE t (i INTEGER)")
    return database


def test_a_late_interruption_fails_neither_the_next_query_nor_the_next_transaction(database: Database) -> None:
    for _ in range(50):
        database.cursor().interrupt()
        assert database.rows("SELECT count(*) >= 0 FROM t") == [(True,)]
        database.cursor().interrupt()
        with database.transaction(code="x", message="x") as cursor:
            cursor.execute("INSERT INTO t VALUES (1)")
    assert database.rows("SELECT count(*) FROM t") == [(50,)]


def test_a_transaction_that_cannot_roll_back_is_given_up_and_the_next_one_works(database: Database) -> None:
    def ended_behind_our_back() -> None:
        with database.transaction(code="x", message="x") as cursor:
            cursor.execute("INSERT INTO t VALUES (1)")
            cursor.execute("ROLLBACK")
            cursor.execute("SELECT no_such_column FROM t")

    with pytest.raises(ConnectorError):
        ended_behind_our_back()
    with database.transaction(code="x", message="x") as cursor:
        cursor.execute("INSERT INTO t VALUES (2)")
    assert database.rows("SELECT i FROM t") == [(2,)]


@dataclass(slots=True)
class Waiting:
    """A source that never answers: it waits until it is closed, or until somebody has waited long enough."""

    asked: Event = field(default_factory=Event)
    closed: Event = field(default_factory=Event)
    gave_up: bool = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        self.asked.set()
        self.gave_up = not self.closed.wait(timeout=3)
        yield orders(1)

    def close(self) -> None:
        self.closed.set()


@pytest.mark.parametrize("again", range(4))
@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGTERM, RunTerminated), (signal.SIGINT, KeyboardInterrupt)], ids=["term", "int"]
)
def test_a_signal_ends_staging_that_waits_for_a_batch(
    tmp_path: Path, number: signal.Signals, raised: type[BaseException], again: int
) -> None:
    """DuckDB pulls the batches and hears no signal, so the thread that hears it must not be inside DuckDB. Which of its
    threads pulls is a matter of chance, hence several times."""
    source, cancellation = Waiting(), SignalCancellation()
    pump = Pump(stream=source, payload=ORDERS, progress=SilentProgress(), cancellation=cancellation)

    def send() -> None:
        source.asked.wait()
        os.kill(os.getpid(), number)

    with duckdb_sink(tmp_path) as sink, cancellation.installed():
        sender = Thread(target=send)
        sender.start()
        with pytest.raises(raised):
            sink.ports.staged.stage(stage_request(fresh_table(), "L1"), pump.batches())
        sender.join()
        assert source.closed.is_set() and not source.gave_up
        assert database_of(sink).rows("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '%stg%'") == []
        after = fresh_table()
        sink.load(stage_request(after, "L2"), orders(1, 2))
        assert sink.ids(after) == [1, 2]
