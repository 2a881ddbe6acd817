"""MySQL values as they are, or refused by column (MYSQL-01, MYSQL-02). Tested on MariaDB."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from datetime import time as clock
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from dpone_core.connectors.mysql.open import open_source
from dpone_core.connectors.mysql.type_map import TYPES
from dpone_core.connectors.mysql.types import NativeType, column_type
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import ColumnKind
from dpone_core.model.type_map import TypeMapping
from dpone_core.model.vocabulary import Side
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from tests.connectors.mysql_servers import (
    READERS,
    T,
    connected,
    is_mariadb,
    needs_mariadb,
    query,
    read,
    without_table,
)
from tests.connectors.sessions import connection
from tests.live.servers import scratch_mysql

U64 = 2**64 - 1


EITHER = ("auto", pytest.param("pymysql", marks=pytest.mark.slow))


VALUES: tuple[tuple[str, str, object], ...] = (
    ("TINYINT", "-128", -128),
    ("TINYINT(1)", "2", 2),
    ("TINYINT(1)", "-1", -1),
    ("BOOLEAN", "TRUE", 1),
    ("TINYINT(1) UNSIGNED", "200", 200),
    ("SMALLINT", "-32768", -32768),
    ("SMALLINT UNSIGNED", "65535", 65535),
    ("MEDIUMINT", "-8388608", -8388608),
    ("MEDIUMINT UNSIGNED", "16777215", 16777215),
    ("INT", "-2147483648", -(2**31)),
    ("INT UNSIGNED", "4294967295", 2**32 - 1),
    ("INT(8) ZEROFILL", "7", 7),
    ("BIGINT", "-9223372036854775808", -(2**63)),
    ("BIGINT UNSIGNED", "18446744073709551615", U64),
    ("BIGINT UNSIGNED", "9007199254740993", 9007199254740993),
    ("BIT(1)", "b'0'", 0),
    ("BIT(1)", "b'1'", 1),
    ("BIT(9)", "b'100000001'", 257),
    ("BIT(64)", "18446744073709551615", U64),
    ("YEAR", "1901", 1901),
    ("YEAR", "2155", 2155),
    ("YEAR", "0", 0),
    ("DECIMAL(65,30)", f"{'9' * 35}.{'9' * 30}", Decimal(f"{'9' * 35}.{'9' * 30}")),
    ("DECIMAL(65,30)", "-0.000000000000000000000000000001", Decimal("-0.000000000000000000000000000001")),
    ("DECIMAL(38,20)", "123456789012345678.12345678901234567890", Decimal("123456789012345678.12345678901234567890")),
    ("DECIMAL(10,0) UNSIGNED", "9999999999", Decimal(9999999999)),
    ("DECIMAL(18,4)", "-1.5", Decimal("-1.5000")),
    ("FLOAT", "1.234567", 1.2345670461654663),
    ("FLOAT", "-3.402823466e38", -3.4028234663852886e38),
    ("FLOAT(7,3)", "1234.567", 1234.5670166015625),
    ("DOUBLE", "0.1", 0.1),
    ("DOUBLE", "1.7976931348623157e308", 1.7976931348623157e308),
    ("DOUBLE", "5e-324", 5e-324),
    ("DOUBLE(10,2)", "12345678.25", 12345678.25),
    ("DATE", "'1000-01-01'", date(1000, 1, 1)),
    ("DATE", "'1924-01-01'", date(1924, 1, 1)),
    ("DATE", "'9999-12-31'", date(9999, 12, 31)),
    ("DATETIME", "'1000-01-01 00:00:00'", datetime(1000, 1, 1)),
    ("DATETIME(6)", "'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("DATETIME(3)", "'2024-02-29 12:00:00.125'", datetime(2024, 2, 29, 12, 0, 0, 125000)),
    ("TIMESTAMP NULL", "FROM_UNIXTIME(1)", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    (
        "TIMESTAMP(6) NULL",
        "FROM_UNIXTIME(2147483647.999999)",
        datetime(2038, 1, 19, 3, 14, 7, 999999, tzinfo=UTC),
    ),
    ("TIME", "'23:59:59'", clock(23, 59, 59)),
    ("TIME(6)", "'00:00:00.000001'", clock(0, 0, 0, 1)),
    ("TIME(3)", "'12:34:56.789'", clock(12, 34, 56, 789000)),
    ("CHAR(5)", "'ab   '", "ab"),
    ("VARCHAR(20)", "''", ""),
    ("VARCHAR(20)", "'ab   '", "ab   "),
    ("VARCHAR(20)", "'NULL'", "NULL"),
    ("VARCHAR(20)", "'é😀\\'\\\\\\0'", "é😀'\\\0"),
    ("VARCHAR(20) CHARACTER SET latin1", "'Straße €'", "Straße €"),
    ("VARCHAR(20) CHARACTER SET ucs2", "'日本語'", "日本語"),
    ("VARCHAR(20) COLLATE utf8mb4_bin", "'A'", "A"),
    ("TEXT", "REPEAT('é', 30000)", "é" * 30000),
    ("LONGTEXT", "REPEAT('x', 2000000)", "x" * 2000000),
    ("BINARY(4)", "'ab'", b"ab\0\0"),
    ("VARBINARY(10)", "x'00ff80'", b"\x00\xff\x80"),
    ("VARBINARY(10)", "''", b""),
    ("LONGBLOB", "x'00c328'", b"\x00\xc3\x28"),
    ("ENUM('a','b''c','')", "'b\\'c'", "b'c"),
    ("SET('x','y')", "'x,y'", "x,y"),
    ("SET('x','y')", "''", ""),
    ("JSON", '\'{"a": [1, "é😀", null]}\'', '{"a": [1, "é😀", null]}'),
    ("UUID", "'00112233-4455-6677-8899-aabbccddeeff'", UUID("00112233-4455-6677-8899-aabbccddeeff").bytes),
    ("INET6", "'2001:db8::ff00:42:8329'", "2001:db8::ff00:42:8329"),
)


MARIADB_ONLY = ("UUID", "INET6")


REFUSED = (
    ("DATE", "'0000-00-00'"),
    ("DATE", "'2024-00-15'"),
    ("DATE", "'2024-02-00'"),
    ("DATETIME(6)", "'0000-00-00 00:00:00'"),
    ("TIMESTAMP NULL", "'0000-00-00 00:00:00'"),
    ("TIME", "'-00:00:01'"),
    ("TIME", "'24:00:00'"),
    ("TIME(6)", "'838:59:59.000000'"),
)


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_mysql() as uri:
        yield uri


@pytest.fixture
def server(uri: str) -> Iterator[Callable[..., None]]:
    """Runs statements, zero dates allowed; the table `t` is new for every test."""
    with without_table(uri) as run:
        yield run


@pytest.fixture
def ports(uri: str) -> Iterator[SourcePorts]:
    with open_source(connection(uri)) as ports:
        yield ports


@pytest.fixture(scope="module")
def all_values(uri: str) -> dict[tuple[str, str], list[dict[str, object]]]:
    """Two rows of one table with a column per value, the second one NULL; by reader, as table and as query."""
    mariadb = is_mariadb(uri)
    chosen = [(i, d, literal) for i, (d, literal, _) in enumerate(VALUES) if mariadb or d not in MARIADB_ONLY]
    columns = ", ".join(f"c{i} {declared}" for i, declared, _ in chosen)
    literals = ", ".join(literal for _, _, literal in chosen)
    with closing(connected(uri)) as session, session.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+05:00'")
        cursor.execute(f"CREATE TABLE every_type (n INT NOT NULL PRIMARY KEY, {columns})")
        cursor.execute(f"INSERT INTO every_type VALUES (1, {literals})")
        cursor.execute("INSERT INTO every_type (n) VALUES (2)")
    found = {}
    for reader in READERS:
        with open_source(connection(f"{uri}?reader={reader}")) as ports:
            table = ExtractRequest(table=TableName(schema=None, name="every_type"))
            found[reader, "table"] = sorted(read(ports, table), key=lambda row: str(row["n"]))
            found[reader, "query"] = sorted(
                read(ports, query("SELECT * FROM every_type")), key=lambda row: str(row["n"])
            )
    return found


@pytest.mark.parametrize("asked", ["table", "query"])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("number", range(len(VALUES)), ids=[f"{d}={v[:20]}" for d, v, _ in VALUES])
def test_a_value_is_read_exactly(
    uri: str, all_values: dict[tuple[str, str], list[dict[str, object]]], reader: str, asked: str, number: int
) -> None:
    declared, _, wanted = VALUES[number]
    if declared in MARIADB_ONLY:
        needs_mariadb(uri, declared)
    if declared == "UUID" and asked == "query":
        wanted = str(UUID(bytes=wanted))  # type: ignore[arg-type]
    value, null = (row[f"c{number}"] for row in all_values[reader, asked])
    assert value == wanted and type(value) is type(wanted)
    assert null is None


@pytest.mark.parametrize("reader", EITHER)
@pytest.mark.parametrize(("declared", "literal"), REFUSED)
def test_a_value_without_exact_form_is_refused_by_column(
    uri: str, server: Callable[..., None], reader: str, declared: str, literal: str
) -> None:
    server(f"CREATE TABLE t (id INT, `odd ``'v` {declared})", f"INSERT INTO t VALUES (1, {literal})")
    with open_source(connection(f"{uri}?reader={reader}")) as ports, pytest.raises(ConnectorError) as raised:
        read(ports)
    assert raised.value.code == "source_value_out_of_range"
    assert repr("odd `'v") in str(raised.value) and literal.strip("'") not in str(raised.value)
    assert "NULLIF" in str(raised.value.fix) and "special_values" in str(raised.value.fix)


def test_the_way_out_of_a_zero_date_works(server: Callable[..., None], ports: SourcePorts) -> None:
    server("CREATE TABLE t (d DATE)", "INSERT INTO t VALUES ('0000-00-00'), ('2024-01-01')")
    found = read(ports, query("SELECT NULLIF(d, '0000-00-00') AS d FROM t"))
    assert sorted(str(row["d"]) for row in found) == ["2024-01-01", "None"]


def test_a_cursor_whose_greatest_value_is_a_zero_date_is_refused(
    server: Callable[..., None], ports: SourcePorts
) -> None:
    server("CREATE TABLE t (d DATE)", "INSERT INTO t VALUES ('0000-00-00')")
    with pytest.raises(ConnectorError) as raised:
        ports.source.cursor_maximum(T, "d")
    assert raised.value.code == "source_value_out_of_range"


@pytest.mark.parametrize("declared", ["GEOMETRY", "POINT", "POLYGON"])
def test_a_spatial_column_is_described_and_refused_by_name(
    server: Callable[..., None], ports: SourcePorts, declared: str
) -> None:
    server(f"CREATE TABLE t (id INT, g {declared})")
    for request in (T, query("SELECT * FROM t")):
        column = ports.source.describe(request).columns[1]
        assert column.type.kind is ColumnKind.UNSUPPORTED
        with pytest.raises(ConnectorError) as raised:
            read(ports, request)
        assert raised.value.code == "source_column_unsupported" and "'g'" in str(raised.value)
    assert read(ports, query("SELECT ST_AsText(g) AS g FROM t")) == []


def test_tables_tell_nulls_and_hide_what_the_server_hides(server: Callable[..., None], ports: SourcePorts) -> None:
    server("CREATE TABLE t (a INT NOT NULL, b INT, c INT AS (a + 1) VIRTUAL, d INT INVISIBLE DEFAULT 3)")
    server("INSERT INTO t (a) VALUES (1)")
    assert [(c.name, c.nullable) for c in ports.source.describe(T).columns] == [("a", False), ("b", True), ("c", True)]
    assert read(ports) == [{"a": 1, "b": None, "c": 2}]


def test_members_of_an_enum_are_no_type_name(server: Callable[..., None], ports: SourcePorts) -> None:
    server("CREATE TABLE t (e ENUM('canary'), s SET('canary'))")
    assert [column.type.native for column in ports.source.describe(T).columns] == ["enum", "set"]


def test_a_query_is_typed_without_running(uri: str, server: Callable[..., None], ports: SourcePorts) -> None:
    server("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1), (2)")
    started = time.monotonic()
    schema = ports.source.describe(query("SELECT SLEEP(5) AS s, SUM(id) AS n, NULL AS x, 'a' AS t, 1.5 AS d FROM t"))
    assert time.monotonic() - started < 4
    assert [str(column.type) for column in schema.columns] == [
        "int32" if is_mariadb(uri) else "int64",
        "decimal(32,0)",
        "string",
        "string",
        "decimal(2,1)",
    ]


@pytest.mark.parametrize(
    ("declared", "values", "greatest", "window", "inside"),
    [
        ("BIGINT UNSIGNED", (1, U64), str(U64), ("2", None), [U64]),
        ("DECIMAL(30,10)", ("1.5", "2.5"), "2.5000000000", ("1.5000000000", "2.5"), [Decimal("1.5")]),
        ("DATE", ("'2024-01-01'", "'2024-02-01'"), "2024-02-01", (None, "2024-02-01"), [date(2024, 1, 1)]),
        (
            "DATETIME(6)",
            ("'2024-01-01 00:00:00.5'", "'2024-01-02'"),
            "2024-01-02T00:00:00.000000",
            ("2024-01-01T00:00:00.500000", "2024-01-02T00:00:00"),
            [datetime(2024, 1, 1, 0, 0, 0, 500000)],
        ),
        (
            "TIMESTAMP(6) NULL",
            ("'2024-01-01 05:00:00'", "'2024-01-02 05:00:00'"),
            "2024-01-02T00:00:00.000000+00:00",
            ("2024-01-01T02:00:00+02:00", "2024-01-02T00:00:00+00:00"),
            [datetime(2024, 1, 1, tzinfo=UTC)],
        ),
        ("VARCHAR(9)", ("'B'", "'a'", "'a '"), "a ", ("B", "a "), ["B", "a"]),
    ],
)
def test_a_cursor_is_exact(
    server: Callable[..., None],
    ports: SourcePorts,
    declared: str,
    values: tuple[object, ...],
    greatest: str,
    window: tuple[str | None, str | None],
    inside: list[object],
) -> None:
    server(f"CREATE TABLE t (c {declared})", f"INSERT INTO t VALUES {', '.join(f'({v})' for v in values)}, (NULL)")
    assert ports.source.cursor_maximum(T, "c") == greatest
    asked = CursorWindow(column="c", lower=window[0], upper=window[1])
    found = [row["c"] for row in read(ports, ExtractRequest(table=T.table, window=asked))]
    assert sorted(found, key=str) == inside


@pytest.mark.parametrize(
    ("declared", "text"), [("INT", "1; DROP"), ("DATE", "soon"), ("DATETIME", "2024-01-01T00:00:00Z")]
)
def test_a_bound_of_another_kind_is_refused(
    server: Callable[..., None], ports: SourcePorts, declared: str, text: str
) -> None:
    server(f"CREATE TABLE t (c {declared})")
    with pytest.raises(ConnectorError) as raised:
        read(ports, ExtractRequest(table=T.table, window=CursorWindow(column="c", lower=text)))
    assert raised.value.code == "cursor_value_invalid"


def test_distinct_counts_tell_case_and_blanks_apart(server: Callable[..., None], ports: SourcePorts) -> None:
    server("CREATE TABLE t (v VARCHAR(9))", "INSERT INTO t VALUES ('a'), ('A'), ('a '), ('ä'), (NULL)")
    assert ports.metrics is not None
    answer = ports.metrics.collect(
        MetricRequest(side=Side.SOURCE, extract=T, null_counts=("v",), distinct_counts=("v",))
    )
    assert answer == {"row_count": 5, "null_counts": {"v": 1}, "distinct_counts": {"v": 4}}


def test_a_decimal_of_65_digits_has_a_type_of_its_own(server: Callable[..., None], ports: SourcePorts) -> None:
    server("CREATE TABLE t (d DECIMAL(65,30))", "INSERT INTO t VALUES (1)")
    schema = ports.source.describe(T)
    (batch,) = ports.source.open_stream(T, schema).batches()
    assert batch.schema.types == [pa.decimal256(65, 30)]


@pytest.mark.parametrize("row", TYPES, ids=lambda row: row.engine)
def test_the_table_of_types_says_what_columns_become(row: TypeMapping) -> None:
    """The first type a row names becomes the kind it says."""
    if "UNSIGNED" in row.engine:
        native = NativeType(name="tinyint", label="tinyint unsigned", unsigned=True)
    else:
        name = row.engine.split(",")[0].split("(")[0].split(" ")[0].lower()
        native = NativeType(name=name, label=name, digits=10 if name == "decimal" else 8, scale=2)
    kind = column_type(native).kind.value
    assert row.dpone.split("(")[0].split(" ")[0] == kind
    assert bool(row.read) is (kind != "unsupported")
