"""Merge and partition replacement on ClickHouse: what readers see, which partitions are touched, what is refused.

Contract: CH-03, CH-04, CH-07, CH-08, CH-09, CH-11, CH-14, CH-20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, timedelta
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from dpone_core.connectors.clickhouse.catalog import artifact_of
from dpone_core.connectors.clickhouse.cluster import missing_macros
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.sink.publish import publish
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import SHADOW
from dpone_core.model.load_config import PartitionBy, PartitionGranularity, PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult, StageRequest
from dpone_core.testing.builders import INT64, TEXT, batch_of, stage_request
from dpone_core.testing.open_sink import MERGE, REPLACE, OpenSink, fresh_table
from dpone_core.testing.replace_conformance import parts, replace_request
from tests.connectors.sessions import APPEND, FULL_REFRESH, embedded_clickhouse, session_of

DAYS = TableSchema(
    columns=(
        Column(name="id", type=INT64, nullable=False),
        Column(name="day", type=ColumnType(kind=ColumnKind.DATE), nullable=False),
        Column(name="name", type=TEXT),
    )
)
BY_DAY = PhysicalDesign(order_by=("id",), partition_by=PartitionBy(column="day", granularity=PartitionGranularity.DAY))
KEYED = (MERGE, REPLACE)


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with embedded_clickhouse(tmp_path_factory.mktemp("chdb")) as opened:
        yield opened


def daily(days: int, *, first_day: int = 0, name: str = "n") -> pa.RecordBatch:
    """One row a day; the id is the day's number."""
    numbers = range(first_day, first_day + days)
    return batch_of(DAYS, [{"id": n, "day": date(2024, 1, 1) + timedelta(days=n), "name": name} for n in numbers])


def request(
    table: TableName, load: str, strategy: StrategyMode = FULL_REFRESH, design: PhysicalDesign = BY_DAY
) -> StageRequest:
    plain = stage_request(table, load, strategy=strategy, schema=DAYS, unique_key=("id",))
    return replace(plain, physical_design=design)


def names(sink: OpenSink, table: TableName) -> dict[int, str]:
    return {int(str(row["id"])): str(row["name"]) for row in sink.rows(table)}


def finalized(sink: OpenSink, wanted: StageRequest, *batches: pa.RecordBatch) -> FinalizeResult:
    handle = sink.staged.stage(wanted, iter(batches))
    result = sink.staged.finalize(handle)
    sink.staged.cleanup(handle.ref)
    return result


@pytest.mark.parametrize("strategy", KEYED)
def test_a_reader_sees_whole_loads_only(sink: OpenSink, strategy: StrategyMode) -> None:
    """Every load gives all rows of twelve partitions one name: two names at once would be half a load (CH-03)."""
    table = fresh_table()
    sink.load(request(table, "L0"), daily(12, name="L0"))
    seen: set[tuple[int, int]] = set()
    begun, stop = Event(), Event()

    def read() -> None:
        while not stop.is_set():
            [row] = session_of(sink).rows(f"SELECT count(), uniqExact(name) FROM {table.schema}.{table.name}")
            seen.add((int(row[0]), int(row[1])))
            begun.set()

    reader = Thread(target=read)
    reader.start()
    begun.wait()
    for load in range(1, 6):
        sink.load(request(table, f"L{load}", strategy), daily(12, name=f"L{load}"))
    stop.set()
    reader.join()
    assert seen == {(12, 1)}
    assert set(names(sink, table).values()) == {"L5"}


