"""A declared special value becomes what its rule says, in rows, ranges and metrics alike, and each row says which rule
did it. Any other special value stays refused by column (VAL-13, VAL-18). Real PostgreSQL, MariaDB and DuckDB.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpone_core.connectors.duckdb.open import open_source as open_duckdb
from dpone_core.connectors.mysql.open import open_source as open_mysql
from dpone_core.connectors.postgres.open import open_source as open_postgres
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.partition import KeyRange
from dpone_core.model.special_values import SpecialValue, SpecialValueRule, flag_name
from dpone_core.model.sql import SqlText
from dpone_core.model.vocabulary import Side
from dpone_core.planning.partitions import plan_ranges
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from tests.connectors.mysql_servers import connected
from tests.connectors.sessions import connection
from tests.live.servers import scratch_mysql, scratch_postgres

Rows = list[dict[str, object]]
Opened = Callable[..., SourcePorts]
ODD = 'odd "`v'
DATE = date(9999, 12, 31)
MOMENT = datetime(2999, 12, 31, 12, 30, 0, 125000)
INSTANT = datetime(2999, 12, 31, 12, 30, tzinfo=UTC)
CASES = [
    ("postgres", "date", "infinity", "infinity", "9999-12-31", DATE),
    ("postgres", "date", "-infinity", "-infinity", None, None),
    ("postgres", "timestamp", "infinity", "infinity", "2999-12-31T12:30:00.125", MOMENT),
    ("postgres", "timestamp(0)", "-infinity", "-infinity", "9999-12-31", datetime(9999, 12, 31)),
    ("postgres", "timestamptz", "infinity", "infinity", "2999-12-31 17:30:00+05:00", INSTANT),
    ("postgres", "timestamptz", "-infinity", "-infinity", None, None),
    ("postgres", "numeric(9,2)", "NaN", "nan", "-1.5", Decimal("-1.50")),
    ("postgres", "numeric(30,4)", "NaN", "nan", "0", Decimal("0.0000")),
    ("postgres", "numeric(30,4)", "NaN", "nan", None, None),
    ("postgres", "float8", "NaN", "nan", "0.5", 0.5),
    ("postgres", "float4", "-Infinity", "-infinity", None, None),
    ("mysql", "DATE", "0000-00-00", "zero_date", None, None),
    ("mysql", "DATE", "0000-00-00", "zero_date", "1000-01-01", date(1000, 1, 1)),
    ("mysql", "DATE", "2024-00-15", "partial_date", None, None),
    ("mysql", "DATE", "2024-02-00", "partial_date", "2024-02-01", date(2024, 2, 1)),
    ("mysql", "DATETIME", "0000-00-00 00:00:00", "zero_date", "2999-12-31", datetime(2999, 12, 31)),
    ("mysql", "DATETIME(6)", "0000-00-00 00:00:00", "zero_date", "2999-12-31T12:30:00.125", MOMENT),
    ("mysql", "DATETIME(3)", "2024-00-15 10:00:00", "partial_date", None, None),
    ("mysql", "TIMESTAMP NULL", "0000-00-00 00:00:00", "zero_date", "2999-12-31T17:30:00+05:00", INSTANT),
    ("duckdb", "DATE", "infinity", "infinity", "9999-12-31", DATE),
    ("duckdb", "DATE", "-infinity", "-infinity", None, None),
    ("duckdb", "TIMESTAMP", "-infinity", "-infinity", "2999-12-31 12:30:00.125", MOMENT),
    ("duckdb", "TIMESTAMP_S", "infinity", "infinity", "9999-12-31", datetime(9999, 12, 31)),
    ("duckdb", "TIMESTAMP_MS", "infinity", "infinity", None, None),
    ("duckdb", "TIMESTAMP_NS", "-infinity", "-infinity", None, None),
    ("duckdb", "TIMESTAMPTZ", "infinity", "infinity", "2999-12-31T12:30:00Z", INSTANT),
    ("duckdb", "DOUBLE", "NaN", "nan", None, None),
    ("duckdb", "FLOAT", "Infinity", "infinity", "-2", -2.0),
]
WITHOUT_EFFECT = [
    ("postgres", "int4", "infinity", None, "has no 'infinity'"),
    ("postgres", "text", "nan", None, "has no 'nan'"),
    ("postgres", "date", "nan", None, "has no 'nan'"),
    ("postgres", "numeric(9,2)", "infinity", None, "has no 'infinity'"),
    ("postgres", "date", "infinity", "9999-12-31T00:00:00", "is replaced by something that is not a date"),
    (
        "postgres",
        "timestamp(3)",
        "infinity",
        "2999-12-31T00:00:00.0001",
        "is replaced by something that is not a timestamp(3)",
    ),
    (
        "postgres",
        "timestamp",
        "infinity",
        "2999-12-31T00:00:00Z",
        "is replaced by something that is not a timestamp(6)",
    ),
    ("postgres", "timestamptz", "infinity", "2999-12-31", "is replaced by something that is not a timestamp_tz(6)"),
    (
        "postgres",
        "timestamptz",
        "infinity",
        "9999-12-31T23:00:00-05:00",
        "is replaced by something that is not a timestamp_tz(6)",
    ),
    ("postgres", "numeric(4,2)", "nan", "100", "is replaced by something that is not a decimal(4,2)"),
    ("postgres", "numeric(4,2)", "nan", "0.001", "is replaced by something that is not a decimal(4,2)"),
    ("postgres", "float4", "nan", "0.1", "is replaced by something that is not a float32"),
    ("postgres", "float8", "nan", "0.1", "is replaced by something that is not a float64"),
    ("mysql", "TIMESTAMP NULL", "partial_date", None, "has no 'partial_date'"),
    ("mysql", "VARCHAR(10)", "zero_date", None, "has no 'zero_date'"),
    ("mysql", "TIME", "zero_date", None, "has no 'zero_date'"),
    ("duckdb", "DECIMAL(9,2)", "nan", None, "has no 'nan'"),
    ("duckdb", "TIME", "infinity", None, "has no 'infinity'"),
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with scratch_postgres() as uri:
        yield uri


@pytest.fixture(scope="module")
def mysql() -> Iterator[str]:
    with scratch_mysql() as uri:
        yield uri


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Makes the table `t` of an engine by statements, and opens the engine as a source."""
    sources: list[object] = []

    def open_with(engine: str, *statements: str, options: str = "") -> SourcePorts:
        script = ("DROP TABLE IF EXISTS t", *statements)
        context: object
        if engine == "postgres":
            uri = request.getfixturevalue("postgres")
            with psycopg.connect(uri, autocommit=True) as server:
                for statement in script:
                    server.execute(statement.encode())
            context = open_postgres(connection(uri))
        elif engine == "mysql":
            uri = request.getfixturevalue("mysql")
            with closing(connected(uri)) as session, session.cursor() as cursor:
                cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
                for statement in script:
                    cursor.execute(statement)
            context = open_mysql(connection(uri + options))
        else:
            path = tmp_path / "source.duckdb"
            with closing(duckdb.connect(str(path))) as made:
                for statement in script:
                    made.execute(statement)
            context = open_duckdb(connection(f"duckdb:///{path}"))
        sources.append(context)
        return context.__enter__()  # type: ignore[attr-defined, no-any-return]

    yield open_with
    for context in sources:
        context.__exit__(None, None, None)  # type: ignore[attr-defined]


