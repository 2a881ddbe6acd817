"""Every value reaches PostgreSQL exactly, in new tables and in the types of existing ones, or its column is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from random import Random
from uuid import UUID

import pyarrow as pa
import pytest

from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.connectors._sql.row_id import row_id_refusal
from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import ROW_ID
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.ports.sink import LineageColumns
from dpone_core.testing.builders import stage_request
from dpone_core.testing.reference import row_id_of
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import APPEND, postgres_database_of, postgres_sink
from tests.connectors.test_sink_fidelity import GOLDEN_ROW_ID, KEYS, batch_of, typed
from tests.live.servers import scratch_postgres

KIND = ColumnKind


@pytest.fixture(scope="module")
def sink() -> Iterator[OpenSink]:
    with scratch_postgres() as uri, postgres_sink(uri) as opened:
        run(opened, "CREATE SCHEMA conformance")
        run(opened, "CREATE TYPE mood AS ENUM ('sad', 'ok')")
        run(opened, "CREATE DOMAIN short AS varchar(3) CHECK (VALUE <> 'no')")
        yield opened


def run(sink: OpenSink, sql: str) -> list[tuple[object, ...]]:
    cursor = postgres_database_of(sink).connection().execute(sql.encode())
    return cursor.fetchall() if cursor.description else []


def one(column: Column) -> TableSchema:
    return TableSchema(columns=(column,))


@contextmanager
def refused(code: str = "staged_value_refused") -> Iterator[None]:
    with pytest.raises(ConnectorError) as raised:
        yield
    assert raised.value.code == code
    assert "'v'" in str(raised.value)


NOON = datetime(2025, 1, 1, 12, 0, 0, 1)
LONGEST = "é" * 100_000
EXACT: list[tuple[Column, object, str]] = [
    (typed(KIND.BOOLEAN), True, "true"),
    (typed(KIND.INT8), -128, "-128"),
    (typed(KIND.INT16), -(2**15), str(-(2**15))),
    (typed(KIND.INT32), 2**31 - 1, str(2**31 - 1)),
    (typed(KIND.INT64), -(2**63), str(-(2**63))),
    (typed(KIND.UINT8), 255, "255"),
    (typed(KIND.UINT16), 2**16 - 1, "65535"),
    (typed(KIND.UINT32), 2**32 - 1, str(2**32 - 1)),
    (typed(KIND.UINT64), 2**64 - 1, str(2**64 - 1)),
    (typed(KIND.FLOAT32), 1.5, "1.5"),
    (typed(KIND.FLOAT64), 0.1, "0.1"),
    (typed(KIND.FLOAT64), float("nan"), "NaN"),
    (typed(KIND.FLOAT64), float("-inf"), "-Infinity"),
    (typed(KIND.DECIMAL, precision=1, scale=1), Decimal("-0.9"), "-0.9"),
    (typed(KIND.DECIMAL, precision=18, scale=4), Decimal("99999999999999.9999"), "99999999999999.9999"),
    (typed(KIND.DECIMAL, precision=38, scale=38), Decimal("1E-38"), f"0.{'0' * 37}1"),
    (typed(KIND.DECIMAL, precision=38, scale=0), Decimal("-" + "9" * 38), "-" + "9" * 38),
    (typed(KIND.DECIMAL, precision=76, scale=10), Decimal("9" * 66 + "." + "9" * 10), "9" * 66 + "." + "9" * 10),
    (typed(KIND.STRING), "", ""),
    (typed(KIND.STRING), "a\"'\\\t\n\x01😀", "a\"'\\\t\n\x01😀"),
    (typed(KIND.STRING), LONGEST, LONGEST),
    (typed(KIND.BINARY), b"\xff\x00", "\\xff00"),
    (typed(KIND.BINARY), b"", "\\x"),
    (typed(KIND.DATE), date(1, 1, 1), "0001-01-01"),
    (typed(KIND.DATE), date(9999, 12, 31), "9999-12-31"),
    (typed(KIND.TIME, fraction=6), time(23, 59, 59, 999999), "23:59:59.999999"),
    (typed(KIND.TIME, fraction=0), time(23, 59, 59), "23:59:59"),
    (typed(KIND.TIMESTAMP, fraction=6), NOON, "2025-01-01 12:00:00.000001"),
    (typed(KIND.TIMESTAMP, fraction=3), NOON.replace(microsecond=1000), "2025-01-01 12:00:00.001"),
    (typed(KIND.TIMESTAMP, fraction=0), datetime(1, 1, 1), "0001-01-01 00:00:00"),
    (typed(KIND.TIMESTAMP_TZ, fraction=6), NOON.replace(tzinfo=UTC), "2025-01-01 12:00:00.000001+00"),
    (typed(KIND.UUID), UUID(int=5).bytes, str(UUID(int=5))),
]


@pytest.mark.parametrize(("column", "value", "wanted"), EXACT, ids=lambda c: str(getattr(c, "type", ""))[:20])
def test_a_value_is_stored_exactly_beside_null_and_read_back(
    sink: OpenSink, column: Column, value: object, wanted: str
) -> None:
    table = fresh_table()
    handle = sink.staged.stage(stage_request(table, schema=one(column)), iter([batch_of(column, value, None)]))
    assert sink.ports.staged_rows is not None
    (back,) = sink.ports.staged_rows.read_back(handle)
    assert back.column(0).type == arrow_type(column.type)
    assert repr(back.column(0).to_pylist()) == repr(batch_of(column, value, None).column(0).to_pylist())
    sink.staged.finalize(handle)
    sink.staged.cleanup(handle.ref)
    assert run(sink, f"SELECT v::text FROM conformance.{table.name} ORDER BY v") == [(wanted,), (None,)]
    again = sink.ports.target.describe_target(table)
    assert again is not None
    sink.load(stage_request(table, "L2", schema=again, strategy=APPEND), batch_of(column, value))
    assert len(sink.rows(table)) == 3


def test_many_decimals_of_every_scale_are_the_same_numbers(sink: OpenSink) -> None:
    random = Random(7)
    for precision, scale in ((18, 4), (38, 20), (9, 9), (76, 38)):
        column = typed(KIND.DECIMAL, precision=precision, scale=scale)
        values = [
            Decimal(random.choice((-1, 1)) * random.randrange(10 ** random.randint(1, precision))).scaleb(-scale)
            if precision <= 28
            else Decimal(f"{random.randrange(10 ** random.randint(1, precision))}E-{scale}")
            for _ in range(2000)
        ]
        table = fresh_table()
        sink.load(stage_request(table, schema=one(column)), batch_of(column, *values))
        assert sorted(Decimal(str(row[0])) for row in run(sink, f"SELECT v FROM conformance.{table.name}")) == sorted(
            values
        )


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (typed(KIND.STRING), "a\0b"),
        (typed(KIND.STRING, nullable=False), None),
        (typed(KIND.DATE), pa.scalar(-2_440_589, pa.int32()).cast(pa.date32())),
        (typed(KIND.TIMESTAMP, fraction=6), pa.scalar(-(2**63), pa.timestamp("us"))),
        (typed(KIND.TIMESTAMP_TZ, fraction=6), pa.scalar(-210_866_803_200_000_001, pa.timestamp("us", "UTC"))),
        (typed(KIND.TIMESTAMP, fraction=4), NOON),
        (typed(KIND.TIME, fraction=2), time(1, 2, 3, 456000)),
    ],
)
def test_a_value_postgres_does_not_hold_exactly_is_refused_by_column(
    sink: OpenSink, column: Column, value: object
) -> None:
    table = fresh_table()
    batch = pa.RecordBatch.from_arrays([pa.array([value], type=arrow_type(column.type))], names=["v"])
    good = batch.slice(0, 0)
    with refused():
        sink.staged.stage(stage_request(table, schema=one(column)), iter([good, batch]))
    assert sink.ports.target.describe_target(table) is None
    assert sink.ports.target.leftovers(table, None) == ()


@pytest.mark.parametrize(
    "column",
    [
        typed(KIND.TIMESTAMP, fraction=9),
        typed(KIND.TIME, fraction=9),
        Column(name="v" * 64, type=ColumnType(kind=KIND.STRING)),
        Column(name="é" * 32, type=ColumnType(kind=KIND.STRING)),
    ],
)
def test_a_column_postgres_does_not_have_is_refused_before_any_row(sink: OpenSink, column: Column) -> None:
    with pytest.raises(ConnectorError) as raised:
        sink.ports.target.preflight(stage_request(fresh_table(), schema=one(column)))
    assert raised.value.code == "sink_column_unsupported" and column.name in str(raised.value)


def test_a_table_name_that_would_be_cut_is_refused(sink: OpenSink) -> None:
    with pytest.raises(ConnectorError) as raised:
        sink.ports.target.describe_target(TableName(schema="conformance", name="t" * 64))
    assert raised.value.code == "sink_column_unsupported"


TYPED_TARGETS = [
    ("jsonb", '{"b": 1, "a": [1.10]}', '{"a": [1.10], "b": 1}'),
    ("json", '{"b": 1}', '{"b": 1}'),
    ("mood", "sad", "sad"),
    ("inet", "::1", "::1/128"),
    ("interval", "P1DT2H", "P1DT2H"),
    ("varchar(3)", "é😀c", "é😀c"),
    ("short", "abc", "abc"),
    ("xml", "<a/>", "<a/>"),
]


@pytest.mark.parametrize(("type_", "value", "wanted"), TYPED_TARGETS)
@pytest.mark.parametrize("strategy", [None, APPEND], ids=["refresh", "append"])
def test_text_becomes_what_an_existing_column_is_and_the_column_stays(
    sink: OpenSink, type_: str, value: str, wanted: str, strategy: object
) -> None:
    table = fresh_table()
    run(sink, f"CREATE TABLE conformance.{table.name} (v {type_})")
    column = typed(KIND.STRING)
    request = stage_request(table, schema=one(column), **({"strategy": APPEND} if strategy else {}))
    handle = sink.load(request, batch_of(column, value, None))
    assert handle.staged_rows == 2
    assert run(sink, f"SELECT v::text FROM conformance.{table.name} WHERE v IS NOT NULL") == [(wanted,)]
    ((stored,),) = run(
        sink,
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        f" WHERE attrelid = 'conformance.{table.name}'::regclass AND attname = 'v'",
    )
    assert stored == type_.replace("varchar", "character varying")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("jsonb", "{"),
        ("jsonb", '"\\u0000"'),
        ("mood", "glad"),
        ("inet", "300.0.0.1"),
        ("varchar(3)", "abcd"),
        ("varchar(3)", "ab  "),
        ("short", "abcd"),
        ("short", "no"),
    ],
)
def test_a_text_that_an_existing_column_does_not_take_is_refused_by_column(
    sink: OpenSink, type_: str, value: str
) -> None:
    table = fresh_table()
    run(sink, f"CREATE TABLE conformance.{table.name} (other jsonb, v {type_})")
    schema = TableSchema(columns=(Column(name="other", type=ColumnType(kind=KIND.STRING)), typed(KIND.STRING)))
    batch = pa.RecordBatch.from_pydict({"other": ["1", "2"], "v": [None, value]})
    with refused():
        sink.staged.stage(stage_request(table, schema=schema, strategy=APPEND), iter([batch]))
    assert sink.rows(table) == []
    assert sink.ports.target.leftovers(table, None) == ()


@pytest.mark.parametrize(
    "type_", ["char(3)", "bit(3)", "interval(0)", "numeric", "numeric(3,-2)", "money", "int[]", "name"]
)
def test_a_target_type_that_would_change_values_takes_none(sink: OpenSink, type_: str) -> None:
    table = fresh_table()
    run(sink, f"CREATE TABLE conformance.{table.name} (v {type_})")
    described = sink.ports.target.describe_target(table)
    assert described is not None and described.columns[0].type.kind is KIND.UNSUPPORTED
    with refused("sink_column_unsupported"):
        sink.ports.target.preflight(stage_request(table, schema=one(typed(KIND.STRING)), strategy=APPEND))


@pytest.mark.parametrize(
    ("stored", "arriving", "value"),
    [
        (typed(KIND.INT16), typed(KIND.INT64), 70_000),
        (typed(KIND.DECIMAL, precision=9, scale=2), typed(KIND.DECIMAL, precision=9, scale=3), Decimal("1.239")),
        (typed(KIND.DECIMAL, precision=9, scale=2), typed(KIND.DECIMAL, precision=18, scale=2), Decimal("99999999.99")),
        (typed(KIND.DECIMAL, precision=9, scale=2), typed(KIND.FLOAT64), 0.5),
        (typed(KIND.TIMESTAMP, fraction=3), typed(KIND.TIMESTAMP, fraction=6), NOON),
        (typed(KIND.TIMESTAMP_TZ, fraction=6), typed(KIND.TIMESTAMP, fraction=6), NOON),
        (typed(KIND.FLOAT32), typed(KIND.FLOAT64), 0.1),
    ],
)
def test_a_narrower_target_refuses_by_column(sink: OpenSink, stored: Column, arriving: Column, value: object) -> None:
    table = fresh_table()
    sink.load(stage_request(table, schema=one(stored)))
    with refused():
        sink.staged.stage(
            stage_request(table, "L2", schema=one(stored), strategy=APPEND), iter([batch_of(arriving, value)])
        )
    assert sink.rows(table) == []


def test_three_hundred_columns(sink: OpenSink) -> None:
    columns = tuple(Column(name=f"c {i}", type=ColumnType(kind=KIND.INT64)) for i in range(300))
    batch = pa.RecordBatch.from_pydict({column.name: [i, None] for i, column in enumerate(columns)})
    table = fresh_table()
    sink.load(stage_request(table, schema=TableSchema(columns=columns)), batch)
    assert sink.rows(table)[0] == {column.name: i for i, column in enumerate(columns)}


@pytest.mark.parametrize(
    ("column", "arrow_value", "python_value"), KEYS, ids=lambda c: str(getattr(c, "type", ""))[:20]
)
def test_row_ids_of_every_key_kind_are_golden(
    sink: OpenSink, column: Column, arrow_value: object, python_value: object
) -> None:
    assert row_id_refusal(one(column), ("v",)) is None
    lineage = LineageColumns(row_id_columns=("v",), source_type="mssql", source_schema="dbo", source_table="T")
    table = fresh_table()
    sink.load(stage_request(table, schema=one(column), lineage=lineage), batch_of(column, arrow_value))
    assert [row[ROW_ID] for row in sink.rows(table)] == [row_id_of(lineage, {"v": python_value})]


def test_the_row_id_of_a_known_key_never_changes(sink: OpenSink) -> None:
    column = typed(KIND.INT64, nullable=False)
    lineage = LineageColumns(row_id_columns=("v",), source_type="sqlite", source_schema="main", source_table="orders")
    table = fresh_table()
    sink.load(stage_request(table, schema=one(column), lineage=lineage), batch_of(column, 42))
    assert [row[ROW_ID] for row in sink.rows(table)] == [GOLDEN_ROW_ID]


def test_a_server_with_another_text_style_and_zone_changes_nothing() -> None:
    with scratch_postgres() as uri:
        options = "options=-c%20DateStyle%3DGerman%20-c%20TimeZone%3DAsia/Tokyo%20-c%20IntervalStyle%3Dpostgres_verbose"
        with postgres_sink(f"{uri}?{options}") as sink:
            for column, value in ((typed(KIND.TIMESTAMP_TZ, nullable=False, fraction=6), NOON.replace(tzinfo=UTC)),):
                lineage = LineageColumns(row_id_columns=("v",), source_type="s", source_schema="s", source_table="t")
                table = fresh_table()
                sink.load(stage_request(table, schema=one(column), lineage=lineage), batch_of(column, value))
                (row,) = sink.rows(table)
                assert row == {"v": value, ROW_ID: row_id_of(lineage, {"v": value})}
