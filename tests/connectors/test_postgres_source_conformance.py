"""The PostgreSQL source keeps every promise of a source, from a table, a view, partitions and a query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from dpone_core.connectors.postgres.open import open_source
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText
from dpone_core.ports.source import ExtractRequest
from dpone_core.testing.port_conformance import OpenSource, SourceConformance
from tests.connectors.sessions import connection
from tests.live.servers import scratch_postgres

ROWS = 70_000
FILLED = f"""
CREATE SCHEMA "er p";
CREATE TABLE "er p".orders (dropped int, id int8 NOT NULL, name text, amount numeric(18, 4)) PARTITION BY RANGE (id);
CREATE TABLE "er p".low PARTITION OF "er p".orders FOR VALUES FROM (0) TO (100);
CREATE TABLE "er p".high PARTITION OF "er p".orders DEFAULT;
ALTER TABLE "er p".orders DROP COLUMN dropped;
INSERT INTO "er p".orders SELECT i, CASE WHEN i % 2 = 0 THEN 'n' END, i / 10000.0 FROM generate_series(0, {ROWS - 1}) i;
CREATE VIEW public.all_orders AS SELECT * FROM "er p".orders;
"""


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with scratch_postgres() as uri:
        with psycopg.connect(uri, autocommit=True) as server:
            server.execute(FILLED)
        yield uri


def opened(database: str, request: ExtractRequest) -> Iterator[OpenSource]:
    with open_source(connection(database)) as ports:
        yield OpenSource(
            ports=ports,
            request=request,
            absent=ExtractRequest(table=TableName(schema="er p", name="nothing")),
            rows=ROWS,
            narrowed=lambda window: replace(request, window=window),
        )


class TestPartitionedTable(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, database: str) -> Iterator[OpenSource]:
        yield from opened(database, ExtractRequest(table=TableName(schema="er p", name="orders")))


class TestView(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, database: str) -> Iterator[OpenSource]:
        yield from opened(database, ExtractRequest(table=TableName(schema=None, name="all_orders")))


class TestQuery(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, database: str) -> Iterator[OpenSource]:
        text = "SELECT * FROM \"er p\".orders WHERE 'x' = {{ ds }} AND now() > {{ logical_date }}; -- all"
        values = {"ds": "x", "logical_date": "2026-01-01T00:00:00+00:00"}
        yield from opened(database, ExtractRequest(query=SqlText(text=text), token_values=values))
