"""Every value reaches ClickHouse and DuckDB exactly, whatever the host's time zone, or its column is named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.connectors._sql.row_id import row_id_refusal
from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import ROW_ID
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.ports.sink import LineageColumns
from dpone_core.testing.builders import stage_request
from dpone_core.testing.reference import row_id_of
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import APPEND, database_of, duckdb_sink, embedded_clickhouse, session_of

KIND = ColumnKind


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with embedded_clickhouse(tmp_path_factory.mktemp("chdb")) as opened:
        yield opened


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with duckdb_sink(tmp_path_factory.mktemp("duckdb")) as opened:
        yield opened


@pytest.fixture(params=["clickhouse", "duckdb"])
def sink(request: pytest.FixtureRequest) -> OpenSink:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, OpenSink)
    return found


def typed(kind: ColumnKind, *, nullable: bool = True, **details: int) -> Column:
    return Column(name="v", type=ColumnType(kind=kind, **details), nullable=nullable)  # type: ignore[arg-type]


def batch_of(column: Column, *values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, type=arrow_type(column.type))], names=["v"])


@contextmanager
def refused(code: str = "staged_value_refused") -> Iterator[None]:
    with pytest.raises(ConnectorError) as raised:
        yield
    assert raised.value.code == code
    assert "'v'" in str(raised.value)


NOON = datetime(2025, 1, 1, 12, 0, 0, 1)
EXACT = [
    (typed(KIND.BOOLEAN), "toString(v)", "CAST(v AS VARCHAR)", True, "true"),
    (typed(KIND.INT64), "toString(v)", "CAST(v AS VARCHAR)", -(2**63), str(-(2**63))),
    (typed(KIND.UINT64), "toString(v)", "CAST(v AS VARCHAR)", 2**64 - 1, str(2**64 - 1)),
    (
        typed(KIND.DECIMAL, precision=38, scale=4),
        "toDecimalString(v, 4)",
        "CAST(v AS VARCHAR)",
        Decimal("1.2"),
        "1.2000",
    ),
    (typed(KIND.FLOAT64), "toString(v)", "CAST(v AS VARCHAR)", 0.1, "0.1"),
    (typed(KIND.STRING), "v", "v", "a\0b\"'\\😀", "a\0b\"'\\😀"),
    (typed(KIND.BINARY), "lower(hex(v))", "lower(hex(v))", b"\xff\x00", "ff00"),
    (typed(KIND.DATE), "toString(v)", "CAST(v AS VARCHAR)", date(1900, 1, 1), "1900-01-01"),
    (typed(KIND.TIME, fraction=6), "toString(v)", "CAST(v AS VARCHAR)", time(1, 2, 3, 4), "01:02:03.000004"),
    (
        typed(KIND.TIMESTAMP, fraction=6),
        "toString(toUnixTimestamp64Micro(v))",
        "CAST(epoch_us(v) AS VARCHAR)",
        NOON,
        "1735732800000001",
    ),
    (
        typed(KIND.TIMESTAMP, fraction=9),
        "toString(toUnixTimestamp64Nano(v))",
        "CAST(epoch_ns(v) AS VARCHAR)",
        NOON,
        "1735732800000001000",
    ),
    (
        typed(KIND.TIMESTAMP_TZ, fraction=6),
        "toString(toUnixTimestamp64Micro(v))",
        "CAST(epoch_us(v) AS VARCHAR)",
        NOON.replace(tzinfo=UTC),
        "1735732800000001",
    ),
    (typed(KIND.UUID), "toString(v)", "CAST(v AS VARCHAR)", UUID(int=5).bytes, str(UUID(int=5))),
]


@pytest.mark.parametrize(
    ("column", "in_clickhouse", "in_duckdb", "value", "wanted"), EXACT, ids=lambda c: str(getattr(c, "type", ""))[:20]
)
def test_a_value_is_stored_and_described_exactly(
    sink: OpenSink, column: Column, in_clickhouse: str, in_duckdb: str, value: object, wanted: str
) -> None:
    table = fresh_table()
    schema = TableSchema(columns=(column,))
    sink.load(stage_request(table, schema=schema), batch_of(column, value, None))
    if sink.descriptor.type == "clickhouse":
        rows = session_of(sink).rows(f"SELECT {in_clickhouse} FROM conformance.{table.name} WHERE v IS NOT NULL")
    else:
        rows = [
            list(row)
            for row in database_of(sink).rows(f"SELECT {in_duckdb} FROM conformance.{table.name} WHERE v IS NOT NULL")
        ]
    assert rows == [[wanted]]
    described = sink.ports.target.describe_target(table)
    assert described is not None and described.columns[0].type.same_values(column.type)
    sink.load(stage_request(table, "L2", schema=schema, strategy=APPEND), batch_of(column, value))
    assert len(sink.rows(table)) == 3


@pytest.mark.parametrize(
    ("stored", "arriving", "value"),
    [
        (typed(KIND.INT16), typed(KIND.INT64), 70_000),
        (typed(KIND.UINT64), typed(KIND.INT64), -1),
        (typed(KIND.DECIMAL, precision=9, scale=2), typed(KIND.DECIMAL, precision=9, scale=3), Decimal("1.239")),
        (typed(KIND.DECIMAL, precision=9, scale=2), typed(KIND.DECIMAL, precision=18, scale=2), Decimal("99999999.99")),
        (typed(KIND.DECIMAL, precision=9, scale=2), typed(KIND.FLOAT64), 0.5),
        (typed(KIND.TIMESTAMP, fraction=3), typed(KIND.TIMESTAMP, fraction=6), NOON),
        (typed(KIND.TIMESTAMP_TZ, fraction=6), typed(KIND.TIMESTAMP, fraction=6), NOON),
        (typed(KIND.INT64, nullable=False), typed(KIND.INT64), None),
        (typed(KIND.STRING, nullable=False), typed(KIND.STRING), None),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_column(
    sink: OpenSink, stored: Column, arriving: Column, value: object
) -> None:
    table = fresh_table()
    schema = TableSchema(columns=(stored,))
    sink.load(stage_request(table, schema=schema))
    with refused():
        sink.ports.staged.stage(
            stage_request(table, "L2", schema=schema, strategy=APPEND), iter([batch_of(arriving, value)])
        )
    assert sink.rows(table) == []


@pytest.mark.parametrize("value", [date(1899, 12, 31), date(2300, 1, 1)])
def test_a_date_clickhouse_would_wrap_is_refused(clickhouse: OpenSink, value: date) -> None:
    column = typed(KIND.DATE)
    with refused():
        clickhouse.ports.staged.stage(
            stage_request(fresh_table(), schema=TableSchema(columns=(column,))), iter([batch_of(column, value)])
        )


def test_an_instant_a_clickhouse_datetime_would_wrap_is_refused(clickhouse: OpenSink) -> None:
    session_of(clickhouse).command("CREATE DATABASE IF NOT EXISTS conformance")
    table = fresh_table()
    session_of(clickhouse).command(f"CREATE TABLE conformance.{table.name} (v DateTime) ENGINE = MergeTree ORDER BY v")
    schema = clickhouse.ports.target.describe_target(table)
    assert schema is not None
    with refused():
        clickhouse.ports.staged.stage(
            stage_request(table, schema=schema, strategy=APPEND),
            iter([batch_of(schema.columns[0], datetime(1950, 1, 1, tzinfo=UTC))]),
        )


def test_a_decimal_beyond_duckdb_is_refused(duckdb: OpenSink) -> None:
    column = typed(KIND.DECIMAL, precision=50, scale=2)
    with refused("sink_column_unsupported"):
        duckdb.ports.target.preflight(stage_request(fresh_table(), schema=TableSchema(columns=(column,))))


KEYS: list[tuple[Column, object, object]] = [
    (typed(KIND.INT32, nullable=False), -7, -7),
    (typed(KIND.UINT64, nullable=False), 2**64 - 1, 2**64 - 1),
    (typed(KIND.STRING), None, None),
    (typed(KIND.BOOLEAN), None, None),
    (typed(KIND.BOOLEAN, nullable=False), True, True),
    (typed(KIND.DATE, nullable=False), date(2024, 2, 29), date(2024, 2, 29)),
    (typed(KIND.DECIMAL, nullable=False, precision=18, scale=4), Decimal("-0.5000"), Decimal("-0.5000")),
    (typed(KIND.DECIMAL, nullable=False, precision=18, scale=6), Decimal("0.000001"), Decimal("0.000001")),
    (typed(KIND.UUID, nullable=False), UUID(int=2**100).bytes, UUID(int=2**100)),
    (typed(KIND.TIMESTAMP, nullable=False, fraction=6), datetime(2024, 1, 1), datetime(2024, 1, 1)),
    (
        typed(KIND.TIMESTAMP, nullable=False, fraction=3),
        datetime(2024, 1, 1, 0, 0, 0, 500000),
        datetime(2024, 1, 1, 0, 0, 0, 500000),
    ),
    (typed(KIND.TIMESTAMP_TZ, nullable=False, fraction=6), NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC)),
]


@pytest.mark.parametrize(
    ("column", "arrow_value", "python_value"), KEYS, ids=lambda c: str(getattr(c, "type", ""))[:20]
)
def test_row_ids_of_every_key_kind_are_golden(
    sink: OpenSink, column: Column, arrow_value: object, python_value: object
) -> None:
    schema = TableSchema(columns=(column,))
    assert row_id_refusal(schema, ("v",)) is None
    lineage = LineageColumns(row_id_columns=("v",), source_type="mssql", source_schema="dbo", source_table="T")
    table = fresh_table()
    sink.load(stage_request(table, schema=schema, lineage=lineage), batch_of(column, arrow_value))
    assert [row[ROW_ID] for row in sink.rows(table)] == [row_id_of(lineage, {"v": python_value})]


def test_the_row_id_of_a_known_key_never_changes(sink: OpenSink) -> None:
    column = typed(KIND.INT64, nullable=False)
    lineage = LineageColumns(row_id_columns=("v",), source_type="sqlite", source_schema="main", source_table="orders")
    table = fresh_table()
    sink.load(stage_request(table, schema=TableSchema(columns=(column,)), lineage=lineage), batch_of(column, 42))
    assert [row[ROW_ID] for row in sink.rows(table)] == [GOLDEN_ROW_ID]


GOLDEN_ROW_ID = "ba79f7c608668441fba46d1dad43aa36545a8ec66cb9c66a0d0993a6e979f3cd"


@pytest.mark.parametrize(
    "column",
    [
        typed(KIND.FLOAT64, nullable=False),
        typed(KIND.BINARY, nullable=False),
        typed(KIND.DATE),
        typed(KIND.DECIMAL, nullable=False, precision=18, scale=7),
        typed(KIND.TIMESTAMP, nullable=False, fraction=9),
    ],
)
def test_keys_without_one_text_form_are_refused_by_name(sink: OpenSink, column: Column) -> None:
    lineage = LineageColumns(row_id_columns=("v",), source_type="s", source_schema="s", source_table="t")
    with refused("row_identity_unsupported"):
        sink.ports.staged.stage(
            stage_request(fresh_table(), schema=TableSchema(columns=(column,)), lineage=lineage), iter([])
        )


ZONED = """
import sys
from pathlib import Path
from dpone_core.testing.builders import batch_of, stage_request
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.testing.port_conformance import ControlTablesConformance
from tests.connectors.sessions import duckdb_sink, embedded_clickhouse, session_of, database_of
from datetime import datetime, timezone
schema = TableSchema(columns=(
    Column(name="naive", type=ColumnType(kind=ColumnKind.TIMESTAMP, fraction=6)),
    Column(name="instant", type=ColumnType(kind=ColumnKind.TIMESTAMP_TZ, fraction=6)),
))
noon = datetime(2025, 1, 1, 12)
batch = batch_of(schema, [{"naive": noon, "instant": noon.replace(tzinfo=timezone.utc)}])
table = TableName(schema="s", name="t")
directory = Path(sys.argv[1])
with embedded_clickhouse(directory) as sink:
    sink.load(stage_request(table, schema=schema), batch)
    print(session_of(sink).rows("SELECT toUnixTimestamp64Micro(naive), toUnixTimestamp64Micro(instant) FROM s.t"))
    ControlTablesConformance().test_rows_come_back_exactly_and_in_key_order(sink)
with duckdb_sink(directory) as sink:
    sink.load(stage_request(table, schema=schema), batch)
    print([list(row) for row in database_of(sink).rows("SELECT epoch_us(naive), epoch_us(instant) FROM s.t")])
    ControlTablesConformance().test_rows_come_back_exactly_and_in_key_order(sink)
"""


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/St_Johns"])
def test_the_time_zone_of_the_host_changes_nothing(tmp_path: Path, zone: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", ZONED, str(tmp_path)],
        env=os.environ | {"TZ": zone, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert finished.stdout.splitlines() == ["[[1735732800000000, 1735732800000000]]"] * 2
