"""MySQL tables and queries keep every promise of a source, by either reader. Tested on MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from dpone_core.connectors.mysql.open import open_source
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText
from dpone_core.ports.source import ExtractRequest
from dpone_core.testing.port_conformance import OpenSource, SourceConformance
from tests.connectors.mysql_servers import connected
from tests.connectors.sessions import connection
from tests.live.servers import scratch_mysql

ROWS = 70_000


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_mysql() as uri:
        with closing(connected(uri)) as server, server.cursor() as cursor:
            cursor.execute("CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, name TEXT, amount DECIMAL(18,4))")
            values = ",".join(f"({i},{'NULL' if i % 2 else chr(39) + 'n' + chr(39)},{i / 10_000})" for i in range(ROWS))
            cursor.execute(f"INSERT INTO orders VALUES {values}")
        yield uri


@contextmanager
def opened(uri: str, request: ExtractRequest) -> Iterator[OpenSource]:
    with open_source(connection(uri)) as ports:
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
    def source(cls, uri: str) -> Iterator[OpenSource]:
        with opened(uri, ExtractRequest(table=TableName(schema=None, name="orders"))) as source:
            yield source


class TestQuery(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, uri: str) -> Iterator[OpenSource]:
        query = SqlText(text="SELECT * FROM orders WHERE 'x%' = {{ ds }} OR name LIKE 'never%'; -- all")
        with opened(uri, ExtractRequest(query=query, token_values={"ds": "x%"})) as source:
            yield source


@pytest.mark.slow
class TestTableByPyMySql(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, uri: str) -> Iterator[OpenSource]:
        request = ExtractRequest(table=TableName(schema=urlsplit(uri).path.strip("/"), name="orders"))
        with opened(f"{uri}?reader=pymysql", request) as source:
            yield source
