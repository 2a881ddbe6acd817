"""A publication holds its lease when it commits, or changes nothing: the row is locked inside the transaction.

Contract: STATE-27. SQL Server is wire-tested against a TDS double.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dpone_core.errors import LeaseLostError, LoadInProgressError
from dpone_core.model.connector import ConnectorType
from dpone_core.model.load_config import (
    LoadConfig,
    PartitionBy,
    PhysicalDesign,
    SinkConfig,
    SourceConfig,
    StrategyConfig,
    TableName,
)
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StagedHandle
from dpone_core.ports.state import Lease
from dpone_core.state.lease import LEASE_DURATION, LeaseStore
from dpone_core.testing.builders import load_identity, orders, stage_request
from dpone_core.testing.open_sink import MERGE, REPLACE, OpenSink, fresh_table
from tests.connectors.mssql_servers import mssql_server
from tests.connectors.sessions import APPEND, FULL_REFRESH, duckdb_sink, mssql_sink, postgres_sink
from tests.live.servers import scratch_postgres

STRATEGIES = [FULL_REFRESH, APPEND, MERGE, REPLACE]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


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


def config(table: TableName) -> LoadConfig:
    return LoadConfig(
        process="orders",
        manifest="m.yaml",
        source=SourceConfig(type=ConnectorType.SQLITE, table=TableName(schema=None, name="orders")),
        sink=SinkConfig(
            type=ConnectorType.POSTGRES, table=table, strategy=StrategyConfig(mode=StrategyMode.FULL_REFRESH)
        ),
    )


def leases(sink: OpenSink) -> LeaseStore:
    assert sink.ports.control is not None
    return LeaseStore(control=sink.ports.control, schema="etl_state", exclusive_process=False)


def staged(sink: OpenSink, table: TableName, load: str, strategy: StrategyMode, lease: Lease) -> StagedHandle:
    by_id = PhysicalDesign(partition_by=PartitionBy(column="id")) if strategy is REPLACE else PhysicalDesign()
    request = replace(stage_request(table, load, strategy=strategy), unique_key=("id",), physical_design=by_id)
    return sink.staged.stage(replace(request, fence=lease.row), iter([orders(2, 3)]))


def taken(sink: OpenSink, table: TableName, load: str, now: datetime = NOW) -> Lease:
    return leases(sink).acquire(config(table), load_identity(load), now)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("exists", [False, True], ids=["no_target", "target"])
@pytest.mark.parametrize("ended", [False, True], ids=["rival_loads", "rival_has_ended"])
def test_a_load_whose_lease_was_taken_publishes_nothing(
    sink: OpenSink, strategy: StrategyMode, exists: bool, ended: bool
) -> None:
    table = fresh_table()
    if exists:
        sink.load(stage_request(table, "L0"), orders(1, 2))
    late = staged(sink, table, "late", strategy, taken(sink, table, "late"))
    rival = taken(sink, table, "rival", NOW + 2 * LEASE_DURATION)
    if ended:
        leases(sink).release(rival)
    with pytest.raises(LeaseLostError) as raised:
        sink.staged.finalize(late)
    assert raised.value.code == "load_in_progress"
    assert sink.ids(table) == [1, 2] if exists else sink.ports.target.describe_target(table) is None
    sink.staged.cleanup(late.ref)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_load_publishes_under_its_lease_and_keeps_it(sink: OpenSink, strategy: StrategyMode) -> None:
    """Also one that has expired unnoticed: nobody can take it while the transaction holds its row."""
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1))
    lease = taken(sink, table, "owner", NOW - timedelta(days=1))
    handle = staged(sink, table, "owner", strategy, lease)
    assert leases(sink).renew(lease, NOW)
    sink.staged.finalize(handle)
    assert sink.ids(table) == ([2, 3] if strategy is FULL_REFRESH else [1, 2, 3])
    with pytest.raises(LoadInProgressError, match="owner"):
        taken(sink, table, "rival")
    sink.staged.cleanup(handle.ref)