def rule(value: str, becomes: str | None, column: str = ODD) -> SpecialValueRule:
    return SpecialValueRule(column=column, value=SpecialValue(value), becomes=becomes)


def asked(*rules: SpecialValueRule, query: str | None = None, window: CursorWindow | None = None) -> ExtractRequest:
    if query is not None:
        return ExtractRequest(query=SqlText(text=query), special_values=rules, window=window)
    return ExtractRequest(table=TableName(schema=None, name="t"), special_values=rules, window=window)


def read(ports: SourcePorts, request: ExtractRequest) -> Rows:
    with closing(ports.source.open_stream(request, ports.source.describe(request))) as stream:
        return sorted(
            (row for batch in stream.batches() for row in batch.to_pylist()), key=lambda row: int(str(row["id"]))
        )


def table(engine: str, declared: str, *values: str | None) -> tuple[str, ...]:
    name = f"`{ODD.replace('`', '``')}`" if engine == "mysql" else '"' + ODD.replace('"', '""') + '"'
    rows = ", ".join(f"({i}, {'NULL' if v is None else repr(v)})" for i, v in enumerate(values, 1))
    return f"CREATE TABLE t (id INTEGER, {name} {declared})", f"INSERT INTO t VALUES {rows}"


@pytest.mark.parametrize(("engine", "declared", "stored", "value", "becomes", "wanted"), CASES)
def test_a_declared_value_becomes_what_its_rule_says_and_is_flagged(
    opened: Opened, engine: str, declared: str, stored: str, value: str, becomes: str | None, wanted: object
) -> None:
    plain = "1.5" if isinstance(wanted, Decimal | float) or "NaN" in stored or "float" in declared else "2024-02-29"
    ports = opened(engine, *table(engine, declared, stored, plain, None, stored))
    found = read(ports, asked(rule(value, becomes)))
    assert [row[flag_name(0)] for row in found] == [True, False, False, True]
    assert [found[0][ODD], found[3][ODD]] == [wanted, wanted] and type(found[0][ODD]) is type(wanted)
    assert found[1][ODD] is not None and str(found[1][ODD]).startswith(plain)
    assert found[2][ODD] is None


