"""PostgreSQL values reach Arrow exactly, or their column is named; nothing is wrapped, cut or guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from datetime import time as clock
from decimal import Decimal
from uuid import UUID

import pytest

from dpone_core.connectors.postgres.open import open_source
from dpone_core.connectors.postgres.source.stream import PostgresStream
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import ColumnKind
from dpone_core.model.vocabulary import Side
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from tests.connectors.postgres_reading import Server, query, read, refused, statements, table, values
from tests.connectors.sessions import connection
from tests.live.servers import scratch_postgres

KIND = ColumnKind


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_postgres() as found:
        yield found


@pytest.fixture(scope="module")
def server(uri: str) -> Iterator[Server]:
    with statements(uri) as run:
        yield run


@pytest.fixture(scope="module")
def source(uri: str) -> Iterator[SourcePorts]:
    with open_source(connection(uri)) as ports:
        yield ports


E76 = Decimal("9" * 76)


EXACT = [
    ("bool", KIND.BOOLEAN, ["true", "false"], [True, False]),
    ("int2", KIND.INT16, ["-32768", "32767"], [-(2**15), 2**15 - 1]),
    ("int4", KIND.INT32, ["-2147483648", "2147483647"], [-(2**31), 2**31 - 1]),
    ("int8", KIND.INT64, ["-9223372036854775808", "9223372036854775807"], [-(2**63), 2**63 - 1]),
    ("oid", KIND.INT64, ["0", "4294967295"], [0, 4294967295]),
    ("float4", KIND.FLOAT32, ["1.5", "Infinity", "-Infinity"], [1.5, float("inf"), float("-inf")]),
    ("float8", KIND.FLOAT64, ["0.1", "5e-324", "-Infinity"], [0.1, 5e-324, float("-inf")]),
    ("numeric(18,4)", KIND.DECIMAL, ["99999999999999.9999", "0", "-0.0001"], None),
    ("numeric(18,18)", KIND.DECIMAL, ["0.999999999999999999", "-0.000000000000000001"], None),
    ("numeric(10,4)", KIND.DECIMAL, ["0", "1.0123"], None),
    ("numeric(18)", KIND.DECIMAL, ["999999999999999999", "-999999999999999999"], None),
    ("numeric(19,4)", KIND.DECIMAL, ["999999999999999.9999", "0.0000"], None),
    ("numeric(38,0)", KIND.DECIMAL, ["9" * 38], None),
    ("numeric(30,6)", KIND.DECIMAL, ["0.000001"], None),
    ("numeric(76,0)", KIND.DECIMAL, ["9" * 76], None),
    ("numeric(76,50)", KIND.DECIMAL, ["0." + "9" * 50], None),
    ("numeric(3,-2)", KIND.DECIMAL, ["99900", "-100"], None),
    ("numeric(3,5)", KIND.DECIMAL, ["0.00999"], None),
    ("text", KIND.STRING, ["", "a\"'\\ \n\t😀", "é" * 70_000], None),
    ("varchar(3)", KIND.STRING, ["abc", ""], None),
    ("char(3)", KIND.STRING, ["ab"], ["ab "]),
    ('"char"', KIND.STRING, ["x"], None),
    ("name", KIND.STRING, ["n"], None),
    ("json", KIND.STRING, ['{"b": 1, "a": 1.10}'], None),
    ("jsonb", KIND.STRING, ['{"b": 1, "a": 1.10}'], ['{"a": 1.10, "b": 1}']),
    ("xml", KIND.STRING, ["<a>é</a>"], None),
    ("inet", KIND.STRING, ["10.0.0.1/8", "::1"], None),
    ("cidr", KIND.STRING, ["10.0.0.0/8"], None),
    ("macaddr", KIND.STRING, ["08:00:2b:01:02:03"], None),
    ("bit(3)", KIND.STRING, ["010"], None),
    ("varbit", KIND.STRING, ["0101"], None),
    ("interval", KIND.STRING, ["1 year 2 days -03:04:05.000006"], ["P1Y2DT-3H-4M-5.000006S"]),
    ("mood", KIND.STRING, ["sad, really"], None),
    ("bytea", KIND.BINARY, ["\\x00ff00", "\\x"], [b"\x00\xff\x00", b""]),
    ("date", KIND.DATE, ["0001-01-01", "9999-12-31"], [date(1, 1, 1), date(9999, 12, 31)]),
    ("time", KIND.TIME, ["00:00", "23:59:59.999999"], [clock(0), clock(23, 59, 59, 999999)]),
    ("time(0)", KIND.TIME, ["23:59:59"], [clock(23, 59, 59)]),
    (
        "timestamp",
        KIND.TIMESTAMP,
        ["0001-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999"],
        [datetime(1, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)],
    ),
    ("timestamp(3)", KIND.TIMESTAMP, ["2026-03-29 02:30:00.123"], [datetime(2026, 3, 29, 2, 30, 0, 123000)]),
    (
        "timestamptz",
        KIND.TIMESTAMP_TZ,
        ["2026-03-29 02:30:00.000001+05:45", "1883-11-18 12:00:00-07:52:58"],
        [datetime(2026, 3, 28, 20, 45, 0, 1, tzinfo=UTC), datetime(1883, 11, 18, 19, 52, 58, tzinfo=UTC)],
    ),
    ("uuid", KIND.UUID, ["00112233-4455-6677-8899-aabbccddeeff"], None),
    ("ratio", KIND.DECIMAL, ["0.1250"], None),
    ("nested_ratio", KIND.DECIMAL, ["0.1250"], None),
]


@pytest.fixture(scope="module", autouse=True)
def types(server: Server) -> None:
    server("CREATE TYPE mood AS ENUM ('sad, really', 'ok')")
    server("CREATE DOMAIN ratio AS numeric(9, 4) CHECK (VALUE < 1)")
    server("CREATE DOMAIN nested_ratio AS ratio")


@pytest.mark.parametrize(("type_", "kind", "texts", "wanted"), EXACT, ids=[case[0] for case in EXACT])
def test_every_supported_type_is_read_exactly_beside_null(
    source: SourcePorts, server: Server, type_: str, kind: ColumnKind, texts: list[str], wanted: list[object] | None
) -> None:
    server("DROP TABLE IF EXISTS exact")
    server(f"CREATE TABLE exact (v {type_}, place int)")
    for place, text in enumerate([*texts, None]):
        literal = "NULL" if text is None else "'" + text.replace("'", "''") + "'"
        server(f"INSERT INTO exact VALUES ({literal}, {place})")
    column = source.source.describe(table("exact")).columns[0]
    assert column.type.kind is kind and column.nullable
    found = read(source, table("exact")).sort_by("place").column("v").to_pylist()
    if wanted is None:
        convert: Callable[[str], object] = {
            KIND.DECIMAL: Decimal,
            KIND.UUID: lambda text: UUID(text).bytes,
        }.get(kind, str)
        wanted = [convert(text) for text in texts]
    assert found == [*wanted, None]
    assert [type(value) for value in found[:-1]] == [type(value) for value in wanted]
    if kind is KIND.DECIMAL and (column.type.precision or 0) <= 38:
        assert {f"{value:f}" for value in found[:-1]} == {f"{Decimal(text):.{column.type.scale}f}" for text in texts}


def test_nan_is_a_float(source: SourcePorts) -> None:
    (value,) = values(source, query("SELECT 'NaN'::float8 AS v"))
    assert isinstance(value, float) and value != value


def test_precision_and_fraction_come_from_the_catalogue(source: SourcePorts, server: Server) -> None:
    server("CREATE TABLE precise (a numeric(21, 5), b timestamp(3), c time(0), d timestamptz, e nested_ratio)")
    types = [str(column.type) for column in source.source.describe(table("precise")).columns]
    assert types == ["decimal(21,5)", "timestamp(3)", "time(0)", "timestamp_tz(6)", "decimal(9,4)"]
    described = source.source.describe(query("SELECT a, b, c, d, e FROM precise"))
    assert [str(column.type) for column in described.columns] == types


UNSUPPORTED = [
    "numeric",
    "numeric(78,0)",
    "numeric(100,50)",
    "money",
    "timetz",
    "int4[]",
    "text[]",
    "int4range",
    "point",
    "tsvector",
    "pg_lsn",
    "pair",
]


@pytest.mark.parametrize("type_", UNSUPPORTED)
def test_a_type_without_an_exact_form_is_described_as_such_with_advice(
    source: SourcePorts, server: Server, type_: str
) -> None:
    server("DROP TABLE IF EXISTS foreign_types; DROP TYPE IF EXISTS pair; CREATE TYPE pair AS (a int, b int)")
    server(f"CREATE TABLE foreign_types (id int, v {type_})")
    column = source.source.describe(table("foreign_types")).columns[1]
    assert column.type.kind is KIND.UNSUPPORTED
    name, _, advice = column.type.native.partition(": ")
    assert (
        name.split(" without")[0]
        == server(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 'foreign_types'::regclass AND attname = 'v'"
        )[0][0]
        and advice
    )
    with refused("source_column_unsupported", "'v'"):
        source.source.open_stream(table("foreign_types"), source.source.describe(table("foreign_types")))


NOT_EXACT = [
    ("numeric(18,4)", "NaN", "decimal(18,4)"),
    ("numeric(30,4)", "NaN", "decimal(30,4)"),
    ("date", "infinity", "date"),
    ("date", "-infinity", "date"),
    ("timestamp", "infinity", "timestamp(6)"),
    ("timestamp(3)", "-infinity", "timestamp(3)"),
    ("timestamp", "294276-01-01", "timestamp(6)"),
    ("timestamptz", "infinity", "timestamp_tz(6)"),
    ("time", "24:00", "time(6)"),
]


@pytest.mark.parametrize(("type_", "text", "shown"), NOT_EXACT)
def test_one_bad_row_of_many_names_column_and_count_and_no_value(
    source: SourcePorts, server: Server, type_: str, text: str, shown: str
) -> None:
    server("DROP TABLE IF EXISTS bad")
    server(f"CREATE TABLE bad AS SELECT i, NULL::{type_} AS v, now() AS w FROM generate_series(1, 10000) i")
    server(f"INSERT INTO bad VALUES (0, '{text}', now()), (0, '{text}', now())")
    for request in (table("bad"), query("SELECT * FROM bad")):
        with refused("source_value_out_of_range", f"column 'v': 2 values have no {shown}") as _:
            read(source, request)


def test_a_value_that_is_refused_is_not_in_the_message(source: SourcePorts) -> None:
    with pytest.raises(ConnectorError) as raised:
        read(source, query("SELECT 'NaN'::numeric(18, 4) AS v"))
    assert "NaN" not in str(raised.value)


def test_a_cast_of_the_author_that_fails_is_the_querys_error(source: SourcePorts, server: Server) -> None:
    server("CREATE TABLE wide AS SELECT 67806780999999999997777::numeric AS v")
    with refused("source_query_refused", "a value does not fit"):
        read(source, query("SELECT v::numeric(18, 4) AS v FROM wide"))


def test_odd_names_and_three_hundred_columns(source: SourcePorts, server: Server) -> None:
    names = ['q"uo', "a.b", "x y", "select", "имя", "a'b", "$1", "{{ ds }}", "%s", "n" * 63]
    names += [f"c{i}" for i in range(290)]
    quoted = ", ".join(f"{i} AS " + '"' + name.replace('"', '""') + '"' for i, name in enumerate(names))
    server('CREATE SCHEMA "Odd ""schema"')
    server(f'CREATE TABLE "Odd ""schema"."T a.b" AS SELECT {quoted}')
    found = read(source, table("T a.b", 'Odd "schema'))
    assert found.column_names == names and found.to_pylist() == [{name: i for i, name in enumerate(names)}]


def test_generated_and_dropped_columns(source: SourcePorts, server: Server) -> None:
    server("CREATE TABLE made (a int NOT NULL, gone int, b int GENERATED ALWAYS AS (a * 2) STORED)")
    server("INSERT INTO made (a) VALUES (4); ALTER TABLE made DROP COLUMN gone")
    schema = source.source.describe(table("made"))
    assert [(column.name, column.nullable) for column in schema.columns] == [("a", False), ("b", True)]
    assert read(source, table("made")).to_pylist() == [{"a": 4, "b": 8}]


def test_a_forecast_comes_from_statistics_only(source: SourcePorts, server: Server) -> None:
    server("CREATE TABLE counted (i int) PARTITION BY RANGE (i); CREATE TABLE counted_all PARTITION OF counted DEFAULT")
    server("INSERT INTO counted SELECT generate_series(1, 1000)")

    def expected(request: ExtractRequest) -> int | None:
        stream = source.source.open_stream(request, source.source.describe(request))
        assert isinstance(stream, PostgresStream)
        return stream.expected_rows()

    assert expected(table("counted")) is None
    server("ANALYZE counted")
    assert expected(table("counted")) == expected(table("counted_all")) == 1000
    assert expected(query("SELECT * FROM counted")) is None
    assert expected(table("counted", window=CursorWindow(column="i", upper="5"))) is None


def test_tokens_take_the_type_their_place_asks_for(source: SourcePorts, server: Server) -> None:
    server(
        "CREATE TABLE events AS SELECT i, timestamptz '2026-01-01 00:00+00' + i * interval '1 hour' AS at"
        " FROM generate_series(0, 47) i"
    )
    request = query(
        "SELECT i FROM events WHERE at >= {{ data_interval_start }} AND at < {{ data_interval_end }}"
        " AND at::date = {{ ds }}::date -- {{ not a token of ours }}".replace("{{ not a token of ours }}", ""),
        data_interval_start="2026-01-01T22:00:00+00:00",
        data_interval_end="2026-01-02T02:00:00+00:00",
        ds="2026-01-02",
    )
    assert values(source, request) == [24, 25]
    odd = query("SELECT {{ run_id }} AS v, {{ ds }}::int AS w", run_id="'; DROP TABLE events; --\\$x$", ds="7")
    assert read(source, odd).to_pylist() == [{"v": "'; DROP TABLE events; --\\$x$", "w": 7}]


@pytest.mark.parametrize(
    ("type_", "low", "high", "count"),
    [
        ("int2", "10", "12", 2),
        ("int8", "10", "12", 2),
        ("numeric(9,2)", "10.00", "12", 2),
        ("date", "2026-01-11", "2026-01-13", 2),
        ("timestamp", "2026-01-11T00:00:00", "2026-01-11T02:00:00", 1),
        ("timestamptz", "2026-01-11T00:00:00+01:00", "2026-01-13T00:00:00.000001+00:00", 3),
        ("varchar(9)", "00010", "00012", 2),
    ],
)
def test_windows_and_maxima_of_every_cursor_kind(
    source: SourcePorts, server: Server, type_: str, low: str, high: str, count: int
) -> None:
    made = (
        {
            "d": "(date '2026-01-01' + i)",
            "t": "(timestamp '2026-01-01' + i * interval '1 day')",
            "v": "lpad(i::text, 5, '0')",
        }.get(type_[0], "i")
        if not type_.startswith("timestamptz")
        else "(timestamptz '2026-01-01 00:00+00' + i * interval '1 day')"
    )
    server("DROP TABLE IF EXISTS moving")
    server(f"CREATE TABLE moving AS SELECT {made}::{type_} AS at FROM generate_series(0, 20) i")
    assert len(values(source, table("moving", window=CursorWindow(column="at", lower=low, upper=high)))) == count
    maximum = source.source.cursor_maximum(table("moving"), "at")
    assert maximum is not None
    below = values(source, table("moving", window=CursorWindow(column="at", upper=maximum)))
    rest = values(source, table("moving", window=CursorWindow(column="at", lower=maximum)))
    assert (len(below), len(rest)) == (20, 1)
    assert source.source.cursor_maximum(table("moving", window=CursorWindow(column="at", upper=low)), "at") is not None


def test_rows_that_tie_with_the_saved_maximum_come_with_the_next_window(source: SourcePorts, server: Server) -> None:
    server("CREATE TABLE ties AS SELECT * FROM (VALUES (15, 'a'), (16, 'b'), (16, 'c')) AS t(at, name)")
    maximum = source.source.cursor_maximum(table("ties"), "at")
    first = read(source, table("ties", window=CursorWindow(column="at", upper=maximum))).column("name").to_pylist()
    server("INSERT INTO ties VALUES (16, 'late'), (17, 'new')")
    window = CursorWindow(column="at", lower=maximum, upper=source.source.cursor_maximum(table("ties"), "at"))
    second = read(source, table("ties", window=window)).column("name").to_pylist()
    assert (first, sorted(second)) == (["a"], ["b", "c", "late"])


@pytest.mark.parametrize(
    ("type_", "text"), [("timestamptz", "infinity"), ("numeric(9,2)", "NaN"), ("date", "0044-03-15 BC")]
)
def test_a_maximum_that_is_no_cursor_value_is_refused(
    source: SourcePorts, server: Server, type_: str, text: str
) -> None:
    with refused("source_value_out_of_range", "'v'"):
        source.source.cursor_maximum(query(f"SELECT '{text}'::{type_} AS v"), "v")


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT 0.5::float8 AS v", "source_column_unsupported"),
        ("SELECT '::1'::inet AS v", "source_column_unsupported"),
    ],
)
def test_a_column_that_is_no_cursor_is_refused(source: SourcePorts, sql: str, code: str) -> None:
    with refused(code):
        source.source.cursor_maximum(query(sql), "v")
    with refused("source_object_not_found"):
        source.source.cursor_maximum(query(sql), "nothing")


def test_a_saved_cursor_of_another_kind_is_refused(source: SourcePorts) -> None:
    for lower in ("x", "2026-01-01T00:00:00"):
        request = query("SELECT now() AS v")
        windowed = ExtractRequest(query=request.query, window=CursorWindow(column="v", lower=lower))
        with refused("cursor_value_invalid"):
            read(source, windowed, source.source.describe(request))


def test_names_that_occur_twice_are_refused(source: SourcePorts) -> None:
    request = query("SELECT 1 AS a, 2 AS a")
    with refused("source_column_unsupported"):
        source.source.open_stream(request, source.source.describe(request))


def test_what_postgres_calls_equal_is_counted_as_it_is_read(source: SourcePorts) -> None:
    request = query(
        "SELECT * FROM (VALUES ('1 month'::interval, '{\"a\":1}'::json), ('30 days', '{\"a\": 1}'), (NULL, NULL))"
        " AS t(span, doc)"
    )
    assert source.metrics is not None
    asked = MetricRequest(
        side=Side.SOURCE, extract=request, null_counts=("doc",), distinct_counts=("span", "doc"), row_count=False
    )
    assert source.metrics.collect(asked) == {"null_counts": {"doc": 1}, "distinct_counts": {"span": 2, "doc": 2}}
