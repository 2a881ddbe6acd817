"""A DuckDB source reads every value exactly or refuses its column, and never opens what another process writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dpone_core.connectors.duckdb.open import open_source, open_source_and_sink
from dpone_core.connectors.duckdb.source.reader import DuckDbSource
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
T = ExtractRequest(table=TableName(schema=None, name="t"))


def database_file(directory: Path, *statements: str) -> Path:
    path = directory / "er p.duckdb"
    with closing(duckdb.connect(str(path))) as database:
        for statement in statements:
            database.execute(statement)
    return path


def orders_file(directory: Path) -> Path:
    return database_file(
        directory,
        "CREATE TABLE orders (id BIGINT NOT NULL, name VARCHAR, amount DECIMAL(18,4))",
        f"INSERT INTO orders SELECT i, CASE WHEN i % 2 = 0 THEN 'n' END, i / 10000 FROM range({ROWS}) r(i)",
    )


def uri_of(path: Path) -> str:
    return f"duckdb:///{path}"


def read(ports: SourcePorts, request: ExtractRequest = T) -> list[dict[str, object]]:
    stream = ports.source.open_stream(request, ports.source.describe(request))
    return [row for batch in stream.batches() for row in batch.to_pylist()]


class TestDuckDbTable(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSource]:
        request = ExtractRequest(table=TableName(schema=None, name="orders"))
        with open_source(connection(uri_of(orders_file(tmp_path_factory.mktemp("duckdb"))))) as ports:
            yield OpenSource(
                ports=ports,
                request=request,
                absent=ExtractRequest(table=TableName(schema="main", name="nothing")),
                rows=ROWS,
                narrowed=lambda window: replace(request, window=window),
            )


class TestDuckDbQuery(SourceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSource]:
        query = SqlText(text="SELECT * FROM orders WHERE 'x' = {{ ds }}; -- all")
        request = ExtractRequest(query=query, token_values={"ds": "x"})
        with open_source(connection(uri_of(orders_file(tmp_path_factory.mktemp("duckdb"))))) as ports:
            yield OpenSource(
                ports=ports,
                request=request,
                absent=ExtractRequest(table=TableName(schema="nothing", name="orders")),
                rows=ROWS,
                narrowed=lambda window: replace(request, window=window),
            )


EXACT = [
    ("BOOLEAN", "true", True, ColumnKind.BOOLEAN),
    ("TINYINT", "-128", -128, ColumnKind.INT8),
    ("UBIGINT", "18446744073709551615", 2**64 - 1, ColumnKind.UINT64),
    ("BIGINT", "-9223372036854775808", -(2**63), ColumnKind.INT64),
    ("HUGEINT", "-" + "9" * 38, Decimal("-" + "9" * 38), ColumnKind.DECIMAL),
    ("UHUGEINT", "9" * 38, Decimal("9" * 38), ColumnKind.DECIMAL),
    ("DECIMAL(38,10)", "1.0000000001", Decimal("1.0000000001"), ColumnKind.DECIMAL),
    ("DECIMAL(4,2)", "-99.99", Decimal("-99.99"), ColumnKind.DECIMAL),
    ("FLOAT", "1.5", 1.5, ColumnKind.FLOAT32),
    ("DOUBLE", "'-inf'", float("-inf"), ColumnKind.FLOAT64),
    ("VARCHAR", "'é😀' || chr(0)", "é😀\0", ColumnKind.STRING),
    ("JSON", "'{\"a\": 1.10}'", '{"a": 1.10}', ColumnKind.STRING),
    ("ENUM('b', 'a')", "'a'", "a", ColumnKind.STRING),
    ("BLOB", "'\\x00\\xFF'::BLOB", b"\x00\xff", ColumnKind.BINARY),
    (
        "UUID",
        "'00112233-4455-6677-8899-aabbccddeeff'",
        bytes.fromhex("00112233445566778899aabbccddeeff"),
        ColumnKind.UUID,
    ),
    ("DATE", "DATE '0001-01-01'", date(1, 1, 1), ColumnKind.DATE),
    ("TIME", "TIME '23:59:59.999999'", time(23, 59, 59, 999999), ColumnKind.TIME),
    (
        "TIMESTAMP",
        "TIMESTAMP '9999-12-31 23:59:59.999999'",
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        ColumnKind.TIMESTAMP,
    ),
    ("TIMESTAMP_S", "TIMESTAMP_S '1900-01-01 00:00:01'", datetime(1900, 1, 1, 0, 0, 1), ColumnKind.TIMESTAMP),
    (
        "TIMESTAMP_MS",
        "TIMESTAMP_MS '1900-01-01 00:00:00.001'",
        datetime(1900, 1, 1, 0, 0, 0, 1000),
        ColumnKind.TIMESTAMP,
    ),
    (
        "TIMESTAMPTZ",
        "TIMESTAMPTZ '2024-01-01 05:45:00.5+05:45'",
        datetime(2024, 1, 1, 0, 0, 0, 500000, UTC),
        ColumnKind.TIMESTAMP_TZ,
    ),
]


@pytest.mark.parametrize(("declared", "stored", "wanted", "kind"), EXACT)
def test_a_value_is_read_exactly(tmp_path: Path, declared: str, stored: str, wanted: object, kind: ColumnKind) -> None:
    path = database_file(tmp_path, f"CREATE TABLE t (v {declared})", f"INSERT INTO t VALUES ({stored}), (NULL)")
    with open_source(connection(uri_of(path))) as ports:
        assert ports.source.describe(T).columns[0].type.kind is kind
        assert read(ports) == [{"v": wanted}, {"v": None}]


def test_nanoseconds_are_kept(tmp_path: Path) -> None:
    path = database_file(tmp_path, "CREATE TABLE t AS SELECT TIMESTAMP_NS '2024-01-01 00:00:00.123456789' AS v")
    with open_source(connection(uri_of(path))) as ports:
        (batch,) = ports.source.open_stream(T, ports.source.describe(T)).batches()
    assert batch.column(0).cast(pa.int64()).to_pylist() == [1704067200123456789]


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("HUGEINT", "1" + "0" * 38),
        ("UHUGEINT", "340282366920938463463374607431768211455"),
        ("DATE", "'infinity'"),
        ("TIMESTAMP", "'-infinity'"),
        ("TIMESTAMPTZ", "'infinity'"),
        ("TIMESTAMP_NS", "'infinity'"),
        ("TIME", "'24:00:00'"),
    ],
)
def test_a_value_without_an_exact_form_stops_the_read_by_column(tmp_path: Path, declared: str, stored: str) -> None:
    path = database_file(
        tmp_path, f'CREATE TABLE t (ok INTEGER, "odd ""v" {declared})', f"INSERT INTO t VALUES (1, {stored})"
    )
    with open_source(connection(uri_of(path))) as ports, pytest.raises(ConnectorError) as raised:
        read(ports)
    assert raised.value.code == "source_value_out_of_range"
    assert "'odd \"v'" in str(raised.value) and stored.strip("'") not in str(raised.value)


@pytest.mark.parametrize(
    "declared",
    [
        "INTERVAL",
        "BIT",
        "BIGNUM",
        "TIMETZ",
        "INTEGER[]",
        "INTEGER[2]",
        "STRUCT(a INTEGER)",
        "MAP(VARCHAR, INTEGER)",
        "UNION(n INTEGER)",
    ],
)
def test_a_type_without_an_exact_form_is_named(tmp_path: Path, declared: str) -> None:
    path = database_file(tmp_path, f"CREATE TABLE t (id INTEGER, tree {declared})")
    with open_source(connection(uri_of(path))) as ports:
        schema = ports.source.describe(T)
        assert [column.type.kind for column in schema.columns] == [ColumnKind.INT32, ColumnKind.UNSUPPORTED]
        with pytest.raises(ConnectorError) as raised:
            ports.source.open_stream(T, schema)
    assert raised.value.code == "source_column_unsupported" and "'tree'" in str(raised.value)


def test_a_python_variable_is_no_table(tmp_path: Path) -> None:
    canary = pa.table({"id": [1]})
    path = database_file(tmp_path, "CREATE TABLE t (id INTEGER)")
    with open_source(connection(uri_of(path))) as ports:
        assert isinstance(ports.source, DuckDbSource)
        with pytest.raises(duckdb.CatalogException):
            ports.source.new_cursor().execute("SELECT * FROM canary")
    assert canary.num_rows == 1


@pytest.mark.parametrize(
    ("declared", "values", "greatest", "window", "kept"),
    [
        (
            "TIMESTAMP",
            ["2024-01-01 00:00:00.5", "2024-01-02"],
            "2024-01-02T00:00:00",
            ("2024-01-01T00:00:00.500000", "2024-01-02T00:00:00"),
            1,
        ),
        (
            "TIMESTAMPTZ",
            ["2024-01-01 00:00:00+03", "2024-01-01 00:00:00+00"],
            "2024-01-01T00:00:00+00:00",
            ("2023-12-31T21:00:00+00:00", "2024-01-01T00:00:00+00:00"),
            1,
        ),
        (
            "TIMESTAMP_NS",
            ["2024-01-01 00:00:00.123456788", "2024-01-01 00:00:00.123456789"],
            "2024-01-01T00:00:00.123456789",
            (None, "2024-01-01T00:00:00.123456789"),
            1,
        ),
        ("DATE", ["2024-01-01", "2024-01-02"], "2024-01-02", ("2024-01-02", None), 1),
        ("DECIMAL(9,2)", ["1.10", "10.00"], "10.00", ("1.10", "10.00"), 1),
        ("UBIGINT", ["9", "18446744073709551615"], "18446744073709551615", ("9", "18446744073709551615"), 1),
        ("VARCHAR", ["a'b", "b"], "b", ("a'b", "b"), 1),
    ],
)
def test_a_cursor_of_every_kind_is_half_open(
    tmp_path: Path,
    declared: str,
    values: list[str],
    greatest: str,
    window: tuple[str | None, str | None],
    kept: int,
) -> None:
    rows = ", ".join("('" + value.replace("'", "''") + "')" for value in values)
    path = database_file(tmp_path, f"CREATE TABLE t (c {declared})", f"INSERT INTO t VALUES {rows}, (NULL)")
    with open_source(connection(uri_of(path))) as ports:
        assert ports.source.cursor_maximum(T, "c") == greatest
        chosen = CursorWindow(column="c", lower=window[0], upper=window[1])
        assert len(read(ports, replace(T, window=chosen))) == kept


@pytest.mark.parametrize(("declared", "text"), [("DATE", "now"), ("BIGINT", "1 OR 1=1"), ("TIMESTAMPTZ", "2024-01-01")])
def test_a_saved_value_of_another_kind_is_refused(tmp_path: Path, declared: str, text: str) -> None:
    path = database_file(tmp_path, f"CREATE TABLE t (c {declared})")
    with open_source(connection(uri_of(path))) as ports:
        request = replace(T, window=CursorWindow(column="c", lower=text))
        with pytest.raises(ConnectorError) as raised:
            ports.source.open_stream(request, ports.source.describe(request))
    assert raised.value.code == "cursor_value_invalid"


@pytest.mark.parametrize("column", ["COALESCE(a, b)", "e"])
def test_a_cursor_is_a_plain_ordered_column(tmp_path: Path, column: str) -> None:
    path = database_file(tmp_path, "CREATE TABLE t (a INTEGER, b INTEGER, e ENUM('z', 'a'))")
    with open_source(connection(uri_of(path))) as ports, pytest.raises(ConnectorError):
        ports.source.cursor_maximum(T, column)


def test_an_absent_file_is_unreachable_and_nothing_is_created(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError) as raised, open_source(connection(uri_of(tmp_path / "no.duckdb"))):
        pass
    assert raised.value.code == "source_unreachable"
    assert list(tmp_path.iterdir()) == []


def test_reading_cannot_write(tmp_path: Path) -> None:
    path = database_file(tmp_path, "CREATE TABLE t (id INTEGER)")
    with open_source(connection(uri_of(path))) as ports:
        for text in ("INSERT INTO t VALUES (1) RETURNING id", "SELECT 1; INSERT INTO t VALUES (1)"):
            with pytest.raises(ConnectorError):
                ports.source.describe(ExtractRequest(query=SqlText(text=text)))
        assert read(ports) == []


def test_a_script_writes_between_reads_and_the_next_read_sees_it(tmp_path: Path) -> None:
    path = database_file(tmp_path, "CREATE TABLE t (id INTEGER)")
    with open_source(connection(uri_of(path))) as ports:
        assert ports.statements is not None and read(ports) == []
        ports.statements.execute(StatementScript(sql=SqlText(text="INSERT INTO t VALUES (1)")))
        assert read(ports) == [{"id": 1}]
        answer = ports.statements.answer(StatementScript(sql=SqlText(text="SELECT count(*) FROM t")))
        assert answer.rows == ((1,),)


def test_a_file_that_another_process_writes_is_refused_at_once(tmp_path: Path) -> None:
    path = database_file(tmp_path, "CREATE TABLE t (id INTEGER)")
    program = f"import duckdb; c = duckdb.connect({str(path)!r}); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin is not None and writer.stdout is not None and writer.stdout.readline() == "open\n"
        with pytest.raises(ConnectorError) as raised, open_source(connection(uri_of(path))):
            pass
        writer.communicate("\n")
    assert raised.value.code == "embedded_directory_locked"


def test_a_source_and_a_sink_of_one_file_share_the_engine(tmp_path: Path) -> None:
    path = database_file(tmp_path, "CREATE TABLE t AS SELECT 1 AS id")
    with open_source_and_sink(connection(uri_of(path)), lock_timeout_seconds=0) as (source, sink):
        assert read(source) == [{"id": 1}]
        assert sink.target.describe_target(TableName(schema="main", name="t")) is not None


def test_a_whole_table_says_how_many_rows_it_has_and_a_window_does_not(tmp_path: Path) -> None:
    path = database_file(tmp_path, "CREATE TABLE t AS SELECT * FROM range(7) r(id)")
    with open_source(connection(uri_of(path))) as ports:
        schema = ports.source.describe(T)
        whole = ports.source.open_stream(T, schema)
        part = ports.source.open_stream(replace(T, window=CursorWindow(column="id", lower="3")), schema)
        assert isinstance(whole, CountedStream) and isinstance(part, CountedStream)
        assert (whole.expected_rows(), part.expected_rows()) == (7, None)
