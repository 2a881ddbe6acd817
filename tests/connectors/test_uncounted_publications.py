"""A target that cannot be counted: before the commit it is as it was, behind it nothing says so. Every staged sink.

LIFE-30, FAIL-08: whatever fails behind a commit is a post-commit failure. The count is refused by a session of the
sink's own kind that lets every other statement through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpone_core.connectors._sql.publication import publish
from dpone_core.connectors.clickhouse.catalog import artifact_of
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.sink import publish as clickhouse
from dpone_core.connectors.duckdb.database import Database
from dpone_core.connectors.duckdb.sink.publish import publication_dialect as duckdb_dialect
from dpone_core.connectors.postgres.database import Database as PostgresDatabase
from dpone_core.connectors.postgres.errors import SINK
from dpone_core.connectors.postgres.sink.publish import publication_dialect as postgres_dialect
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.artifacts import SHADOW
from dpone_core.model.load_config import TableName
from dpone_core.ports.sink import FinalizeResult, StagedHandle
from dpone_core.testing.builders import orders, stage_request
from dpone_core.testing.open_sink import MERGE
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.mssql_servers import mssql_server
from tests.connectors.sessions import (
    APPEND,
    FULL_REFRESH,
    connection,
    duckdb_sink,
    embedded_clickhouse,
    mssql_sink,
    postgres_sink,
    session_of,
)
from tests.live.servers import scratch_postgres

STRATEGIES = [FULL_REFRESH, APPEND, MERGE]
AFTER = {FULL_REFRESH: [2, 3], APPEND: [1, 2, 2, 3], MERGE: [1, 2, 3]}
Publish = Callable[[StagedHandle], FinalizeResult]


def refuse_count(sql: str, target: TableName) -> None:
    """Raises for a plain count of the target and for nothing else."""
    if re.fullmatch(rf"SELECT count\(\*?\) FROM \S*{target.name}\S", sql):
        raise ConnectorError("the count was refused", code="sink_query_failed")


def uncounted_duckdb(path: Path, target: TableName) -> Database:
    class Uncounted(Database):
        def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
            refuse_count(sql, target)
            return super().rows(sql, parameters)

        @staticmethod
        def ask_in(cursor: Any) -> Callable[[str, Sequence[object]], list[tuple[Any, ...]]]:
            ask = Database.ask_in(cursor)

            def asked(sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
                refuse_count(sql, target)
                return ask(sql, parameters)

            return asked

    return Uncounted(str(path))


class UncountedSession(Session):
    """ClickHouse counts a target before its commit too, to know what to expect: only later counts are refused."""

    target: TableName
    committed = False

    def attempt(self, sql: str) -> Exception | None:
        self.committed = True
        return super().attempt(sql)

    def rows(self, sql: str, parameters: Mapping[str, str] | None = None) -> list[list[Any]]:
        if self.committed:
            refuse_count(sql, self.target)
        return super().rows(sql, parameters)


def staged(sink: OpenSink, strategy: Any) -> tuple[TableName, StagedHandle]:
    """A target that holds rows 1 and 2, and a staged load of row 2 anew and row 3."""
    table = fresh_table()
    sink.load(stage_request(table, "L0"), orders(1, 2))
    request = replace(stage_request(table, "L1", strategy=strategy), unique_key=("id",))
    return table, sink.staged.stage(request, iter([orders(2, 3, name="new")]))


def uncounted_postgres(uri: str, target: TableName) -> PostgresDatabase:
    class Uncounted(PostgresDatabase):
        @staticmethod
        def ask_in(cursor: Any) -> Callable[[str, Sequence[object]], list[tuple[Any, ...]]]:
            ask = PostgresDatabase.ask_in(cursor)

            def asked(sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
                refuse_count(sql, target)
                return ask(sql, parameters)

            return asked

    return Uncounted(connection(uri), SINK)


def uncounted_mssql(uri: str, target: TableName) -> Any:
    from dpone_core.connectors.mssql.address import address_of
    from dpone_core.connectors.mssql.sink.database import Database as MssqlDatabase

    class Uncounted(MssqlDatabase):
        def _run(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
            if re.fullmatch(rf"SELECT COUNT_BIG\(\*\) AS held FROM \S*{target.name}\S", sql):
                raise ConnectorError("the count was refused", code="sink_query_failed")
            return super()._run(sql, parameters)

    return Uncounted(address_of(connection(uri)), lock_timeout_seconds=5)


def publish_mssql(database: Any, handle: StagedHandle) -> FinalizeResult:
    from dpone_core.connectors.mssql.sink.publish import publication_dialect as mssql_dialect

    return publish(mssql_dialect(database), handle)


def judge_transaction(sink: OpenSink, table: TableName, handle: StagedHandle, finalize: Publish, strategy: Any) -> None:
    """`finalize` cannot count: it changes nothing and may say so; behind the sink's own commit it may not."""
    with pytest.raises(ConnectorError) as raised:
        finalize(handle)
    assert not isinstance(raised.value, CommitOutcomeUnknownError)
    assert sink.ids(table) == [1, 2]
    assert sink.staged.finalize(handle).total_rows == len(AFTER[strategy])
    with pytest.raises(CommitOutcomeUnknownError):
        finalize(handle)
    assert sink.ids(table) == AFTER[strategy]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_duckdb_counts_before_its_commit(tmp_path: Path, strategy: Any) -> None:
    with duckdb_sink(tmp_path) as sink:
        table, handle = staged(sink, strategy)
        with closing(uncounted_duckdb(tmp_path / "warehouse.duckdb", table)) as uncounted:
            judge_transaction(sink, table, handle, lambda handle: publish(duckdb_dialect(uncounted), handle), strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_postgresql_counts_before_its_commit(strategy: Any) -> None:
    with scratch_postgres() as uri, postgres_sink(uri) as sink:
        table, handle = staged(sink, strategy)
        with closing(uncounted_postgres(uri, table)) as uncounted:
            judge_transaction(
                sink,
                table,
                handle,
                lambda handle: publish(postgres_dialect(uncounted, lock_timeout_seconds=5), handle),
                strategy,
            )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_sql_server_counts_before_its_commit(strategy: Any) -> None:
    with mssql_server() as server, mssql_sink(server.uri) as sink:
        table, handle = staged(sink, strategy)
        with closing(uncounted_mssql(server.uri, table)) as uncounted:
            judge_transaction(sink, table, handle, lambda handle: publish_mssql(uncounted, handle), strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_clickhouse_tells_what_it_knew_before_its_commit(tmp_path: Path, strategy: Any) -> None:
    """Its commit is one statement, so nothing can be counted inside it."""
    with embedded_clickhouse(tmp_path) as sink:
        table, handle = staged(sink, strategy)
        session = session_of(sink)
        uncounted = UncountedSession(session._connect, default_schema=session.default_schema, embedded=session.embedded)
        uncounted.target = table
        shadow = artifact_of(session, handle.ref, SHADOW)
        published = clickhouse.publish(uncounted, handle, table, shadow)
        assert uncounted.committed and published.total_rows == len(AFTER[strategy])
        with pytest.raises(CommitOutcomeUnknownError):
            clickhouse.publish(uncounted, handle, table, shadow)
        assert sink.ids(table) == AFTER[strategy]
