"""Merge and partition replacement on DuckDB: one transaction, so readers see whole loads and a failure leaves none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from threading import Event, Thread

import pyarrow as pa
import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import PartitionBy, PartitionGranularity
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StageRequest
from dpone_core.testing.builders import INT64, batch_of, orders
from dpone_core.testing.merge_conformance import merge_request
from dpone_core.testing.open_sink import MERGE, REPLACE, OpenSink, fresh_table
from dpone_core.testing.replace_conformance import parts, replace_request
from tests.connectors.sessions import database_of, duckdb_sink


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with duckdb_sink(tmp_path_factory.mktemp("duckdb")) as opened:
        yield opened


@pytest.mark.parametrize("strategy", [MERGE, REPLACE])
def test_a_reader_sees_whole_loads_only(sink: OpenSink, strategy: StrategyMode) -> None:
    table = fresh_table()

    def load(number: int) -> None:
        if strategy is MERGE:
            sink.load(merge_request(table, f"L{number}"), orders(*range(50), name=f"L{number}"))
        else:
            rows = parts(*((i, str(i % 5)) for i in range(50)), name=f"L{number}")
            sink.load(replace_request(table, f"L{number}"), rows)

    load(0)
    seen: set[tuple[int, int]] = set()
    begun, stop = Event(), Event()

    def read() -> None:
        while not stop.is_set():
            [row] = database_of(sink).rows(f"SELECT count(*), count(DISTINCT name) FROM {table.schema}.{table.name}")
            seen.add((int(row[0]), int(row[1])))
            begun.set()

    reader = Thread(target=read)
    reader.start()
    begun.wait()
    for number in range(1, 11):
        load(number)
    stop.set()
    reader.join()
    assert seen == {(50, 1)}


def constrained(sink: OpenSink, request: StageRequest, batch: pa.RecordBatch) -> str:
    """A target with a primary key and an index, made by hand and filled; its name."""
    sink.load(request, batch)
    name = f"{request.target.schema}.{request.target.name}"
    database_of(sink).rows(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
    database_of(sink).rows(f"CREATE INDEX i_{request.target.name} ON {name} (name)")
    return name


def test_a_target_with_keys_and_indexes_can_be_merged(sink: OpenSink) -> None:
    table = fresh_table()
    constrained(sink, merge_request(table), orders(1, 2, name="old"))
    for load in ("L2", "L3"):
        sink.ports.target.preflight(merge_request(table, load))
        sink.load(merge_request(table, load), orders(2, 3, name=load))
    assert {row["id"]: row["name"] for row in sink.rows(table)} == {1: "old", 2: "L3", 3: "L3"}


def test_a_target_with_keys_and_indexes_can_be_replaced_by_partition(sink: OpenSink) -> None:
    table = fresh_table()
    constrained(sink, replace_request(table), parts((1, "a"), (2, "b")))
    sink.ports.target.preflight(replace_request(table, "L2"))
    sink.load(replace_request(table, "L2"), parts((2, "b"), (3, "b")))
    assert sink.ids(table) == [1, 2, 3]


@pytest.mark.parametrize("strategy", [MERGE, REPLACE])
def test_a_refused_publication_leaves_the_target_and_staging_as_they_were(
    sink: OpenSink, strategy: StrategyMode
) -> None:
    """The last row breaks a constraint of the target when others are updated or deleted already."""
    table = fresh_table()
    if strategy is MERGE:
        sink.load(merge_request(table), orders(1, 2, name="old"))
        handle = sink.staged.stage(merge_request(table, "L2"), iter([orders(1, 2, 3, name="new")]))
    else:
        sink.load(replace_request(table), parts((1, "a"), (2, "b"), name="old"))
        handle = sink.staged.stage(replace_request(table, "L2"), iter([parts((1, "a"), (3, "b"), name="new")]))
    database_of(sink).rows(f"ALTER TABLE {table.schema}.{table.name} ALTER COLUMN name SET NOT NULL")
    staged = f"{handle.table.schema}.{handle.table.name}"
    database_of(sink).rows(f"UPDATE {staged} SET name = NULL WHERE id = 3")
    with pytest.raises(ConnectorError) as raised:
        sink.staged.finalize(handle)
    assert raised.value.code == "finaliser_refused"
    assert len(sink.rows(handle.table)) == handle.staged_rows
    assert {row["id"]: row["name"] for row in sink.rows(table)} == {1: "old", 2: "old"}
    database_of(sink).rows(f"UPDATE {staged} SET name = 'repaired' WHERE id = 3")
    sink.staged.finalize(handle)
    assert [row["name"] for row in sink.rows(table) if row["id"] == 3] == ["repaired"]
    sink.staged.cleanup(handle.ref)


@pytest.mark.parametrize("granularity", list(PartitionGranularity))
def test_null_is_a_partition(sink: OpenSink, granularity: PartitionGranularity) -> None:
    schema = TableSchema(
        columns=(
            Column(name="id", type=INT64, nullable=False),
            Column(name="day", type=ColumnType(kind=ColumnKind.DATE)),
        )
    )
    table, by = fresh_table(), PartitionBy(column="day", granularity=granularity)
    for load, ids in (("L1", (1, 2)), ("L2", (3,))):
        request = replace_request(table, load, schema=schema, partition_by=by)
        sink.load(request, batch_of(schema, [{"id": i, "day": None} for i in ids]))
    assert sink.ids(table) == [3]


def test_staging_elsewhere_is_merged_too(sink: OpenSink) -> None:
    table = fresh_table()
    for load in ("L1", "L2"):
        sink.load(replace(merge_request(table, load), staging_schema="elsewhere"), orders(1, 2))
    assert sink.ids(table) == [1, 2]
    assert sink.ports.target.leftovers(table, "elsewhere") == ()
