"""The commit boundary that DuckDB, PostgreSQL and SQL Server share: what differs ends the transaction on each of them.

SQL Server is wire-tested against a TDS double.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.load_config import PartitionBy, PhysicalDesign, TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StageRequest
from dpone_core.testing.builders import ORDERS, orders, stage_request
from dpone_core.testing.open_sink import MERGE, REPLACE, OpenSink, fresh_table
from tests.connectors.mssql_servers import mssql_server
from tests.connectors.sessions import APPEND, FULL_REFRESH, duckdb_sink, mssql_sink, postgres_sink
from tests.live.servers import scratch_postgres

STRATEGIES = [FULL_REFRESH, APPEND, MERGE, REPLACE]


@pytest.fixture(scope="module", params=["duckdb", "postgres", "mssql"])
def sink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    match request.param:
        case "duckdb":
            with duckdb_sink(tmp_path_factory.mktemp("duckdb")) as opened:
                yield opened
        case "postgres":
            with scratch_postgres() as uri, postgres_sink(uri) as opened:
                yield opened
        case _:
            with mssql_server() as server, mssql_sink(server.uri) as opened:
                yield opened


def asked(table: TableName, load: str, strategy: StrategyMode) -> StageRequest:
    by_id = PhysicalDesign(partition_by=PartitionBy(column="id")) if strategy is REPLACE else PhysicalDesign()
    return replace(stage_request(table, load, strategy=strategy), unique_key=("id",), physical_design=by_id)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("exists", [False, True], ids=["no_target", "target"])
@pytest.mark.parametrize("now", [(), (2, 3, 4)], ids=["emptied", "grown"])
def test_staging_that_is_not_what_was_counted_is_not_published(
    sink: OpenSink, strategy: StrategyMode, exists: bool, now: tuple[int, ...]
) -> None:
    table = fresh_table()
    if exists:
        sink.load(stage_request(table, "L0"), orders(1, 2))
    request = asked(table, "L1", strategy)
    counted = sink.staged.stage(request, iter([orders(2, 3)]))
    sink.staged.stage(request, iter([orders(*now)]))
    with pytest.raises(ConnectorError) as raised:
        sink.staged.finalize(counted)
    assert raised.value.code == "finaliser_refused" and not isinstance(raised.value, CommitOutcomeUnknownError)
    assert sink.ids(table) == [1, 2] if exists else sink.ports.target.describe_target(table) is None
    sink.staged.cleanup(request.ref)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_staging_that_is_gone_leaves_the_target_as_it_was(sink: OpenSink, strategy: StrategyMode) -> None:
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1, 2))
    request = asked(table, "L1", strategy)
    handle = sink.staged.stage(request, iter([orders(2, 3)]))
    sink.staged.cleanup(request.ref)
    with pytest.raises(ConnectorError, match="the staging table of this load does not exist any more") as raised:
        sink.staged.finalize(handle)
    assert raised.value.code == "finaliser_refused" and sink.ids(table) == [1, 2]


def test_a_column_that_the_target_lacks_is_told_before_the_load(sink: OpenSink) -> None:
    table, narrow = fresh_table(), TableSchema(columns=ORDERS.columns[:2])
    sink.load(stage_request(table, "L0", schema=narrow), orders(1).select(narrow.names))
    with pytest.raises(ConnectorError, match="the target has no column 'amount'") as raised:
        sink.ports.target.preflight(stage_request(table, "L1", strategy=APPEND))
    assert raised.value.code == "physical_design_mismatch"
