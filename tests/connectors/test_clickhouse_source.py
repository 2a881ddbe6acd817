"""A ClickHouse source reads every value exactly or refuses its column, in bounded memory, and never a short result."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from dpone_core.connectors.clickhouse.open import open_source
from dpone_core.connectors.clickhouse.source.blocks import ClickHouseStreamCut, whole_stream
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import ColumnKind
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CountedStream, CursorWindow, ExtractRequest
from dpone_core.ports.statements import StatementScript
from dpone_core.testing.port_conformance import OpenSource, SourceConformance
from tests.connectors.sessions import connection

ROWS = 70_000
ORDERS_SQL = (
    "CREATE TABLE src.orders (id Int64, name Nullable(String), amount Nullable(Decimal(18, 4)))"
    " ENGINE = MergeTree ORDER BY id",
    f"INSERT INTO src.orders SELECT number, if(number % 2 = 0, 'n', NULL), toDecimal64(number, 4) / 10000"
    f" FROM numbers({ROWS})",
)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourcePorts]:
    directory = tmp_path_factory.mktemp("chdb") / "er p"
    directory.mkdir()
    with open_source(connection(f"chdb:///{directory}")) as opened:
        run(opened, "CREATE DATABASE src", *ORDERS_SQL)
        yield opened


def run(ports: SourcePorts, *statements: str) -> None:
    assert ports.statements is not None
    for statement in statements:
        ports.statements.execute(StatementScript(sql=SqlText(text=statement)))


def table(ports: SourcePorts, columns: str, *values: str) -> ExtractRequest:
    settings = "allow_suspicious_low_cardinality_types = 1, enable_time_time64_type = 1"
    run(ports, "DROP TABLE IF EXISTS src.t", f"CREATE TABLE src.t ({columns}) ENGINE = Memory SETTINGS {settings}")
    for value in values:
        run(ports, f"INSERT INTO src.t SELECT {value}")
    return ExtractRequest(table=TableName(schema="src", name="t"))


def read(ports: SourcePorts, request: ExtractRequest) -> list[dict[str, object]]:
    stream = ports.source.open_stream(request, ports.source.describe(request))
    return [row for batch in stream.batches() for row in batch.to_pylist()]


class TestClickHouseTable(SourceConformance):
    @pytest.fixture
    def source(self, ports: SourcePorts) -> OpenSource:
        request = ExtractRequest(table=TableName(schema="src", name="orders"))
        return OpenSource(
            ports=ports,
            request=request,
            absent=ExtractRequest(table=TableName(schema="src", name="nothing")),
            rows=ROWS,
            narrowed=lambda window: replace(request, window=window),
        )


class TestClickHouseQuery(SourceConformance):
    @pytest.fixture
    def source(self, ports: SourcePorts) -> OpenSource:
        query = SqlText(text="SELECT * FROM src.orders WHERE 'x\\'' = {{ ds }}; -- all")
        request = ExtractRequest(query=query, token_values={"ds": "x'"})
        return OpenSource(
            ports=ports,
            request=request,
            absent=ExtractRequest(table=TableName(schema="nothing", name="orders")),
            rows=ROWS,
            narrowed=lambda window: replace(request, window=window),
        )


SECOND = "2024-01-02T00:00:00+00:00"
LONG = "1." + "0" * 39 + "1"
UUID_TEXT = "00112233-4455-6677-8899-aabbccddeeff"
HALF = datetime(2024, 1, 1, 0, 0, 0, 500000, UTC)
EXACT = [
    ("Bool", "true", True, ColumnKind.BOOLEAN),
    ("Int8", "-128", -128, ColumnKind.INT8),
    ("UInt64", "18446744073709551615", 2**64 - 1, ColumnKind.UINT64),
    ("Int64", "-9223372036854775808", -(2**63), ColumnKind.INT64),
    ("Int128", "toInt128('-170141183460469231731687303715884105728')", Decimal(-(2**127)), ColumnKind.DECIMAL),
    ("UInt128", "toUInt128('340282366920938463463374607431768211455')", Decimal(2**128 - 1), ColumnKind.DECIMAL),
    ("Decimal(9, 2)", "'-1234567.89'", Decimal("-1234567.89"), ColumnKind.DECIMAL),
    (
        "Decimal(76, 40)",
        "'1.0000000000000000000000000000000000000001'",
        Decimal("1." + "0" * 39 + "1"),
        ColumnKind.DECIMAL,
    ),
    ("Float32", "1.5", 1.5, ColumnKind.FLOAT32),
    ("Float64", "-inf", float("-inf"), ColumnKind.FLOAT64),
    ("BFloat16", "1.5", 1.5, ColumnKind.FLOAT32),
    ("String", "'é😀\\0\\n'", "é😀\0\n", ColumnKind.STRING),
    ("FixedString(3)", "'ab'", b"ab\0", ColumnKind.BINARY),
    ("Enum8('b' = 1, 'a\\'' = 2)", "'a\\''", "a'", ColumnKind.STRING),
    ("Enum16('b' = 1000)", "'b'", "b", ColumnKind.STRING),
    ("IPv4", "'255.0.0.1'", "255.0.0.1", ColumnKind.STRING),
    ("IPv6", "'2001:db8::1'", "2001:db8::1", ColumnKind.STRING),
    (
        "UUID",
        "'00112233-4455-6677-8899-aabbccddeeff'",
        bytes.fromhex("00112233445566778899aabbccddeeff"),
        ColumnKind.UUID,
    ),
    ("Date", "'2149-06-06'", date(2149, 6, 6), ColumnKind.DATE),
    ("Date32", "'1900-01-01'", date(1900, 1, 1), ColumnKind.DATE),
    ("DateTime", "'2106-02-07 06:28:15'", datetime(2106, 2, 7, 6, 28, 15, tzinfo=UTC), ColumnKind.TIMESTAMP_TZ),
    ("DateTime('Asia/Tokyo')", "'2024-01-01 09:00:00'", datetime(2024, 1, 1, tzinfo=UTC), ColumnKind.TIMESTAMP_TZ),
    ("DateTime64(6)", "'1900-01-01 00:00:00.000001'", datetime(1900, 1, 1, 0, 0, 0, 1, UTC), ColumnKind.TIMESTAMP_TZ),
    (
        "DateTime64(1, 'Asia/Kathmandu')",
        "'2024-01-01 05:45:00.5'",
        datetime(2024, 1, 1, 0, 0, 0, 500000, UTC),
        ColumnKind.TIMESTAMP_TZ,
    ),
    (
        "DateTime64(0, 'UTC')",
        "'2299-12-31 23:59:59'",
        datetime(2299, 12, 31, 23, 59, 59, tzinfo=UTC),
        ColumnKind.TIMESTAMP_TZ,
    ),
    ("Time", "'23:59:59'", time(23, 59, 59), ColumnKind.TIME),
    ("Time64(2)", "'23:59:59.99'", time(23, 59, 59, 990000), ColumnKind.TIME),
    ("Time64(6)", "'00:00:00.000001'", time(0, 0, 0, 1), ColumnKind.TIME),
]


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize(("declared", "stored", "wanted", "kind"), EXACT)
def test_a_value_is_read_exactly(
    ports: SourcePorts, declared: str, stored: str, wanted: object, kind: ColumnKind, nullable: bool
) -> None:
    request = table(ports, f"v {f'Nullable({declared})' if nullable else declared}", stored, *["NULL"] * nullable)
    column = ports.source.describe(request).columns[0]
    assert (column.type.kind, column.nullable) == (kind, nullable)
    found = [row["v"] for row in read(ports, request)]
    assert sorted(found, key=lambda value: value is None) == [wanted, *[None] * nullable]


@pytest.mark.parametrize("declared", ["LowCardinality(String)", "LowCardinality(Nullable(String))"])
def test_a_low_cardinality_text_is_text(ports: SourcePorts, declared: str) -> None:
    assert {row["v"] for row in read(ports, table(ports, f"v {declared}", "'x'", "''"))} == {"x", ""}


def test_a_simple_aggregate_is_its_value(ports: SourcePorts) -> None:
    assert read(ports, table(ports, "v SimpleAggregateFunction(sum, UInt64)", "7")) == [{"v": 7}]


def test_nanoseconds_are_kept(ports: SourcePorts) -> None:
    request = table(ports, "v DateTime64(9, 'UTC')", "'2024-01-01 00:00:00.123456789'")
    (batch,) = ports.source.open_stream(request, ports.source.describe(request)).batches()
    assert batch.column(0).cast(pa.int64()).to_pylist() == [1704067200123456789]


def test_wall_clocks_and_bytes_that_dpone_wrote_stay_what_they_are(ports: SourcePorts) -> None:
    request = table(
        ports,
        "w DateTime64(6, 'UTC') COMMENT 'dpone: wall clock without time zone', b String COMMENT 'dpone: bytes'",
        "'2024-01-01 12:00:00', unhex('00ff')",
    )
    assert read(ports, request) == [{"w": datetime(2024, 1, 1, 12), "b": b"\x00\xff"}]


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("String", "unhex('ff')"),
        ("Time64(3)", "'-00:00:00.001'"),
        ("Time", "'24:00:00'"),
        ("DateTime64(7, 'UTC')", "'2299-12-31 23:59:59.1234567'"),
    ],
)
def test_a_value_without_an_exact_form_stops_the_read_by_column(ports: SourcePorts, declared: str, stored: str) -> None:
    request = table(ports, f'ok Int8, `odd "v` {declared}', f"1, {stored}")
    with pytest.raises(ConnectorError) as raised:
        read(ports, request)
    assert raised.value.code == "source_value_out_of_range"
    assert 'odd "v' in str(raised.value) and stored.strip("'") not in str(raised.value)


@pytest.mark.parametrize(
    "declared",
    ["Int256", "UInt256", "Array(UInt8)", "Map(String, UInt8)", "Tuple(UInt8)", "JSON", "Variant(UInt8, String)",
     "Dynamic", "AggregateFunction(sum, UInt8)", "Point", "IntervalDay", "Nested(a UInt8)"],
)  # fmt: skip
def test_a_type_without_an_exact_form_is_named(ports: SourcePorts, declared: str) -> None:
    request = table(ports, f"id Int8, tree {declared}")
    schema = ports.source.describe(request)
    assert [column.type.kind for column in schema.columns] == [ColumnKind.INT8, ColumnKind.UNSUPPORTED]
    with pytest.raises(ConnectorError) as raised:
        ports.source.open_stream(request, schema)
    assert raised.value.code == "source_column_unsupported" and "tree" in str(raised.value)


@pytest.mark.parametrize(
    ("declared", "values", "greatest", "window"),
    [
        (
            "DateTime64(6)",
            ["2024-01-01 00:00:00.5", "2024-01-02 00:00:00"],
            "2024-01-02T00:00:00.000000+00:00",
            ("2024-01-01T00:00:00.500000+00:00", SECOND),
        ),
        (
            "DateTime64(3, 'Asia/Tokyo')",
            ["2024-01-01 09:00:00", "2024-01-02 09:00:00"],
            "2024-01-02T00:00:00.000+00:00",
            ("2024-01-01T03:00:00+03:00", SECOND),
        ),
        ("DateTime", ["2024-01-01 00:00:00", "2024-01-02 00:00:00"], SECOND, ("2024-01-01T00:00:00+00:00", SECOND)),
        ("Date", ["2024-01-01", "2024-01-02"], "2024-01-02", ("2024-01-01", "2024-01-02")),
        ("Date32", ["1900-01-01", "2024-01-02"], "2024-01-02", ("1900-01-01", "2024-01-02")),
        ("Decimal(9, 2)", ["1.1", "10"], "10", ("1.10", "10.00")),
        ("UInt64", ["9", "18446744073709551615"], "18446744073709551615", ("9", "18446744073709551615")),
        ("Int128", ["-9", str(2**127 - 1)], str(2**127 - 1), ("-9", str(2**127 - 1))),
        ("String", ["a\\'\\n", "b"], "b", ("a'\n", "b")),
    ],
)
@pytest.mark.parametrize("nullable", [False, True])
def test_a_cursor_of_every_kind_is_half_open(
    ports: SourcePorts, declared: str, values: list[str], greatest: str, window: tuple[str, str], nullable: bool
) -> None:
    request = table(
        ports, f"c {f'Nullable({declared})' if nullable else declared}", *(f"'{value}'" for value in values)
    )
    assert ports.source.cursor_maximum(request, "c") == greatest
    both = CursorWindow(column="c", lower=window[0], upper=window[1])
    assert len(read(ports, replace(request, window=both))) == 1
    assert len(read(ports, replace(request, window=CursorWindow(column="c", lower=greatest)))) == 1


def test_an_empty_source_has_no_greatest_value(ports: SourcePorts) -> None:
    assert ports.source.cursor_maximum(table(ports, "c DateTime"), "c") is None
    assert read(ports, table(ports, "c DateTime")) == []


@pytest.mark.parametrize(("declared", "text"), [("Date", "now"), ("Int64", "1 OR 1=1"), ("DateTime", "2024-01-01")])
def test_a_saved_value_of_another_kind_is_refused(ports: SourcePorts, declared: str, text: str) -> None:
    request = replace(table(ports, f"c {declared}"), window=CursorWindow(column="c", lower=text))
    with pytest.raises(ConnectorError) as raised:
        ports.source.open_stream(request, ports.source.describe(request))
    assert raised.value.code == "cursor_value_invalid"


@pytest.mark.parametrize("column", ["COALESCE(a, b)", "e"])
def test_a_cursor_is_a_plain_ordered_column(ports: SourcePorts, column: str) -> None:
    request = table(ports, "a Int8, b Int8, e Enum8('z' = 1, 'a' = 2)")
    with pytest.raises(ConnectorError):
        ports.source.cursor_maximum(request, column)


@pytest.mark.parametrize(
    "text", ["INSERT INTO src.orders VALUES (1, '', 1)", "SELECT 1; DROP TABLE src.orders", "SELECT 1 FORMAT CSV"]
)
def test_reading_cannot_write(ports: SourcePorts, text: str) -> None:
    with pytest.raises(ConnectorError) as raised:
        ports.source.describe(ExtractRequest(query=SqlText(text=text)))
    assert raised.value.code in ("source_request_invalid", "source_query_refused")
    assert ports.source.cursor_maximum(ExtractRequest(table=TableName(schema="src", name="orders")), "id") is not None


def test_an_error_in_the_middle_of_a_result_is_an_error(ports: SourcePorts) -> None:
    text = "SELECT number, throwIf(number = 3000000) AS late FROM numbers(4000000)"
    stream_of = ExtractRequest(query=SqlText(text=text))
    stream = ports.source.open_stream(stream_of, ports.source.describe(stream_of))
    found: list[int] = []
    with pytest.raises(ConnectorError) as raised:
        found.extend(batch.num_rows for batch in stream.batches())
    assert raised.value.code == "source_query_refused" and sum(found) > 0


def test_a_result_is_never_held_whole(ports: SourcePorts) -> None:
    text = "SELECT number AS id, repeat('x', 1000) AS pad FROM numbers(1000000)"
    request = ExtractRequest(query=SqlText(text=text))
    before = resident_bytes()
    rows, most = 0, 0
    for batch in ports.source.open_stream(request, ports.source.describe(request)).batches():
        rows += batch.num_rows
        most = max(most, resident_bytes() - before)
    assert rows == 1_000_000 and most < 300_000_000


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_whole_table_says_how_many_rows_it_has_and_a_query_does_not(ports: SourcePorts) -> None:
    for asked, expected in (
        (ExtractRequest(table=TableName(schema="src", name="orders")), ROWS),
        (ExtractRequest(query=SqlText(text="SELECT id FROM src.orders")), None),
    ):
        stream = ports.source.open_stream(asked, ports.source.describe(asked))
        assert isinstance(stream, CountedStream) and stream.expected_rows() == expected


def test_an_absent_directory_is_unreachable_and_nothing_is_created(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError) as raised, open_source(connection(f"chdb:///{tmp_path / 'no'}")):
        pass
    assert raised.value.code == "source_unreachable"
    assert list(tmp_path.iterdir()) == []


def stream_bytes(*, batches: int = 2) -> bytes:
    sink = io.BytesIO()
    batch = pa.record_batch({"id": pa.array([1, 2**32 - 1], pa.int64())})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return sink.getvalue()


def test_a_whole_stream_is_all_its_batches() -> None:
    assert sum(batch.num_rows for batch in whole_stream(io.BytesIO(stream_bytes()))) == 4


def test_a_stream_cut_anywhere_is_never_a_short_success() -> None:
    whole = stream_bytes()
    for cut in range(1, len(whole) + 1):
        with pytest.raises((ClickHouseStreamCut, pa.ArrowException, OSError)):
            list(whole_stream(io.BytesIO(whole[:-cut])))


def test_an_error_text_behind_the_batches_is_no_end() -> None:
    for body in (stream_bytes() + b"Code: 241", stream_bytes()[:-8] + b"\r\n__exception__\r\nCode: 241"):
        with pytest.raises((ClickHouseStreamCut, pa.ArrowException, OSError)):
            list(whole_stream(io.BytesIO(body)))
