"""Each sink that stages key ranges keeps the laws of it. SQL Server is wire-tested against a TDS double."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpone_core.testing.range_staging_conformance import RangeStagingConformance
from dpone_core.testing.sink_conformance import OpenSink
from tests.connectors.mssql_servers import mssql_server
from tests.connectors.sessions import duckdb_sink, embedded_clickhouse, mssql_sink, postgres_sink
from tests.live.servers import scratch_postgres


class TestDuckDb(RangeStagingConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def sink(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
        with duckdb_sink(tmp_path_factory.mktemp("duckdb")) as opened:
            yield opened


class TestClickHouse(RangeStagingConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def sink(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
        with embedded_clickhouse(tmp_path_factory.mktemp("chdb")) as opened:
            yield opened


class TestPostgres(RangeStagingConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def sink(cls) -> Iterator[OpenSink]:
        with scratch_postgres() as uri, postgres_sink(uri) as opened:
            yield opened


class TestMssql(RangeStagingConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def sink(cls) -> Iterator[OpenSink]:
        with mssql_server() as server, mssql_sink(server.uri) as opened:
            yield opened
