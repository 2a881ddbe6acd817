"""Tables that are not what they seem: engines that join rows later, settings of a profile, another node's answer.

Contract: CH-05, CH-15, CH-16, CH-22, CH-24, CH-25, CH-26, CH-27, VAL-09.
"""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import clickhouse_connect
import pyarrow as pa
import pytest

from dpone_core.connectors.clickhouse.catalog import artifact_of
from dpone_core.connectors.clickhouse.open import open_source_and_sink
from dpone_core.connectors.clickhouse.session import SETTINGS, Session
from dpone_core.connectors.clickhouse.sink.publish import publish
from dpone_core.connectors.clickhouse.sink.staging import ClickHouseStaging
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import SHADOW
from dpone_core.model.load_config import PartitionBy, PhysicalDesign, TableName
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import Side, StrategyMode
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SinkPorts, SourcePorts
from dpone_core.ports.sink import StageRequest
from dpone_core.ports.source import ExtractRequest
from dpone_core.testing.builders import batch_of, orders, stage_request
from dpone_core.testing.open_sink import REPLACE, OpenSink, fresh_table
from dpone_core.testing.replace_conformance import parts, replace_request
from tests.connectors.sessions import APPEND, clickhouse_sink, connection

KEYED = TableSchema(
    columns=(
        Column(name="id", type=ColumnType(kind=ColumnKind.INT64), nullable=False),
        Column(name="version", type=ColumnType(kind=ColumnKind.INT64), nullable=False),
        Column(name="sign", type=ColumnType(kind=ColumnKind.INT8), nullable=False),
    )
)
COLUMNS = "(id Int64, version Int64, sign Int8)"
REWRITING = [
    "ReplacingMergeTree",
    "ReplacingMergeTree(version)",
    "SummingMergeTree",
    "AggregatingMergeTree",
    "CoalescingMergeTree",
    "CollapsingMergeTree(sign)",
    "VersionedCollapsingMergeTree(sign, version)",
]
HOLDING_NOTHING = ["Memory", "Log", "Null", "Buffer(currentDatabase(), 'x', 1, 1, 1, 1, 1, 1, 1)"]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SourcePorts, SinkPorts]]:
    uri = f"chdb:///{tmp_path_factory.mktemp('chdb') / 'warehouse'}"
    with open_source_and_sink(connection(uri), lock_timeout_seconds=0) as both:
        yield both


@pytest.fixture(scope="module")
def session(opened: tuple[SourcePorts, SinkPorts]) -> Session:
    staging = opened[1].staged
    assert isinstance(staging, ClickHouseStaging)
    staging._session.command("CREATE DATABASE IF NOT EXISTS conformance")
    return staging._session


@pytest.fixture
def source(opened: tuple[SourcePorts, SinkPorts]) -> SourcePorts:
    return opened[0]


@pytest.fixture
def sink(opened: tuple[SourcePorts, SinkPorts]) -> SinkPorts:
    return opened[1]


def named(table: TableName) -> str:
    return f"{table.schema}.{table.name}"


def created(session: Session, engine: str, columns: str = COLUMNS) -> TableName:
    table = fresh_table()
    order = " ORDER BY id" if "MergeTree" in engine else ""
    session.command(f"CREATE TABLE {named(table)} {columns} ENGINE = {engine}{order}")
    return table


@pytest.mark.parametrize("strategy", list(StrategyMode))
@pytest.mark.parametrize("engine", [*REWRITING, *HOLDING_NOTHING])
def test_a_target_whose_rows_are_joined_or_lost_later_takes_no_load(
    session: Session, sink: SinkPorts, engine: str, strategy: StrategyMode
) -> None:
    """CH-26: no count of such a table is true, so nothing could be reconciled with it."""
    table = created(session, engine)
    by_version = PartitionBy(column="version")
    wanted = stage_request(table, strategy=strategy, schema=KEYED, unique_key=("id",), partition_by=by_version)
    assert sink.staged is not None
    for step in (sink.target.preflight, lambda asked: sink.staged.stage(asked, iter([]))):  # type: ignore[union-attr]
        with pytest.raises(ConnectorError) as raised:
            step(wanted)
        assert raised.value.code == "physical_design_mismatch"
        assert engine.partition("(")[0] in str(raised.value)
    assert sink.target.leftovers(table, None) == ()