@pytest.mark.parametrize(("engine", "declared", "stored", "value", "becomes", "wanted"), CASES)
def test_without_its_rule_the_value_stays_refused_or_itself(
    opened: Opened, engine: str, declared: str, stored: str, value: str, becomes: str | None, wanted: object
) -> None:
    ports = opened(engine, *table(engine, declared, stored))
    if declared.lower() in ("float4", "float8", "double", "float"):
        ((_, kept),) = (row.values() for row in read(ports, asked()))
        assert isinstance(kept, float) and not math.isfinite(kept)
        return
    other = {"infinity": "-infinity", "-infinity": "infinity", "zero_date": "partial_date"}.get(value, "zero_date")
    rules = () if value == "nan" or declared.startswith("TIMESTAMP NULL") else (rule(other, None),)
    for asks in (asked(), asked(*rules)):
        with pytest.raises(ConnectorError) as raised:
            read(ports, asks)
        assert raised.value.code == "source_value_out_of_range" and repr(ODD) in str(raised.value)
        assert "special_values" in str(raised.value.fix)


@pytest.mark.parametrize(("engine", "declared", "value", "becomes", "said"), WITHOUT_EFFECT)
def test_a_rule_without_effect_or_value_is_refused_by_column(
    opened: Opened, engine: str, declared: str, value: str, becomes: str | None, said: str
) -> None:
    ports = opened(engine, *table(engine, declared, None))
    with pytest.raises(ConnectorError) as raised:
        ports.source.describe(asked(rule(value, becomes)))
    assert raised.value.code == "special_values_refused"
    assert repr(ODD) in str(raised.value) and said in str(raised.value)


@pytest.mark.parametrize("engine", ["postgres", "mysql", "duckdb"])
def test_a_rule_for_an_unknown_column_is_refused_by_name(opened: Opened, engine: str) -> None:
    ports = opened(engine, *table(engine, "DATE", None))
    value = "zero_date" if engine == "mysql" else "infinity"
    with pytest.raises(ConnectorError) as raised:
        ports.source.describe(asked(rule(value, None, column="valid_too")))
    assert raised.value.code == "special_values_refused" and "'valid_too' is not a column" in str(raised.value)


@pytest.mark.parametrize("engine", ["postgres", "mysql", "duckdb"])
def test_null_makes_a_column_nullable_and_another_value_does_not(opened: Opened, engine: str) -> None:
    ports = opened(engine, *table(engine, "DATE NOT NULL", "2024-01-01"))
    value = "zero_date" if engine == "mysql" else "infinity"
    for rules, nullable in (((), False), ((rule(value, None),), True), ((rule(value, "2024-01-01"),), False)):
        column = ports.source.describe(asked(*rules)).find(ODD)
        assert column is not None and column.nullable is nullable


@pytest.mark.parametrize("options", ["?reader=auto", "?reader=pymysql"])
def test_each_reader_of_mysql_flags_each_rule(opened: Opened, options: str) -> None:
    stored = ("0000-00-00", "2024-00-15", "2024-01-01", "0000-12-00")
    ports = opened("mysql", *table("mysql", "DATE", *stored), options=options)
    rules = (rule("partial_date", "2000-01-01"), rule("zero_date", None))
    found = read(ports, asked(*rules))
    assert [str(row[ODD]) for row in found] == ["None", "2000-01-01", "2024-01-01", "2000-01-01"]
    assert [row[flag_name(0)] for row in found] == [False, True, False, True]
    assert [row[flag_name(1)] for row in found] == [True, False, False, False]


def test_a_zero_date_with_a_time_of_day_is_a_partial_one(opened: Opened) -> None:
    ports = opened("mysql", *table("mysql", "DATETIME(3)", "0000-00-00 10:00:00", "0000-00-00 00:00:00"))
    with pytest.raises(ConnectorError):
        read(ports, asked(rule("zero_date", None)))
    found = read(ports, asked(rule("zero_date", None), rule("partial_date", "2000-01-01")))
    assert [row[flag_name(0)] for row in found] == [False, True]
    assert [row[flag_name(1)] for row in found] == [True, False]


@pytest.mark.parametrize("engine", ["postgres", "mysql", "duckdb"])
def test_a_query_converts_like_a_table(opened: Opened, engine: str) -> None:
    stored, value = ("0000-00-00", "zero_date") if engine == "mysql" else ("infinity", "infinity")
    ports = opened(engine, "CREATE TABLE t (id INTEGER, d DATE)", f"INSERT INTO t VALUES (1, '{stored}'), (2, NULL)")
    (first, second) = read(ports, asked(rule(value, "2024-01-01", "till"), query="SELECT id, d AS till FROM t"))
    assert (first["till"], first[flag_name(0)]) == (date(2024, 1, 1), True)
    assert (second["till"], second[flag_name(0)]) == (None, False)


