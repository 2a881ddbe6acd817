"""Staging that another process filled anew, after it was counted, is not what is published. ADR 0004, LIFE-47."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import PartitionBy, PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StageRequest
from dpone_core.testing.builders import INT64, batch_of, stage_request
from dpone_core.testing.open_sink import REPLACE, OpenSink, fresh_table
from tests.connectors.sessions import APPEND, embedded_clickhouse, postgres_sink
from tests.live.servers import scratch_postgres

DAYS = TableSchema(
    columns=(
        Column(name="id", type=INT64, nullable=False),
        Column(name="day", type=ColumnType(kind=ColumnKind.DATE), nullable=False),
    )
)
BY_DAY = PhysicalDesign(order_by=("id",), partition_by=PartitionBy(column="day"))


@pytest.fixture(scope="module", params=["postgres", "clickhouse"])
def sink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    if request.param == "clickhouse":
        with embedded_clickhouse(tmp_path_factory.mktemp("chdb")) as opened:
            yield opened
        return
    with scratch_postgres() as uri, postgres_sink(uri) as opened:
        yield opened


def by_day(table: TableName, load: str, strategy: StrategyMode) -> StageRequest:
    return replace(stage_request(table, load, strategy=strategy, schema=DAYS), physical_design=BY_DAY)


@pytest.mark.parametrize("strategy", [APPEND, REPLACE])
@pytest.mark.parametrize("exists", [False, True], ids=["no_target", "target"])
@pytest.mark.parametrize("late", [0, 2, 4], ids=["emptied", "begun", "grown"])
def test_staging_is_counted_again_where_it_is_published(
    sink: OpenSink, strategy: StrategyMode, exists: bool, late: int
) -> None:
    """All rows lie in one partition: one statement publishes them as they stand."""
    table, rows = fresh_table(), [{"id": number, "day": date(2024, 1, 1)} for number in range(9)]
    if exists:
        sink.load(by_day(table, "L0", StrategyMode.FULL_REFRESH), batch_of(DAYS, rows[:1]))
    request = by_day(table, "L1", strategy)
    counted = sink.staged.stage(request, iter([batch_of(DAYS, rows[1:4])]))
    sink.staged.stage(request, iter([batch_of(DAYS, rows[1 : 1 + late])]))
    with pytest.raises(ConnectorError) as raised:
        sink.staged.finalize(counted)
    assert raised.value.code == "finaliser_refused"
    assert sink.ports.target.describe_target(table) is None if not exists else sink.ids(table) == [0]
    sink.staged.cleanup(counted.ref)


def test_empty_staging_proves_a_move_only_when_it_was_handed_over(sink: OpenSink) -> None:
    """A process that was given up may have begun it anew: a person must look what became of the publication."""
    table, publications = fresh_table(), sink.ports.publications
    assert publications is not None
    sink.load(by_day(table, "L0", StrategyMode.FULL_REFRESH), batch_of(DAYS, [{"id": 0, "day": date(2024, 1, 1)}]))
    request = by_day(table, "L1", APPEND)
    begun = sink.staged.stage(request, iter([batch_of(DAYS, [])]))
    assert publications.contains(request.ref, publications.last_marker(table)) is not True
    sink.staged.cleanup(begun.ref)
