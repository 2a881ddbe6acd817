"""What a sink knows of an append whose process died: in the target, not in the target, or not known; never a guess.

Contract: LIFE-26. `mark` is taken where a load takes it: right before the commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from dpone_core.model.load_config import PartitionBy, PartitionGranularity, PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType
from dpone_core.ports.sink import PublicationPort, StagedHandle, StageRequest
from dpone_core.testing.builders import ORDERS, orders, stage_request, with_column
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import APPEND, duckdb_sink, embedded_clickhouse, memory_sink

DAYS = with_column(ORDERS, Column(name="day", type=ColumnType(kind=ColumnKind.DATE), nullable=False))
BY_DAY = PhysicalDesign(order_by=("id",), partition_by=PartitionBy(column="day", granularity=PartitionGranularity.DAY))


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    """One for the whole module: the embedded engine opens one path per process."""
    with embedded_clickhouse(tmp_path_factory.mktemp("chdb")) as opened:
        yield opened


@pytest.fixture(params=["memory", "duckdb", "clickhouse"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenSink]:
    match request.param:
        case "memory":
            yield memory_sink()
        case "duckdb":
            with duckdb_sink(tmp_path) as opened:
                yield opened
        case _:
            yield request.getfixturevalue("clickhouse")


def publications(sink: OpenSink) -> PublicationPort:
    assert sink.ports.publications is not None
    return sink.ports.publications


def staged(sink: OpenSink, table: TableName, load: str, *ids: int) -> StagedHandle:
    assert sink.ports.staged is not None
    return sink.ports.staged.stage(stage_request(table, load, strategy=APPEND), iter([orders(*ids)]))


def published(sink: OpenSink, handle: StagedHandle) -> StageRequest:
    assert sink.ports.staged is not None
    sink.ports.staged.finalize(handle)
    return handle.request


@pytest.mark.parametrize("target_exists", [False, True])
def test_an_append_is_in_the_target_from_its_commit_on_and_not_before(sink: OpenSink, target_exists: bool) -> None:
    table = fresh_table()
    if target_exists:
        sink.load(stage_request(table, "L0", strategy=APPEND), orders(1))
    handle = staged(sink, table, "L1", 2, 3)
    mark = publications(sink).last_marker(table)
    assert (mark is not None) is target_exists
    assert publications(sink).contains(handle.ref, mark) is False
    published(sink, handle)
    assert publications(sink).contains(handle.ref, mark) is True


def test_a_target_that_was_dropped_holds_nothing(sink: OpenSink) -> None:
    request = stage_request(fresh_table(), "L1", strategy=APPEND)
    assert publications(sink).contains(request.ref, "[dpone 0000000000000000]") is False


def test_a_later_publication_over_it_is_never_read_as_not_published(sink: OpenSink) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0", strategy=APPEND), orders(1))
    handle = staged(sink, table, "L1", 2)
    mark = publications(sink).last_marker(table)
    published(sink, handle)
    assert sink.ports.staged is not None
    sink.ports.staged.cleanup(handle.ref)
    sink.load(stage_request(table, "L2"), orders(9))
    assert publications(sink).contains(handle.ref, mark) is None


def daily(*days: int) -> pa.RecordBatch:
    ids = pa.array(days, pa.int64())
    columns = [ids, pa.nulls(len(days), pa.string()), pa.nulls(len(days), pa.decimal128(18, 4))]
    dates = pa.array([date(2024, 1, day) for day in days], pa.date32())
    return pa.RecordBatch.from_arrays([*columns, dates], names=list(DAYS.names))


def test_an_exchanged_append_over_several_partitions_is_known_by_its_marker(clickhouse: OpenSink) -> None:
    """Its staging is as full after the commit as before it."""
    table, sink = fresh_table(), clickhouse

    def request(load: str) -> StageRequest:
        return replace(stage_request(table, load, schema=DAYS, strategy=APPEND), physical_design=BY_DAY)

    sink.load(request("L0"), daily(1))
    assert sink.ports.staged is not None
    handle = sink.ports.staged.stage(request("L1"), iter([daily(1, 2, 3)]))
    mark = publications(sink).last_marker(table)
    assert publications(sink).contains(handle.ref, mark) is False
    assert sink.ports.staged.finalize(handle).finaliser == "exchange_shadow"
    assert publications(sink).contains(handle.ref, mark) is True


def test_a_moved_append_without_its_staging_is_not_known(clickhouse: OpenSink) -> None:
    table, sink = fresh_table(), clickhouse
    sink.load(stage_request(table, "L0", strategy=APPEND), orders(1))
    handle = staged(sink, table, "L1", 2)
    mark = publications(sink).last_marker(table)
    published(sink, handle)
    assert sink.ports.staged is not None
    sink.ports.staged.cleanup(handle.ref)
    assert publications(sink).contains(handle.ref, mark) is None
