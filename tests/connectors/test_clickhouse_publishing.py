"""Publishing on ClickHouse: readers see the old rows or the new rows, and the target's design is never guessed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from threading import Event, Thread

import pyarrow as pa
import pytest

from dpone_core.connectors._sql.artifacts import find_artifacts
from dpone_core.connectors.clickhouse.ddl import Ddl
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import artifact_name
from dpone_core.model.load_config import PartitionBy, PartitionGranularity, PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType
from dpone_core.ports.sink import LineageColumns, StageRequest
from dpone_core.testing.builders import ORDERS, load_identity, orders, stage_request, with_column
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import APPEND, FULL_REFRESH, embedded_clickhouse, session_of

DAYS = with_column(ORDERS, Column(name="day", type=ColumnType(kind=ColumnKind.DATE), nullable=False))
BY_DAY = PhysicalDesign(order_by=("id",), partition_by=PartitionBy(column="day", granularity=PartitionGranularity.DAY))


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with embedded_clickhouse(tmp_path_factory.mktemp("chdb")) as opened:
        yield opened


def daily(days: int, *, first_id: int = 0) -> pa.RecordBatch:
    dates = pa.array([date(2024, 1, 1) + timedelta(days=i) for i in range(days)], pa.date32())
    ids = pa.array(range(first_id, first_id + days), pa.int64())
    arrays = [ids, pa.nulls(days, pa.string()), pa.nulls(days, pa.decimal128(18, 4)), dates]
    return pa.RecordBatch.from_arrays(arrays, names=list(DAYS.names))


def daily_request(table: TableName, load: str, **changes: object) -> StageRequest:
    return replace(stage_request(table, load, schema=DAYS), physical_design=BY_DAY, **changes)  # type: ignore[arg-type]


def watched(sink: OpenSink, table: TableName, work: object) -> set[int]:
    """Row counts a concurrent reader saw while `work` ran; it sees at least one count before and one after."""
    seen: set[int] = set()
    begun, stop = Event(), Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(int(session_of(sink).rows(f"SELECT count() FROM {table.schema}.{table.name}")[0][0]))
            begun.set()

    reader = Thread(target=read)
    reader.start()
    begun.wait()
    work()  # type: ignore[operator]
    stop.set()
    reader.join()
    return seen


def test_a_reader_of_a_full_refresh_sees_old_or_new_only(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(*range(100)))

    def refresh() -> None:
        for load in range(1, 21):
            sink.load(stage_request(table, f"L{load}"), orders(*range(100 + load % 2)))

    assert watched(sink, table, refresh) <= {100, 101}


def test_a_reader_of_an_append_over_many_partitions_sees_whole_loads_only(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(daily_request(table, "L0"), daily(12))

    def append() -> None:
        for load in range(1, 6):
            sink.load(daily_request(table, f"L{load}", strategy=APPEND), daily(12))

    assert watched(sink, table, append) <= {12 * loads for loads in range(1, 7)}
    assert len(sink.rows(table)) == 72


@pytest.mark.parametrize(("days", "finaliser"), [(1, "move_partition"), (3, "exchange_shadow")])
def test_one_partition_moves_and_several_are_exchanged(sink: OpenSink, days: int, finaliser: str) -> None:
    table = fresh_table()
    sink.load(daily_request(table, "L0"), daily(5))
    handle = sink.ports.staged.stage(daily_request(table, "L1", strategy=APPEND), iter([daily(days, first_id=9)]))
    result = sink.ports.staged.finalize(handle)
    assert (result.finaliser, result.total_rows) == (finaliser, 5 + days)
    assert sink.ports.staged.finalize(handle).finaliser == "already_published"
    sink.ports.staged.cleanup(handle.ref)
    assert sink.ports.target.leftovers(table, None) == ()
    assert len(sink.rows(table)) == 5 + days


def test_a_hundred_and_one_partitions_are_one_load(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(daily_request(table, "L0"), daily(101))
    sink.load(daily_request(table, "L1", strategy=APPEND), daily(101))
    assert len(sink.rows(table)) == 202


def test_more_partitions_than_the_limit_are_refused_with_a_way_out(sink: OpenSink) -> None:
    table = fresh_table()
    with pytest.raises(ConnectorError) as raised:
        sink.ports.staged.stage(daily_request(table, "L0"), iter([daily(1001)]))
    assert raised.value.code == "partition_limit_exceeded" and raised.value.fix is not None
    assert sink.ports.target.leftovers(table, None) == ()


@pytest.mark.parametrize(
    "design", [PhysicalDesign(order_by=("name",)), PhysicalDesign(partition_by=PartitionBy(column="name"))]
)
def test_a_nullable_key_is_refused_by_name(sink: OpenSink, design: PhysicalDesign) -> None:
    request = replace(stage_request(fresh_table()), physical_design=design)
    for step in (sink.ports.target.preflight, lambda r: sink.ports.staged.stage(r, iter([]))):
        with pytest.raises(ConnectorError) as raised:
            step(request)
        assert raised.value.code == "order_by_column_nullable" and "'name'" in str(raised.value)


def test_another_design_of_an_existing_target_is_refused(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(daily_request(table, "L0"), daily(1))
    sink.ports.target.preflight(daily_request(table, "L1"))
    for design in (replace(BY_DAY, order_by=("day", "id")), replace(BY_DAY, partition_by=PartitionBy(column="day"))):
        with pytest.raises(ConnectorError) as raised:
            sink.ports.target.preflight(replace(daily_request(table, "L1"), physical_design=design))
        assert raised.value.code == "physical_design_mismatch"
    assert sink.ports.target.leftovers(table, None) == ()


def test_a_design_that_is_not_asked_for_is_inherited(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(daily_request(table, "L0"), daily(1))
    wider = with_column(DAYS, Column(name="extra", type=ColumnType(kind=ColumnKind.STRING)))
    sink.load(stage_request(table, "L1", schema=wider))
    definition = sink.definition(table)
    assert "PARTITION BY toYYYYMMDD(day)" in definition and "ORDER BY" in definition and "extra" in definition


def test_a_target_that_rewrites_rows_is_refused(sink: OpenSink) -> None:
    table = fresh_table()
    session_of(sink).command(f"CREATE DATABASE IF NOT EXISTS {table.schema}")
    session_of(sink).command(
        f"CREATE TABLE {table.schema}.{table.name} (id Int64) ENGINE = ReplacingMergeTree ORDER BY id"
    )
    with pytest.raises(ConnectorError) as raised:
        sink.ports.target.preflight(stage_request(table))
    assert raised.value.code == "physical_design_mismatch"


def test_comments_and_ttl_of_a_target_survive_a_full_refresh(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(daily_request(table, "L0"), daily(1))
    name = f"{table.schema}.{table.name}"
    session_of(sink).command(f"ALTER TABLE {name} MODIFY TTL day + INTERVAL 99 YEAR")
    session_of(sink).command(f"ALTER TABLE {name} MODIFY COMMENT 'owned by finance'")
    sink.load(daily_request(table, "L1"), daily(2))
    sink.load(daily_request(table, "L2"), daily(3))
    definition = sink.definition(table)
    assert "TTL day + toIntervalYear(99)" in definition and "owned by finance [dpone " in definition
    assert definition.count("[dpone ") == 1 and "non_replicated_deduplication_window" not in definition


def test_the_definition_of_a_target_names_no_load_after_either_strategy(sink: OpenSink) -> None:
    table = fresh_table()
    for load, strategy in (("LOAD_A", FULL_REFRESH), ("LOAD_B", APPEND), ("LOAD_C", FULL_REFRESH)):
        lineage = LineageColumns(constants={"__dpone__load_id": load}, row_id_columns=("id",))
        sink.load(stage_request(table, load, strategy=strategy, lineage=lineage), orders(1))
    definition = sink.definition(table)
    assert "LOAD_" not in definition and "DEFAULT" not in definition


def test_null_is_never_a_default_even_for_insert_select(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(stage_request(table))
    with pytest.raises(ConnectorError):
        session_of(sink).command(f"INSERT INTO {table.schema}.{table.name} (id) SELECT NULL")


def test_full_refresh_then_append_makes_its_own_staging(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1))
    sink.load(stage_request(table, "L1", strategy=APPEND), orders(2))
    sink.load(stage_request(table, "L2"), orders(3))
    assert sink.ids(table) == [3]


def test_a_cluster_name_is_quoted() -> None:
    dropped = Ddl("main`c").drop(TableName(schema="d", name="t"))
    assert dropped.startswith("DROP TABLE IF EXISTS `d`.`t` ON CLUSTER `main\\`c` SYNC")


def test_artifact_names_are_short_distinct_and_hide_the_load() -> None:
    targets = [
        TableName(schema=schema, name=name)
        for schema in ("a", "b")
        for name in ("t" * 205, "t" * 206, "имя", "t.x", "t_x")
    ]
    names = {
        artifact_name(t, load_identity(load), role)
        for t in targets
        for load in ("L1", "L2")
        for role in ("stg", "shadow")
    }
    assert len(names) == len(targets) * 4
    assert max(len(name.encode()) for name in names) <= 109
    assert all(name.startswith("__dpone__") and "L1" not in name for name in names)


def test_only_exact_artifacts_of_the_target_are_leftovers() -> None:
    target = TableName(schema="a", name="t")
    own = artifact_name(target, load_identity(), "stg")
    others = (f"{own}x", artifact_name(TableName(schema="b", name="t"), load_identity(), "stg"), "t", "__dpone__loads")
    assert [left.table.name for left in find_artifacts(target, "a", (own, *others))] == [own]
