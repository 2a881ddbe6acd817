"""Rows read back from any sink hash like the rows that were sent, page by page.

GATE-24: both sides in one schema, one engine, bounded memory. `_part` pages, because the embedded engine
holds a whole Arrow result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from dpone_core.connectors._arrow.types import arrow_schema
from dpone_core.connectors.clickhouse.sink.staged_rows import ClickHouseStagedRows
from dpone_core.loading.typed_hash import TypedHash
from dpone_core.model.load_config import PhysicalDesign
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.ports.sink import LineageColumns
from dpone_core.testing.builders import orders, stage_request
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import APPEND, duckdb_sink, embedded_clickhouse, files_sink, session_of

KIND = ColumnKind
NAN = float("nan")
COLUMNS: list[tuple[str, ColumnType, list[object]]] = [
    ("flag", ColumnType(kind=KIND.BOOLEAN), [True, False, None]),
    ("small", ColumnType(kind=KIND.INT16), [-(2**15), 0, None]),
    ("large", ColumnType(kind=KIND.UINT64), [2**64 - 1, 0, None]),
    ("float", ColumnType(kind=KIND.FLOAT64), [-0.0, NAN, None]),
    ("single", ColumnType(kind=KIND.FLOAT32), [0.1, float("inf"), None]),
    ("money", ColumnType(kind=KIND.DECIMAL, precision=18, scale=4), [Decimal("-1.1"), Decimal("0.0001"), None]),
    ("text", ColumnType(kind=KIND.STRING), ["", "a\0😀'\\\n", None]),
    ("bytes", ColumnType(kind=KIND.BINARY), [b"", b"\xff\0", None]),
    ("day", ColumnType(kind=KIND.DATE), [date(1950, 1, 1), date(2200, 2, 28), None]),
    ("clock", ColumnType(kind=KIND.TIME, fraction=6), [time(23, 59, 59, 999999), time(0), None]),
    (
        "milli",
        ColumnType(kind=KIND.TIMESTAMP, fraction=3),
        [datetime(1960, 1, 1, 0, 0, 0, 1000), datetime(2025, 1, 1), None],
    ),
    (
        "micro",
        ColumnType(kind=KIND.TIMESTAMP, fraction=6),
        [datetime(2025, 3, 30, 2, 30, 0, 1), datetime(1970, 1, 1), None],
    ),
    (
        "instant",
        ColumnType(kind=KIND.TIMESTAMP_TZ, fraction=6),
        [datetime(2025, 1, 1, 0, 0, 0, 7, tzinfo=UTC), None, None],
    ),
    ("key", ColumnType(kind=KIND.UUID), [UUID(int=1).bytes, UUID(int=2**128 - 1).bytes, None]),
]
SCHEMA = TableSchema(columns=tuple(Column(name=name, type=kind) for name, kind, _ in COLUMNS))
BATCH = pa.RecordBatch.from_arrays(
    [pa.array(values, type=field.type) for (_, _, values), field in zip(COLUMNS, arrow_schema(SCHEMA), strict=True)],
    schema=arrow_schema(SCHEMA),
)


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with embedded_clickhouse(tmp_path_factory.mktemp("chdb")) as opened:
        yield opened


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with duckdb_sink(tmp_path_factory.mktemp("duckdb")) as opened:
        yield opened


def digest(schema: pa.Schema, batches: Any) -> str:
    typed = TypedHash(schema)
    try:
        for batch in batches:
            typed.update(batch)
        return typed.digest()
    finally:
        typed.close()


def staged_digest(sink: OpenSink, batch: pa.RecordBatch) -> str:
    rows = sink.ports.staged_rows
    assert rows is not None
    request = stage_request(fresh_table(), schema=SCHEMA)
    handle = sink.staged.stage(request, iter([batch]))
    try:
        return digest(rows.arrow_schema(SCHEMA), rows.read_back(handle))
    finally:
        sink.staged.cleanup(handle.ref)


def files_digest(directory: Path, file_format: str, batch: pa.RecordBatch) -> str:
    with files_sink(directory) as sink:
        design = PhysicalDesign(file_format=file_format)
        request = replace(stage_request(fresh_table(), schema=SCHEMA), physical_design=design)
        sink.legacy.load(request, iter([batch]))
        return digest(sink.legacy.arrow_schema(SCHEMA), sink.legacy.read_back(request))


def test_every_sink_gives_back_rows_that_hash_like_the_rows_that_were_sent(
    tmp_path: Path, clickhouse: OpenSink, duckdb: OpenSink
) -> None:
    sent = digest(arrow_schema(SCHEMA), [BATCH])
    found = {
        "clickhouse": staged_digest(clickhouse, BATCH),
        "duckdb": staged_digest(duckdb, BATCH),
        "parquet": files_digest(tmp_path, "parquet", BATCH),
        "csv": files_digest(tmp_path, "csv", BATCH),
    }
    assert found == dict.fromkeys(found, sent)


@pytest.mark.parametrize("changed", range(len(COLUMNS)), ids=[name for name, _, _ in COLUMNS])
def test_a_lost_value_in_any_column_is_seen_through_every_engine(
    changed: int, clickhouse: OpenSink, duckdb: OpenSink
) -> None:
    columns = list(BATCH.columns)
    columns[changed] = pa.array([None, *columns[changed].to_pylist()[1:]], type=columns[changed].type)
    damaged = pa.RecordBatch.from_arrays(columns, schema=BATCH.schema)
    sent = digest(arrow_schema(SCHEMA), [BATCH])
    assert sent not in (staged_digest(clickhouse, damaged), staged_digest(duckdb, damaged))


def test_clickhouse_pages_by_part_and_never_asks_for_more(
    clickhouse: OpenSink,
) -> None:
    session = session_of(clickhouse)
    pages: list[int] = []

    class Counting:
        """Delegates to the session and notes the rows of each Arrow answer."""

        def __getattr__(self, name: str) -> Any:
            return getattr(session, name)

        def arrow(self, sql: str, **texts: str) -> pa.Table:
            page = session.arrow(sql, **texts)
            pages.append(page.num_rows)
            return page

    handle = clickhouse.staged.stage(stage_request(fresh_table()), iter([orders(*range(100_000))] * 2))
    counting: Any = Counting()
    batches = list(ClickHouseStagedRows(counting).read_back(handle))
    assert sum(pages) == sum(batch.num_rows for batch in batches) == 200_000
    assert max(pages) <= 65_536 and len(pages) >= 4
    clickhouse.staged.cleanup(handle.ref)


@pytest.mark.parametrize("name", ["clickhouse", "duckdb"])
def test_technical_columns_of_an_earlier_preset_stay_null_in_appended_rows(
    name: str, request: pytest.FixtureRequest
) -> None:
    sink: OpenSink = request.getfixturevalue(name)
    table = fresh_table()
    sink.load(stage_request(table), orders(1))
    old = TableSchema(columns=(Column(name="__dpone__run_id", type=ColumnType(kind=KIND.STRING)),))
    lineage = LineageColumns(constants={"__dpone__run_id": "r1"})
    sink.load(replace(stage_request(table, "L2", strategy=APPEND, lineage=lineage), added=old), orders(2))
    request = stage_request(table, "L3", strategy=APPEND, lineage=LineageColumns())
    sink.ports.target.preflight(request)
    sink.load(request, orders(3))
    assert {row["id"]: row["__dpone__run_id"] for row in sink.rows(table)} == {1: None, 2: "r1", 3: None}


def test_seconds_and_days_of_an_existing_clickhouse_target_are_read_back_as_times(clickhouse: OpenSink) -> None:
    session, table = session_of(clickhouse), fresh_table()
    session.command(f"CREATE DATABASE IF NOT EXISTS {table.schema}")
    session.command(
        f"CREATE TABLE {table.schema}.{table.name} (id Int64, at DateTime, day Date, word LowCardinality(String))"
        " ENGINE = MergeTree ORDER BY tuple()"
    )
    target = clickhouse.ports.target.describe_target(table)
    rows = clickhouse.ports.staged_rows
    assert target is not None and rows is not None
    sent = pa.RecordBatch.from_pylist(
        [{"id": 1, "at": datetime(2025, 1, 1, 0, 0, 7, tzinfo=UTC), "day": date(2025, 1, 1), "word": "a"}],
        schema=arrow_schema(target),
    )
    handle = clickhouse.staged.stage(stage_request(table, schema=target, strategy=APPEND), iter([sent]))
    schema = rows.arrow_schema(target)
    assert digest(schema, rows.read_back(handle)) == digest(schema, [sent])
    clickhouse.staged.cleanup(handle.ref)
