"""SQL Server tables and queries keep every promise of a source, by either reader.

Wire-tested against a TDS double; against a server where DPONE_TEST_MSSQL_URI names one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText
from dpone_core.ports.source import ExtractRequest
from dpone_core.testing.port_conformance import OpenSource, SourceConformance
from tests.connectors.mssql_servers import MssqlServer, mssql_server
from tests.connectors.sessions import mssql_source

ROWS = 70_000


@pytest.fixture(scope="module")
def server() -> Iterator[MssqlServer]:
    with mssql_server() as server:
        server.run("CREATE TABLE dbo.orders (id bigint NOT NULL PRIMARY KEY, name nvarchar(50), amount decimal(18,4))")
        server.fill_orders(ROWS)
        yield server


@contextmanager
def opened(uri: str, request: ExtractRequest) -> Iterator[OpenSource]:
    with mssql_source(uri) as ports:
        yield OpenSource(
            ports=ports,
            request=request,
            absent=ExtractRequest(table=TableName(schema=None, name="nothing")),
            rows=ROWS,
            narrowed=lambda window: replace(request, window=window),
        )


class TestTable(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, server: MssqlServer) -> Iterator[OpenSource]:
        with opened(server.uri, ExtractRequest(table=TableName(schema=None, name="orders"))) as source:
            yield source


class TestQuery(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, server: MssqlServer) -> Iterator[OpenSource]:
        query = SqlText(
            text="WITH chosen AS (SELECT id, name, amount FROM dbo.orders WHERE N'x;é😀' = {{ ds }})\n"
            "SELECT id, name, amount FROM chosen; -- all"
        )
        with opened(server.uri, ExtractRequest(query=query, token_values={"ds": "x;é😀"})) as source:
            yield source


class TestQueryInBulk(SourceConformance):
    """Names and values in ASCII: arrow-odbc binds the token."""

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, server: MssqlServer) -> Iterator[OpenSource]:
        query = SqlText(text="SELECT id, name, amount FROM dbo.orders WHERE 'x;''y' = {{ ds }}")
        with opened(server.uri, ExtractRequest(query=query, token_values={"ds": "x;'y"})) as source:
            yield source


@pytest.mark.slow
class TestTableByPyOdbc(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, server: MssqlServer) -> Iterator[OpenSource]:
        request = ExtractRequest(table=TableName(schema="dbo", name="orders"))
        with opened(f"{server.uri}&reader=pyodbc", request) as source:
            yield source