@pytest.mark.parametrize("engine", ["postgres", "mysql", "duckdb"])
def test_a_query_that_answers_differently_each_time_is_counted_as_it_was_read(opened: Opened, engine: str) -> None:
    """Value and flag come from one evaluation of the row, not from two."""
    stored, value, chance = {
        "postgres": ("infinity", "infinity", "random()"),
        "mysql": ("0000-00-00", "zero_date", "RAND()"),
        "duckdb": ("infinity", "infinity", "random()"),
    }[engine]
    rows = ", ".join(f"({i}, '{stored}', '2024-01-01')" for i in range(500))
    ports = opened(engine, "CREATE TABLE t (id INTEGER, special DATE, plain DATE)", f"INSERT INTO t VALUES {rows}")
    query = f"SELECT id, CASE WHEN {chance} < 0.5 THEN special ELSE plain END AS till FROM t"
    found = read(ports, asked(rule(value, None, "till"), query=query))
    assert 0 < sum(bool(row[flag_name(0)]) for row in found) < len(found) == 500
    assert all((row["till"] is None) is row[flag_name(0)] for row in found)


@contextmanager
def history(opened: Opened, engine: str) -> Iterator[SourcePorts]:
    """Seven rows; `till` is special in rows 2, 4 and 6 and NULL in row 7."""
    stored = "0000-00-00" if engine == "mysql" else "infinity"
    shown = ", ".join(f"({i}, {'NULL' if i == 7 else repr('2024-01-01' if i % 2 else stored)})" for i in range(1, 8))
    yield opened(engine, "CREATE TABLE t (id BIGINT NOT NULL, till DATE)", f"INSERT INTO t VALUES {shown}")


@pytest.mark.parametrize("engine", ["postgres", "mysql", "duckdb"])
def test_metrics_measure_the_converted_rows(opened: Opened, engine: str) -> None:
    value = "zero_date" if engine == "mysql" else "infinity"
    with history(opened, engine) as ports:
        assert ports.metrics is not None
        for becomes, nulls, distincts in ((None, 4, 1), ("2024-01-01", 1, 1), ("2024-01-02", 1, 2)):
            request = MetricRequest(
                side=Side.SOURCE,
                extract=asked(rule(value, becomes, "till")),
                null_counts=("till",),
                distinct_counts=("till",),
            )
            found = ports.metrics.collect(request)
            assert (found["row_count"], found["null_counts"]) == (7, {"till": nulls})
            assert found["distinct_counts"] == {"till": distincts}


@pytest.mark.parametrize("engine", ["postgres", "mysql", "duckdb"])
def test_a_window_reads_its_rows_converted(opened: Opened, engine: str) -> None:
    value = "zero_date" if engine == "mysql" else "infinity"
    with history(opened, engine) as ports:
        window = CursorWindow(column="id", lower="3", upper="6")
        found = read(ports, asked(rule(value, None, "till"), window=window))
        assert [(row["id"], row[flag_name(0)]) for row in found] == [(3, False), (4, True), (5, False)]
        assert ports.source.cursor_maximum(asked(rule(value, None, "till")), "id") == "7"


@pytest.mark.parametrize("key", ["id", "till"])
@pytest.mark.parametrize("engine", ["postgres", "mysql", "duckdb"])
def test_ranges_convert_flag_and_cover_every_row_once(opened: Opened, engine: str, key: str) -> None:
    value = "zero_date" if engine == "mysql" else "infinity"
    with history(opened, engine) as ports:
        assert ports.ranges is not None
        request = asked(rule(value, "2024-03-01", "till"))
        schema = ports.source.describe(request)
        column = schema.find(key)
        assert column is not None
        with ports.ranges.snapshot() as snapshot:
            bounds = ports.ranges.key_bounds(request, schema, key, snapshot)
            ranges: tuple[KeyRange, ...] = plan_ranges(column, bounds, 3)
            found = [
                row
                for part in ranges
                for batch in ports.ranges.open_range(request, schema, key, part, snapshot).batches()
                for row in batch.to_pylist()
            ]
        assert bounds.upper == ("7" if key == "id" else "2024-03-01")
        assert sorted(row["id"] for row in found) == [1, 2, 3, 4, 5, 6, 7]
        assert sorted(row["id"] for row in found if row[flag_name(0)]) == [2, 4, 6]
        assert {str(row["till"]) for row in found if row[flag_name(0)]} == {"2024-03-01"}
