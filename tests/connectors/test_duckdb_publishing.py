"""Publishing on DuckDB: one transaction, so readers see the old rows or the new rows, and nothing is lost silently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from dpone_core.connectors._sql.publication import publish
from dpone_core.connectors.duckdb.database import Database
from dpone_core.connectors.duckdb.open import open_source_and_sink
from dpone_core.connectors.duckdb.sink.probe import sink_probe
from dpone_core.connectors.duckdb.sink.publish import publication_dialect
from dpone_core.connectors.duckdb.sink.staging import DuckDbStaging
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.load_config import PartitionBy, PhysicalDesign
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import Column
from dpone_core.model.vocabulary import Side
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.statements import StatementScript
from dpone_core.testing.builders import ORDERS, TEXT, orders, stage_request, with_column
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import APPEND, connection, database_of, duckdb_sink


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with duckdb_sink(tmp_path_factory.mktemp("duckdb")) as opened:
        yield opened


@pytest.mark.parametrize("staging_schema", [None, "ops"])
def test_a_reader_of_a_full_refresh_sees_old_or_new_only(sink: OpenSink, staging_schema: str | None) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(*range(100)))
    seen: set[int] = set()
    begun, stop = Event(), Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(int(database_of(sink).rows(f"SELECT count(*) FROM {table.schema}.{table.name}")[0][0]))
            begun.set()

    reader = Thread(target=read)
    reader.start()
    begun.wait()
    for load in range(1, 21):
        sink.load(stage_request(table, f"L{load}", staging_schema=staging_schema), orders(*range(100 + load % 2)))
    stop.set()
    reader.join()
    assert seen <= {100, 101}


def test_a_refused_publication_rolls_back(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1))
    handle = sink.ports.staged.stage(stage_request(table, "L1", strategy=APPEND), iter([orders(2)]))
    database_of(sink).rows(f"ALTER TABLE {table.schema}.{table.name} ALTER COLUMN name SET NOT NULL")
    database_of(sink).rows(f"UPDATE {handle.table.schema}.{handle.table.name} SET name = NULL")
    with pytest.raises(ConnectorError) as raised:
        sink.ports.staged.finalize(handle)
    assert raised.value.code == "finaliser_refused"
    assert sink.ids(table) == [1]
    sink.ports.staged.cleanup(handle.ref)


def test_constraints_a_swap_would_lose_are_seen_before_the_load(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1))
    database_of(sink).rows(f"CREATE INDEX i_{table.name} ON {table.schema}.{table.name} (id)")
    with pytest.raises(ConnectorError) as raised:
        sink.ports.target.preflight(stage_request(table, "L1"))
    assert raised.value.code == "physical_design_mismatch"
    sink.ports.target.preflight(stage_request(table, "L1", strategy=APPEND))


def test_constraints_a_swap_would_lose_are_seen_in_the_transaction_too(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1))
    request = stage_request(table, "L1")
    handle = sink.staged.stage(request, iter([orders(2)]))
    database_of(sink).rows(f"CREATE INDEX i_{table.name} ON {table.schema}.{table.name} (id)")
    with pytest.raises(ConnectorError, match="a key, check or index") as raised:
        sink.staged.finalize(handle)
    assert raised.value.code == "physical_design_mismatch" and sink.ids(table) == [1]
    sink.staged.cleanup(request.ref)


def test_a_commit_whose_answer_is_an_error_is_settled_by_the_marker(tmp_path: Path) -> None:
    class Answerless(Database):
        @contextmanager
        def transaction(self, *, code: str, message: str) -> Iterator[Any]:
            with super().transaction(code=code, message=message) as cursor:
                yield cursor
            if code == "finaliser_refused":
                raise ConnectorError(message, code=code)

    with duckdb_sink(tmp_path) as sink, closing(Answerless(str(tmp_path / "warehouse.duckdb"))) as database:
        table = fresh_table()
        handle = sink.staged.stage(stage_request(table, "L1"), iter([orders(1, 2)]))
        result = publish(publication_dialect(database), handle)
        assert (result.finaliser, result.total_rows) == ("settled_by_marker", 2)
        assert sink.ids(table) == [1, 2]


def test_a_commit_that_failed_where_no_marker_can_be_read_is_unknown(tmp_path: Path) -> None:
    """Neither published nor unpublished may be said then; the error that came is kept as the cause."""

    class Speechless(Database):
        failed = False

        @contextmanager
        def transaction(self, *, code: str, message: str) -> Iterator[Any]:
            with super().transaction(code=code, message=message) as cursor:
                yield cursor
            self.failed = True
            raise ConnectorError(message, code=code)

        def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
            if self.failed:
                raise ConnectorError("no answer", code="sink_query_failed")
            return super().rows(sql, parameters)

    with duckdb_sink(tmp_path) as sink, closing(Speechless(str(tmp_path / "warehouse.duckdb"))) as database:
        table = fresh_table()
        handle = sink.staged.stage(stage_request(table, "L1"), iter([orders(1, 2)]))
        with pytest.raises(CommitOutcomeUnknownError) as raised:
            publish(publication_dialect(database), handle)
        assert isinstance(raised.value.__cause__, ConnectorError)


@pytest.mark.parametrize("before", [0, 1], ids=["no target", "a target of an earlier load"])
def test_an_error_before_the_commit_is_settled_as_unchanged(tmp_path: Path, before: int) -> None:
    class Refusing(Database):
        @contextmanager
        def transaction(self, *, code: str, message: str) -> Iterator[Any]:
            with super().transaction(code=code, message=message) as cursor:
                yield cursor
                if code == "finaliser_refused":
                    raise ConnectorError(message, code=code)

    with duckdb_sink(tmp_path) as sink, closing(Refusing(str(tmp_path / "warehouse.duckdb"))) as database:
        table = fresh_table()
        if before:
            sink.load(stage_request(table, "L0"), orders(7))
        handle = sink.staged.stage(stage_request(table, "L1"), iter([orders(1, 2)]))
        with pytest.raises(ConnectorError) as raised:
            publish(publication_dialect(database), handle)
        assert raised.value.code == "finaliser_refused" and not isinstance(raised.value, CommitOutcomeUnknownError)
        assert (sink.ids(table) == [7]) if before else (sink.ports.target.describe_target(table) is None)


def test_a_probe_measures_one_state_of_a_table_that_others_write_to(tmp_path: Path) -> None:
    """Rows, NULLs and distinct values of the sides are counted in several statements of one transaction."""
    table = fresh_table()

    class Moving(Database):
        writer: Database

        def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
            answer = super().rows(sql, parameters)
            if sql.startswith("SELECT count") and "DISTINCT" not in sql:
                thread = Thread(target=lambda: self.execute_elsewhere(f"DELETE FROM {table.schema}.{table.name}"))
                thread.start()
                thread.join()
            return answer

        def execute_elsewhere(self, sql: str) -> None:
            self.new_cursor().execute(sql)

    with duckdb_sink(tmp_path) as sink:
        sink.load(stage_request(table, "L1"), orders(1, 2, 3))
    with closing(Moving(str(tmp_path / "warehouse.duckdb"))) as database:
        request = MetricRequest(side=Side.TARGET, table=table, row_count=True, distinct_counts=("id",))
        answer = sink_probe(database).collect(request)
        assert (answer["row_count"], answer["distinct_counts"]) == (3, {"id": 3})
        assert database.rows(f"SELECT count(*) AS n FROM {table.schema}.{table.name}") == [(0,)]


def test_designs_duckdb_does_not_have_are_refused(sink: OpenSink) -> None:
    for design in (PhysicalDesign(partition_by=PartitionBy(column="id")), PhysicalDesign(cluster="c")):
        with pytest.raises(ConnectorError) as raised:
            sink.ports.target.preflight(replace(stage_request(fresh_table()), physical_design=design))
        assert raised.value.code == "physical_design_mismatch"


def test_names_that_differ_in_case_only_are_refused(sink: OpenSink) -> None:
    schema = with_column(ORDERS, Column(name="ID", type=TEXT))
    with pytest.raises(ConnectorError) as raised:
        sink.ports.target.preflight(stage_request(fresh_table(), schema=schema))
    assert raised.value.code == "sink_column_unsupported"


def test_a_comment_of_the_author_stays(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1))
    database_of(sink).rows(f"COMMENT ON TABLE {table.schema}.{table.name} IS 'owned by finance'")
    sink.load(stage_request(table, "L1"), orders(2))
    sink.load(stage_request(table, "L2"), orders(3))
    assert "owned by finance [dpone " in sink.definition(table)
    assert sink.definition(table).count("[dpone ") == 1


def test_a_script_without_autocommit_is_one_transaction(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1))
    name = f"{table.schema}.{table.name}"
    script = SqlText(text=f"DELETE FROM {name}; SELECT * FROM nowhere")
    assert sink.ports.statements is not None
    with pytest.raises(ConnectorError):
        sink.ports.statements.execute(StatementScript(sql=script, autocommit=False))
    assert sink.ids(table) == [1]
    with pytest.raises(ConnectorError):
        sink.ports.statements.execute(StatementScript(sql=script))
    assert sink.ids(table) == []


LIMIT = "SELECT current_setting('memory_limit')"


def test_only_what_holds_much_at_once_has_the_whole_memory_limit(sink: OpenSink) -> None:
    database = database_of(sink)
    assert database.rows(LIMIT) == [("640.0 MiB",)]
    assert sink.ports.statements is not None
    assert sink.ports.statements.answer(StatementScript(sql=SqlText(text=LIMIT))).rows == (("2.0 GiB",),)
    with database.full_memory():
        with database.full_memory():
            pass
        assert database.rows(LIMIT) == [("2.0 GiB",)], "another block still needs it"
    assert database.rows(LIMIT) == [("640.0 MiB",)]


def test_a_file_that_is_source_and_sink_keeps_the_whole_memory_limit(tmp_path: Path) -> None:
    with open_source_and_sink(connection(f"duckdb:///{tmp_path}/one.duckdb"), lock_timeout_seconds=0) as (_, ports):
        assert isinstance(ports.staged, DuckDbStaging)
        assert ports.staged._database.rows(LIMIT) == [("2.0 GiB",)]