def test_a_view_is_no_target(session: Session, sink: SinkPorts) -> None:
    behind, table = created(session, "MergeTree"), fresh_table()
    session.command(f"CREATE VIEW {named(table)} AS SELECT * FROM {named(behind)}")
    with pytest.raises(ConnectorError) as raised:
        sink.target.preflight(stage_request(table, schema=KEYED))
    assert raised.value.code == "physical_design_mismatch"


@pytest.mark.parametrize("final", [False, True])
def test_rows_of_a_replacing_source_are_read_and_counted_alike(
    session: Session, source: SourcePorts, final: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """CH-27: two versions of one key are two rows to the stream and to the probe, or one to both with FINAL."""
    table = created(session, "ReplacingMergeTree(version)")
    session.command(f"SYSTEM STOP MERGES {named(table)}")
    for version in (1, 2):
        session.command(f"INSERT INTO {named(table)} VALUES (7, {version}, 1)")
    whole = ExtractRequest(table=table)
    asked = ExtractRequest(query=SqlText(text=f"SELECT * FROM {named(table)} FINAL")) if final else whole
    with caplog.at_level(logging.WARNING, "dpone"):
        stream = source.source.open_stream(asked, source.source.describe(asked))
        rows = [row for batch in stream.batches() for row in batch.to_pylist()]
    assert source.metrics is not None
    counted = source.metrics.collect(
        MetricRequest(side=Side.SOURCE, extract=asked, null_counts=(), distinct_counts=("id",))
    )
    assert len(rows) == counted["row_count"] == (1 if final else 2)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (0 if final else 1) and all("ReplacingMergeTree" in line for line in told)


@pytest.mark.parametrize("engine", ["MergeTree", "Memory"])
def test_an_ordinary_source_is_read_without_a_word(
    session: Session, source: SourcePorts, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked = ExtractRequest(table=created(session, engine))
    with caplog.at_level(logging.WARNING, "dpone"):
        assert list(source.source.open_stream(asked, source.source.describe(asked)).batches()) == []
    assert caplog.records == []


def profiled(session: Session, **settings: int) -> Session:
    """The same engine under a user whose profile sets more."""
    path = str(session.rows("SELECT path FROM system.disks WHERE name = 'default'")[0][0])
    connect = partial(clickhouse_connect.get_client, interface="chdb", path=path, settings=dict(SETTINGS, **settings))
    return Session(connect, default_schema="default", embedded=True)


@pytest.mark.parametrize("token", ["L1/1/0", None])
def test_a_block_with_a_token_is_written_by_one_thread(session: Session, token: str | None) -> None:
    """CH-15: the engine itself says under which settings each row was written."""
    table = fresh_table()
    session.command(
        f"CREATE TABLE {named(table)} (id Int64, threads UInt64 DEFAULT getSetting('max_insert_threads'),"
        " token String DEFAULT getSetting('insert_deduplication_token')) ENGINE = MergeTree ORDER BY id"
        " SETTINGS non_replicated_deduplication_window = 100"
    )
    many = profiled(session, max_insert_threads=8, max_insert_block_size=1_000, min_insert_block_size_rows=1_000)
    batch = pa.RecordBatch.from_arrays([pa.array([1] * 1_000, pa.int64())], names=["id"])
    many.insert(named(table), [batch] * 10, token=token, message="refused")
    many.close()
    found = session.rows(f"SELECT count(), groupUniqArray(threads), groupUniqArray(token) FROM {named(table)}")
    assert found == [[10_000, [1], [token or ""]]]


class Meddled:
    """A session some of whose answers are not those of the node that took the rows."""

    def __init__(self, session: Session, *, keeps: int | None = None, knows_parts: bool = True) -> None:
        self._session = session
        self._keeps = keeps
        self._knows_parts = knows_parts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def insert(self, table: str, batches: list[pa.RecordBatch], **said: Any) -> None:
        self._session.insert(table, batches[: self._keeps], **said)

    def rows(self, sql: str, parameters: dict[str, str] | None = None) -> list[list[Any]]:
        return [] if "system.parts" in sql and not self._knows_parts else self._session.rows(sql, parameters)


def test_a_block_that_the_engine_dropped_is_counted(session: Session, sink: SinkPorts) -> None:
    """CH-16: whatever drops a block, the count of staging is asked before anything is published."""
    table = fresh_table()
    losing: Any = Meddled(session, keeps=1)
    with pytest.raises(ConnectorError) as raised:
        ClickHouseStaging(losing).stage(stage_request(table), iter([orders(1, 2), orders(3)]))
    assert raised.value.code == "staged_row_count_mismatch" and "3 rows" in str(raised.value)
    assert sink.target.describe_target(table) is None and sink.target.leftovers(table, None) == ()


BY_NAME = PhysicalDesign(order_by=("id",), partition_by=PartitionBy(column="part"))


@pytest.mark.parametrize("strategy", [APPEND, REPLACE, StrategyMode.INCREMENTAL_MERGE])
def test_staged_rows_that_another_node_does_not_find_are_no_empty_load(
    session: Session, sink: SinkPorts, strategy: StrategyMode
) -> None:
    """CH-22: behind a balancer the answer of a node without staging reads as if there were nothing to publish."""
    assert sink.staged is not None
    table = fresh_table()
    first = replace(replace_request(table, "L0"), physical_design=BY_NAME)
    before = sink.staged.stage(first, iter([parts((1, "a"), (2, "b"))]))
    sink.staged.finalize(before)
    sink.staged.cleanup(before.ref)
    wanted: StageRequest = replace(
        replace_request(table, "L1"), physical_design=BY_NAME, strategy=strategy, unique_key=("id",)
    )
    handle = sink.staged.stage(wanted, iter([parts((3, "b"))]))
    other: Any = Meddled(session, knows_parts=False)
    with pytest.raises(ConnectorError) as raised:
        publish(other, handle, table, artifact_of(session, handle.ref, SHADOW))
    assert raised.value.code == "finaliser_refused" and raised.value.fix is not None
    sink.staged.cleanup(handle.ref)
    assert session.rows(f"SELECT id, part FROM {named(table)} ORDER BY id") == [[1, "a"], [2, "b"]]


LONGEST = {"conformance": 202, "default": 206, "имя": 195}
"""Database, and the characters that a name has room for in it."""


@pytest.mark.parametrize("strategy", list(StrategyMode))
@pytest.mark.parametrize(
    ("database", "letter"), [("conformance", "n"), ("default", "n"), ("имя", "n"), ("default", "я")]
)
def test_the_longest_name_leaves_room_for_staging_and_shadow(
    session: Session, sink: SinkPorts, database: str, letter: str, strategy: StrategyMode
) -> None:
    """CH-24: each load has tables of its own beside the target, and they are gone afterwards."""
    assert sink.staged is not None
    session.command(f"CREATE DATABASE IF NOT EXISTS `{database}`")
    suffix = f"_{list(StrategyMode).index(strategy)}"
    room = LONGEST[database] - len(suffix)
    table = TableName(schema=database, name=letter * (room if letter == "n" else room // 6) + suffix)
    names = set()
    for load, mode in (("L0", REPLACE), ("L1", strategy)):
        design = {"physical_design": BY_NAME, "strategy": mode, "unique_key": ("id",)}
        wanted = replace(replace_request(table, load), **design)  # type: ignore[arg-type]
        sink.target.preflight(wanted)
        handle = sink.staged.stage(wanted, iter([parts((1, "a"), (2, "b"))]))
        names.add(handle.table.name)
        sink.staged.finalize(handle)
        sink.staged.cleanup(handle.ref)
    assert len(names) == 2 and sink.target.leftovers(table, None) == ()
    rows = session.rows(f"SELECT count() FROM `{database}`.`{table.name}`")
    assert rows == [[4 if strategy is APPEND else 2]]


@pytest.mark.parametrize(
    ("database", "name"),
    [
        ("conformance", "n" * 203),
        ("default", "n" * 207),
        ("имя", "n" * 196),
        ("default", "я" * 35),
        ("default", "." * 69),
    ],
)
def test_a_name_that_is_too_long_is_refused_before_a_row_is_read(
    session: Session, sink: SinkPorts, database: str, name: str
) -> None:
    """CH-25: staging has a short name, so the engine itself would say so only at the commit."""
    session.command(f"CREATE DATABASE IF NOT EXISTS `{database}`")
    table = TableName(schema=database, name=name)
    assert session.attempt(f"CREATE TABLE `{database}`.`{name}` (a Int8) ENGINE = Memory") is not None
    with pytest.raises(ConnectorError) as raised:
        sink.target.preflight(stage_request(table))
    assert raised.value.code == "finaliser_assumption_failed" and str(LONGEST[database]) in str(raised.value)
    assert raised.value.fix is not None and sink.target.leftovers(table, None) == ()


def test_what_is_no_number_is_no_null(session: Session, sink: SinkPorts, source: SourcePorts) -> None:
    """VAL-09: counted where the values are, never in rows that a driver has made into Python."""
    table = created(session, "MergeTree", "(id Int64, v Nullable(Float64))")
    session.command(f"INSERT INTO {named(table)} VALUES (1, nan), (2, inf), (3, -inf), (4, NULL), (5, 0), (6, nan)")
    assert sink.metrics is not None and source.metrics is not None
    asked = {"null_counts": ("v",), "distinct_counts": ("v",)}
    of_sink = sink.metrics.collect(MetricRequest(side=Side.TARGET, table=table, **asked))  # type: ignore[arg-type]
    extract = ExtractRequest(table=table)
    of_source = source.metrics.collect(MetricRequest(side=Side.SOURCE, extract=extract, **asked))  # type: ignore[arg-type]
    for answer in (of_sink, of_source):
        assert (answer["row_count"], answer["null_counts"], answer["distinct_counts"]) == (6, {"v": 1}, {"v": 4})
    stream = source.source.open_stream(extract, source.source.describe(extract))
    values = {row["id"]: row["v"] for batch in stream.batches() for row in batch.to_pylist()}
    assert math.isnan(values[1]) and values[2] == math.inf and values[3] == -math.inf and values[4] is None


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    double = Path(__file__).with_name("clickhouse_http_double.py")
    directory = str(tmp_path_factory.mktemp("served") / "data")
    with subprocess.Popen([sys.executable, str(double), directory], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


@pytest.fixture(scope="module")
def served(port: int) -> Iterator[OpenSink]:
    with clickhouse_sink(f"clickhouse://127.0.0.1:{port}/default") as found:
        yield found


@pytest.mark.parametrize("strategy", list(StrategyMode))
def test_a_server_whose_files_cannot_be_exchanged_is_found_out_on_scratch_tables(
    port: int, served: OpenSink, strategy: StrategyMode
) -> None:
    """CH-05: the engine is the right one, and the kernel below it says no (code 48)."""
    table = fresh_table()
    fault = {"match": "^EXCHANGE", "stage": "before", "code": 48, "times": 1}
    address = f"http://127.0.0.1:{port}/_faults"
    urllib.request.urlopen(address, data=json.dumps([fault]).encode(), timeout=10).read()
    wanted = replace(replace_request(table, "L1"), strategy=strategy, unique_key=("id",))
    with pytest.raises(ConnectorError) as raised:
        served.ports.target.preflight(wanted)
    assert raised.value.code == "finaliser_assumption_failed"
    assert json.loads(urllib.request.urlopen(address, data=b"[]", timeout=10).read()) == [0]
    assert served.ports.target.leftovers(table, None) == () and served.ports.target.describe_target(table) is None
    served.load(wanted, batch_of(wanted.schema, [{"id": 1, "part": "a"}]))
    assert served.ids(table) == [1]
