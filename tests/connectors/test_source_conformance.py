"""SQLite and Parquet sources keep every promise of a source."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dpone_core.connectors.files.open import open_source as open_files
from dpone_core.connectors.sqlite.open import open_source as open_sqlite
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText
from dpone_core.ports.source import CursorWindow, ExtractRequest
from dpone_core.testing.builders import ORDERS, arrow_schema, batch_of
from dpone_core.testing.port_conformance import OpenSource, SourceConformance
from tests.connectors.sessions import ROWS, connection, open_orders


def sqlite_file(directory: Path) -> Path:
    path = directory / "er p.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, amount DECIMAL(18,4))")
    database.executemany(
        "INSERT INTO orders VALUES (?, ?, ?)", ((i, None if i % 2 else "n", i / 10_000) for i in range(ROWS))
    )
    database.commit()
    database.close()
    return path


class TestSqliteTable(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSource]:
        path = sqlite_file(tmp_path_factory.mktemp("sqlite"))
        request = ExtractRequest(table=TableName(schema=None, name="orders"))
        with open_sqlite(connection(f"sqlite:///{path}")) as ports:
            yield open_orders(ports, request)


class TestSqliteQuery(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSource]:
        path = sqlite_file(tmp_path_factory.mktemp("sqlite"))
        request = ExtractRequest(
            query=SqlText(text="SELECT * FROM orders WHERE 'x' = {{ ds }}; -- all"), token_values={"ds": "x"}
        )
        with open_sqlite(connection(f"sqlite:///{path}")) as ports:
            yield open_orders(ports, request, TableName(schema="main", name="nothing"))


class TestParquetDirectory(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSource]:
        directory = tmp_path_factory.mktemp("parquet")
        for part, ids in enumerate((range(100), range(100, ROWS))):
            batch = batch_of(ORDERS, [{"id": i, "name": None if i % 2 else "n"} for i in ids])
            with pq.ParquetWriter(directory / f"part-{part}.parquet", arrow_schema(ORDERS)) as writer:
                writer.write_batch(batch)

        def narrowed(window: CursorWindow) -> ExtractRequest:
            return ExtractRequest(path=".", format="parquet", window=window)

        with open_files(connection(f"file:///{directory}")) as ports:
            yield OpenSource(
                ports=ports,
                request=ExtractRequest(path="*.parquet", format="parquet"),
                absent=ExtractRequest(path="nothing/*.parquet", format="parquet"),
                rows=ROWS,
                narrowed=narrowed,
            )