def test_a_row_that_moves_to_another_partition_leaves_the_old_one(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(request(table, "L0"), daily(3, name="old"))
    moved = batch_of(DAYS, [{"id": 0, "day": date(2024, 1, 3), "name": "moved"}])
    result = finalized(sink, request(table, "L1", MERGE), moved)
    assert (result.inserted_rows, result.updated_rows, result.total_rows) == (0, 1, 3)
    assert names(sink, table) == {0: "moved", 1: "old", 2: "old"}


def test_partitions_a_merge_does_not_touch_are_linked_and_not_written(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(request(table, "L0"), daily(5, name="old"))
    before = _content(sink, table)
    sink.load(request(table, "L1", MERGE), daily(1, first_day=2, name="new"))
    after = _content(sink, table)
    assert {day for day in before if before[day] != after[day]} == {"20240103"}
    assert names(sink, table)[2] == "new"


def _content(sink: OpenSink, table: TableName) -> dict[str, str]:
    """Partition id -> hash of the files of its parts."""
    rows = session_of(sink).rows(
        "SELECT partition_id, min(hash_of_all_files) FROM system.parts WHERE database = {database:String}"
        " AND table = {name:String} AND active GROUP BY partition_id",
        {"database": table.schema or "", "name": table.name},
    )
    return {str(partition): str(content) for partition, content in rows}


def test_one_partition_is_replaced_in_place_and_several_are_exchanged(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(request(table, "L0"), daily(5, name="old"))
    assert finalized(sink, request(table, "L1", REPLACE), daily(1, name="one")).finaliser == "replace_partition"
    assert finalized(sink, request(table, "L2", REPLACE), daily(2, name="two")).finaliser == "exchange_shadow"
    assert names(sink, table) == {0: "two", 1: "two", 2: "old", 3: "old", 4: "old"}


@pytest.mark.parametrize("strategy", KEYED)
def test_more_partitions_than_a_block_of_the_engine_takes_are_one_load(sink: OpenSink, strategy: StrategyMode) -> None:
    """CH-11: the engine's own limit of a hundred partitions in a block aborts an insert."""
    table = fresh_table()
    sink.load(request(table, "L0"), daily(101, name="old"))
    sink.load(request(table, "L1", strategy), daily(101, first_day=50, name="new"))
    found = names(sink, table)
    assert len(found) == 151 and {found[n] for n in range(50, 151)} == {"new"}


@pytest.mark.parametrize("strategy", KEYED)
def test_more_partitions_than_the_limit_are_refused_before_the_commit(sink: OpenSink, strategy: StrategyMode) -> None:
    table = fresh_table()
    sink.load(request(table, "L0"), daily(1, name="old"))
    with pytest.raises(ConnectorError) as raised:
        sink.staged.stage(request(table, "L1", strategy), iter([daily(1001)]))
    assert raised.value.code == "partition_limit_exceeded" and raised.value.fix is not None
    assert names(sink, table) == {0: "old"} and sink.ports.target.leftovers(table, None) == ()


@pytest.mark.parametrize(
    ("strategy", "design", "held", "asked"),
    [
        (REPLACE, replace(BY_DAY, order_by=("day", "id")), "by (id)", "for (day, id)"),
        (MERGE, replace(BY_DAY, order_by=("day",)), "by (id)", "for (day)"),
        (
            REPLACE,
            replace(BY_DAY, partition_by=PartitionBy(column="day", granularity=PartitionGranularity.MONTH)),
            "by (toYYYYMMDD(day))",
            "for (toYYYYMM(day))",
        ),
    ],
)
def test_another_key_of_the_target_is_refused_with_both_expressions(
    sink: OpenSink, strategy: StrategyMode, design: PhysicalDesign, held: str, asked: str
) -> None:
    """CH-09."""
    table = fresh_table()
    sink.load(request(table, "L0"), daily(1))
    with pytest.raises(ConnectorError) as raised:
        sink.ports.target.preflight(request(table, "L1", strategy, design))
    assert raised.value.code == "physical_design_mismatch"
    assert held in str(raised.value) and asked in str(raised.value)
    assert sink.ports.target.leftovers(table, None) == ()


@pytest.mark.parametrize("strategy", KEYED)
def test_an_order_the_manifest_does_not_name_is_the_targets_own(sink: OpenSink, strategy: StrategyMode) -> None:
    """CH-09: staging is made like the target, whatever orders it."""
    table = fresh_table()
    sink.load(request(table, "L0", design=replace(BY_DAY, order_by=("day",))), daily(3, name="old"))
    wanted = request(table, "L1", strategy, replace(BY_DAY, order_by=()))
    sink.ports.target.preflight(wanted)
    sink.load(wanted, daily(2, first_day=1, name="new"))
    assert names(sink, table) == {0: "old", 1: "new", 2: "new"}
    assert "ORDER BY day" in sink.definition(table).replace("(day)\n", "day\n")


@pytest.mark.parametrize("sorted_by", ["id", "(id)", "tuple(id)"])
def test_a_key_is_the_same_with_and_without_parentheses(sink: OpenSink, sorted_by: str) -> None:
    table = fresh_table()
    session = session_of(sink)
    session.command(f"CREATE DATABASE IF NOT EXISTS {table.schema}")
    session.command(
        f"CREATE TABLE {table.schema}.{table.name} (id Int64, part String, name Nullable(String))"
        f" ENGINE = MergeTree PARTITION BY part ORDER BY {sorted_by}"
    )
    wanted = replace_request(table)
    wanted = replace(wanted, physical_design=replace(wanted.physical_design, order_by=("id",)))
    sink.ports.target.preflight(wanted)
    sink.load(wanted, parts((1, "a")))
    assert sink.ids(table) == [1]


def test_a_target_without_partitions_is_never_replaced_as_a_whole(sink: OpenSink) -> None:
    """Its one partition holds every row; staging made like it would have one as well (CH-08)."""
    table = fresh_table()
    sink.load(stage_request(table, "L0", schema=replace_request(table).schema), parts((1, "a"), (2, "b")))
    wanted = replace_request(table, "L1")
    with pytest.raises(ConnectorError) as raised:
        sink.ports.target.preflight(wanted)
    assert raised.value.code == "physical_design_mismatch"
    handle = sink.staged.stage(wanted, iter([parts((3, "b"))]))
    with pytest.raises(ConnectorError) as raised:
        sink.staged.finalize(handle)
    assert raised.value.code == "physical_design_mismatch"
    sink.staged.cleanup(handle.ref)
    assert sink.ids(table) == [1, 2]


class WritesMeanwhile:
    """The session, and somebody else who changes the target once a statement has run."""

    def __init__(self, session: Session, after: str, change: Callable[[], object]) -> None:
        self._session = session
        self._after = after
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def command(self, sql: str, **said: str) -> None:
        self._session.command(sql, **said)
        if self._after in sql:
            self._change()


@pytest.mark.parametrize("strategy", [APPEND, *KEYED])
@pytest.mark.parametrize("after", ["CLONE AS", "DROP TABLE IF EXISTS"])
def test_a_row_somebody_else_writes_meanwhile_is_not_lost_unnoticed(
    sink: OpenSink, strategy: StrategyMode, after: str
) -> None:
    """CH-14: counts are compared before the commit, so the shadow without that row is not published."""
    table = fresh_table()
    sink.load(request(table, "L0"), daily(3, name="old"))
    handle = sink.staged.stage(request(table, "L1", strategy), iter([daily(2, first_day=2, name="new")]))
    session = session_of(sink)

    def write() -> None:
        session.command(f"INSERT INTO {table.schema}.{table.name} (id, day, name) VALUES (99, '2024-01-01', 'theirs')")

    meddled: Any = WritesMeanwhile(session, after, write)
    with pytest.raises(ConnectorError) as raised:
        publish(meddled, handle, table, artifact_of(session, handle.ref, SHADOW))
    assert raised.value.code == "finaliser_refused" and raised.value.fix is not None
    sink.staged.cleanup(handle.ref)
    assert names(sink, table) == {0: "old", 1: "old", 2: "old", 99: "theirs"}


@pytest.mark.parametrize("strategy", list(StrategyMode))
def test_a_dictionary_on_the_target_stays_valid(sink: OpenSink, strategy: StrategyMode) -> None:
    """CH-07: DROP and RENAME would break what stands on the table."""
    table = fresh_table()
    sink.load(request(table, "L0"), daily(3, name="old"))
    session, dictionary = session_of(sink), f"{table.schema}.d_{table.name}"
    session.command(
        f"CREATE DICTIONARY {dictionary} (id UInt64, name String) PRIMARY KEY id SOURCE(CLICKHOUSE(QUERY"
        f" 'SELECT toUInt64(id) AS id, any(assumeNotNull(name)) AS name FROM {table.schema}.{table.name} GROUP BY id'))"
        " LIFETIME(0) LAYOUT(FLAT())"
    )
    named = f"SELECT dictGet('{dictionary}', 'name', toUInt64(1))"
    assert session.rows(named) == [["old"]]
    sink.load(request(table, "L1", strategy), daily(2, first_day=0, name="new"))
    session.command(f"SYSTEM RELOAD DICTIONARY {dictionary}")
    assert session.rows(named)[0][0] in (["new"] if strategy is not APPEND else ["old", "new"])
    session.command(f"DROP DICTIONARY {dictionary}")


@pytest.mark.parametrize("strategy", list(StrategyMode))
def test_a_database_without_exchange_is_refused_before_the_load(sink: OpenSink, strategy: StrategyMode) -> None:
    """CH-04: what decides is whether EXCHANGE works on two scratch tables, never the name of an engine."""
    session_of(sink).command("CREATE DATABASE IF NOT EXISTS no_exchange ENGINE = Memory")
    table = TableName(schema="no_exchange", name=fresh_table().name)
    with pytest.raises(ConnectorError) as raised:
        sink.ports.target.preflight(request(table, "L0", strategy))
    assert raised.value.code == "finaliser_assumption_failed"
    assert sink.ports.target.leftovers(table, None) == ()


def test_an_unknown_cluster_and_missing_macros_are_named(sink: OpenSink) -> None:
    design = PhysicalDesign(order_by=("id",), cluster="nowhere")
    asked = replace(request(fresh_table(), "L0", StrategyMode.FULL_REFRESH), physical_design=design)
    with pytest.raises(ConnectorError, match="'nowhere'") as raised:
        sink.ports.target.preflight(asked)
    assert raised.value.code == "finaliser_assumption_failed" and "cluster" in str(raised.value.fix)
    assert missing_macros(session_of(sink)) == ("shard", "replica")


def test_every_session_waits_for_its_inserts(sink: OpenSink) -> None:
    """CH-20, VAL-08."""
    settings = session_of(sink).rows(
        "SELECT name, value FROM system.settings WHERE name IN ('async_insert', 'insert_null_as_default')"
    )
    assert {str(name): str(value) for name, value in settings} == {"async_insert": "0", "insert_null_as_default": "0"}


def test_a_merge_target_is_ordered_by_its_key_unless_told_otherwise(sink: OpenSink) -> None:
    table, told = fresh_table(), fresh_table()
    sink.load(request(table, "L0", MERGE, PhysicalDesign()), daily(1))
    sink.load(request(told, "L0", MERGE, PhysicalDesign(order_by=("day", "id"))), daily(1))
    assert "ORDER BY id" in sink.definition(table).replace("(id)", "id")
    assert "ORDER BY (day, id)" in sink.definition(told)


def test_a_nullable_key_of_a_new_target_is_refused_by_name(sink: OpenSink) -> None:
    """LIFE-32, for whoever calls the sink without a plan, which makes key columns NOT NULL."""
    loose = TableSchema(columns=(replace(DAYS.columns[0], nullable=True), *DAYS.columns[1:]))
    wanted = replace(request(fresh_table(), "L0", MERGE, PhysicalDesign()), schema=loose)
    for step in (sink.ports.target.preflight, lambda r: sink.staged.stage(r, iter([]))):
        with pytest.raises(ConnectorError) as raised:
            step(wanted)
        assert raised.value.code == "order_by_column_nullable" and "'id'" in str(raised.value)


@pytest.mark.parametrize(
    ("zone", "granularity", "refused"),
    [
        ("'UTC'", PartitionGranularity.MONTH, False),
        ("'Asia/Kathmandu'", PartitionGranularity.MONTH, True),
        ("", PartitionGranularity.DAY, True),
        ("'Asia/Kathmandu'", PartitionGranularity.VALUE, False),
    ],
)
def test_ranges_replace_days_that_begin_at_midnight_in_utc_only(
    sink: OpenSink, zone: str, granularity: PartitionGranularity, refused: bool
) -> None:
    """A target of another hand may have days of its own zone, of which two ranges would each hold a part."""
    table, moment = fresh_table(), ColumnType(kind=ColumnKind.TIMESTAMP_TZ, fraction=6)
    session = session_of(sink)
    session.command(f"CREATE DATABASE IF NOT EXISTS {table.schema}")
    text = f"DateTime64(6{', ' if zone else ''}{zone})"
    session.command(f"CREATE TABLE {table} (id Int64, part {text}) ENGINE = MergeTree PARTITION BY part ORDER BY id")
    schema = TableSchema(columns=(Column(name="id", type=INT64), Column(name="part", type=moment)))
    wanted = replace_request(table, schema=schema, partition_by=PartitionBy(column="part", granularity=granularity))
    ranges = sink.ports.ranges
    assert ranges is not None
    if not refused:
        ranges.prepare(wanted)
        return
    with pytest.raises(ConnectorError) as raised:
        ranges.prepare(wanted)
    assert raised.value.code == "physical_design_mismatch" and "'part'" in str(raised.value)
