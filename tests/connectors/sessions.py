"""Opens each sink and source the way the conformance suites want them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from dpone_core.connectors.clickhouse.ddl import qualify as clickhouse_name
from dpone_core.connectors.clickhouse.open import open_sink as open_clickhouse
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.connectors.clickhouse.sink.staging import ClickHouseStaging
from dpone_core.connectors.duckdb.database import Database
from dpone_core.connectors.duckdb.database import qualify as duckdb_name
from dpone_core.connectors.duckdb.open import open_sink as open_duckdb
from dpone_core.connectors.duckdb.sink.staging import DuckDbStaging
from dpone_core.connectors.files.open import open_sink as open_files
from dpone_core.connectors.files.part_files import read_part
from dpone_core.connectors.files.sink.target_directory import TargetDirectory
from dpone_core.connectors.postgres.catalog import qualify as postgres_name
from dpone_core.connectors.postgres.database import Database as PostgresDatabase
from dpone_core.connectors.postgres.open import open_sink as open_postgres
from dpone_core.connectors.postgres.sink.staging import PostgresStaging
from dpone_core.declared import clickhouse, duckdb, files, mssql, postgres
from dpone_core.model.connection import Connection
from dpone_core.model.load_config import TableName
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import ExtractRequest
from dpone_core.testing.fakes import MemoryWarehouse
from dpone_core.testing.legacy_fakes import legacy_ports, legacy_rows
from dpone_core.testing.port_conformance import OpenSource
from dpone_core.testing.sink_conformance import OpenSink

ROWS = 70_000
"""Orders in a source of a conformance suite."""
NOTHING = TableName(schema=None, name="nothing")


def connection(uri: str) -> Connection:
    return Connection(ref="under_test", uri=uri, origin="test")


def open_orders(
    ports: SourcePorts, request: ExtractRequest, absent: TableName = NOTHING, rows: int = ROWS
) -> OpenSource:
    """A source whose `request` gives `ROWS` orders, for its conformance suite; `absent` names no table there."""
    return OpenSource(
        ports=ports,
        request=request,
        absent=ExtractRequest(table=absent),
        rows=ROWS,
        narrowed=lambda window: replace(request, window=window),
    )


def session_of(sink: OpenSink) -> Session:
    assert isinstance(sink.ports.staged, ClickHouseStaging)
    return sink.ports.staged._session


def database_of(sink: OpenSink) -> Database:
    assert isinstance(sink.ports.staged, DuckDbStaging)
    return sink.ports.staged._database


@contextmanager
def clickhouse_sink(uri: str) -> Iterator[OpenSink]:
    with open_clickhouse(connection(uri), lock_timeout_seconds=0) as ports:
        assert isinstance(ports.staged, ClickHouseStaging)
        session = ports.staged._session

        def rows(table: TableName) -> list[dict[str, object]]:
            return list(session.client().query(f"SELECT * FROM {clickhouse_name(table)}").named_results())

        def definition(table: TableName) -> str:
            return str(session.rows(f"SHOW CREATE TABLE {clickhouse_name(table)}")[0][0])

        yield OpenSink(descriptor=clickhouse.DESCRIPTOR, ports=ports, rows=rows, definition=definition)


@contextmanager
def embedded_clickhouse(directory: Path) -> Iterator[OpenSink]:
    with clickhouse_sink(f"chdb:///{directory / 'warehouse'}") as sink:
        yield sink


@contextmanager
def duckdb_sink(directory: Path) -> Iterator[OpenSink]:
    with open_duckdb(connection(f"duckdb:///{directory / 'warehouse.duckdb'}"), lock_timeout_seconds=0) as ports:
        assert isinstance(ports.staged, DuckDbStaging)
        database = ports.staged._database

        def rows(table: TableName) -> list[dict[str, object]]:
            cursor = database.new_cursor().execute(f"SELECT * FROM {duckdb_name(table)}")
            names = [str(column[0]) for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

        def definition(table: TableName) -> str:
            found: Any = database.rows(
                "SELECT sql, comment FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?",
                (table.schema, table.name),
            )
            return str(found)

        yield OpenSink(descriptor=duckdb.DESCRIPTOR, ports=ports, rows=rows, definition=definition)


def postgres_database_of(sink: OpenSink) -> PostgresDatabase:
    assert isinstance(sink.ports.staged, PostgresStaging)
    return sink.ports.staged._database


@contextmanager
def postgres_sink(uri: str, *, lock_timeout_seconds: float = 5) -> Iterator[OpenSink]:
    with open_postgres(connection(uri), lock_timeout_seconds=lock_timeout_seconds) as ports:
        assert isinstance(ports.staged, PostgresStaging)
        database = ports.staged._database

        def rows(table: TableName) -> list[dict[str, object]]:
            cursor = database.connection().execute(f"SELECT * FROM {postgres_name(table)}".encode())
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

        def definition(table: TableName) -> str:
            found: Any = database.rows(
                "SELECT obj_description(c.oid), array_agg(format('%s %s %s %s', attname, atttypid::regtype, attnotnull,"
                " pg_get_expr(adbin, adrelid)) ORDER BY attnum) FROM pg_class c JOIN pg_attribute a ON a.attrelid ="
                " c.oid AND attnum > 0 LEFT JOIN pg_attrdef d ON adrelid = c.oid AND adnum = attnum"
                " WHERE c.oid = to_regclass($1) GROUP BY c.oid",
                (postgres_name(table),),
            )
            return str(found)

        yield OpenSink(descriptor=postgres.DESCRIPTOR, ports=ports, rows=rows, definition=definition)


def mssql_source(uri: str) -> AbstractContextManager[SourcePorts]:
    """Imports pyodbc, which a machine without unixODBC does not have."""
    from dpone_core.connectors.mssql.open import open_source

    return open_source(connection(uri))


@contextmanager
def mssql_sink(uri: str, *, lock_timeout_seconds: float = 5) -> Iterator[OpenSink]:
    """Imports pyodbc, which a machine without unixODBC does not have."""
    from dpone_core.connectors.mssql.open import open_sink as open_mssql
    from dpone_core.connectors.mssql.sink.catalog import qualify
    from dpone_core.connectors.mssql.sink.staging import MssqlStaging

    with open_mssql(connection(uri), lock_timeout_seconds=lock_timeout_seconds) as ports:
        assert isinstance(ports.staged, MssqlStaging)
        database = ports.staged._database

        def rows(table: TableName) -> list[dict[str, object]]:
            cursor = database.connection().execute(f"SELECT * FROM {qualify(table)}")
            columns = cursor.description or ()
            return [
                {str(c[0]): _instant(value) for c, value in zip(columns, row, strict=True)} for row in cursor.fetchall()
            ]

        def definition(table: TableName) -> str:
            columns: Any = database.rows(
                "SELECT * FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
                (table.schema, table.name),
            )
            attached = database.rows(
                "SELECT o.name, CAST(p.value AS nvarchar(200)) AS value FROM sys.objects AS o LEFT JOIN"
                " sys.extended_properties AS p ON p.major_id = o.object_id WHERE o.name LIKE ? OR o.name = ?",
                (f"%{table.name}%", table.name),
            )
            return f"{columns} {attached}"

        yield OpenSink(descriptor=mssql.DESCRIPTOR, ports=ports, rows=rows, definition=definition)


def _instant(value: object) -> object:
    """The driver gives a datetimeoffset as its text in UTC."""
    is_text = isinstance(value, str) and len(value) == 33 and value.endswith("+00:00")
    return datetime.fromisoformat(str(value)) if is_text else value


def memory_sink(warehouse: MemoryWarehouse | None = None) -> OpenSink:
    held = warehouse if warehouse is not None else MemoryWarehouse()
    return OpenSink(
        descriptor=duckdb.DESCRIPTOR,
        ports=held.ports(),
        rows=lambda table: list(held.rows(table)),
        definition=lambda table: str(held.tables[table].schema),
    )


@contextmanager
def files_sink(directory: Path) -> Iterator[OpenSink]:
    with open_files(connection(f"file:///{directory / 'lake'}"), lock_timeout_seconds=0) as ports:

        def rows(table: TableName) -> list[dict[str, object]]:
            target = TargetDirectory(base=directory / "lake", table=table)
            known = target.describe()
            assert known is not None
            parts = target.parts()
            return [row for part in parts for batch in read_part(part, known.schema) for row in batch.to_pylist()]

        def definition(table: TableName) -> str:
            return str(TargetDirectory(base=directory / "lake", table=table).describe())

        yield OpenSink(descriptor=files.DESCRIPTOR, ports=ports, rows=rows, definition=definition)


def memory_legacy_sink(warehouse: MemoryWarehouse | None = None) -> OpenSink:
    held = warehouse if warehouse is not None else MemoryWarehouse()
    return OpenSink(
        descriptor=files.DESCRIPTOR,
        ports=legacy_ports(held),
        rows=lambda table: legacy_rows(held, table),
        definition=lambda table: str(held.tables[table].schema),
    )


FULL_REFRESH = StrategyMode.FULL_REFRESH
APPEND = StrategyMode.INCREMENTAL_APPEND
