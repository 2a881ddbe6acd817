"""SQLite types values, not columns: a value that breaks its column's declaration is refused by name, never coerced."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_core.connectors.sqlite.open import open_source
from dpone_core.connectors.sqlite.source.reading import Relation, reading_of
from dpone_core.connectors.sqlite.source.values import decimals
from dpone_core.connectors.sqlite.statements import split_script
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType
from dpone_core.model.vocabulary import Side
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from dpone_core.ports.statements import StatementScript
from tests.connectors.sessions import connection

Opened = Callable[..., SourcePorts]
T = ExtractRequest(table=TableName(schema=None, name="t"))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    sessions = []

    def make(*statements: str) -> SourcePorts:
        path = tmp_path / "s.db"
        with closing(sqlite3.connect(path)) as database:
            for statement in statements:
                database.execute(statement)
            database.commit()
        session = open_source(connection(f"sqlite:///{path}"))
        sessions.append(session)
        return session.__enter__()

    yield make
    for session in sessions:
        session.__exit__(None, None, None)


def read(ports: SourcePorts, request: ExtractRequest = T) -> list[dict[str, object]]:
    stream = ports.source.open_stream(request, ports.source.describe(request))
    return [row for batch in stream.batches() for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("declared", "stored", "wanted"),
    [
        ("DECIMAL(18,4)", "12.5", Decimal("12.5000")),
        ("NUMERIC(9,2)", "-3", Decimal("-3.00")),
        ("DECIMAL(38,0)", "'123456789012345'", Decimal("123456789012345")),
        ("BOOLEAN", "1", True),
        ("DATE", "'2024-02-29'", date(2024, 2, 29)),
        ("TIMESTAMP", "'2024-01-01 12:00:00.5'", datetime(2024, 1, 1, 12, 0, 0, 500000)),
        ("DATETIME", "'2024-01-01T12:00:00'", datetime(2024, 1, 1, 12)),
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("VARCHAR(3)", "'longer than 3'", "longer than 3"),
        ("TEXT", "''", ""),
        ("BLOB", "x'00ff'", b"\x00\xff"),
        ("DOUBLE", "0.1", 0.1),
        ("", "'free'", "free"),
        ("NUMERIC", "7", 7),
    ],
)
def test_a_declared_type_is_read_exactly(opened: Opened, declared: str, stored: str, wanted: object) -> None:
    ports = opened(f"CREATE TABLE t (v {declared})", f"INSERT INTO t VALUES ({stored}), (NULL)")
    assert read(ports) == [{"v": wanted}, {"v": None}]


@given(st.integers(min_value=-(10**15) + 1, max_value=10**15 - 1), st.integers(min_value=0, max_value=6))
@settings(max_examples=200, deadline=None)
def test_fifteen_digits_survive_the_double_that_sqlite_keeps(digits: int, scale: int) -> None:
    wanted = Decimal(digits).scaleb(-scale)
    column = Column(name="v", type=ColumnType(kind=ColumnKind.DECIMAL, precision=18, scale=scale))
    as_text = reading_of(column, "v", Relation(is_table=False, is_utf8=True))
    with adbc.connect(":memory:") as database, database.cursor() as cursor:
        cursor.execute("CREATE TABLE t (v DECIMAL(18,6))")
        cursor.execute("INSERT INTO t VALUES (?)", [str(wanted)])
        cursor.execute(f"SELECT {as_text.expression}, v FROM t")
        row = cursor.fetchone()
    assert row is not None and Decimal(row[0]) == wanted
    assert decimals(pa.array([float(row[1]), None]), column.type).to_pylist() == [wanted, None]


@given(st.floats(allow_nan=False), st.integers(min_value=0, max_value=15))
@settings(max_examples=500, deadline=None)
def test_a_decimal_is_the_very_double_or_refused(stored: float, scale: int) -> None:
    kind = ColumnType(kind=ColumnKind.DECIMAL, precision=15 + scale, scale=scale)
    try:
        (read_as,) = decimals(pa.array([stored]), kind).to_pylist()
    except (pa.ArrowException, ValueError, ArithmeticError):
        shortest = Decimal(repr(stored))
        assert not shortest.is_finite() or abs(shortest) >= 10**15 or shortest != round(shortest, scale)
    else:
        assert float(read_as) == stored


@pytest.mark.parametrize(
    ("declared", "stored", "wanted"),
    [
        ("DECIMAL(38,0)", "9007199254740993", "9007199254740993"),
        ("DECIMAL(18,4)", "99999999999999", "99999999999999"),
        ("DECIMAL(18,4)", "12345678901234.5", "12345678901234.5"),
        ("DECIMAL(18,4)", "-0.0", "0"),
        ("DECIMAL(30,15)", "-7.25", "-7.25"),
    ],
)
def test_a_decimal_beyond_fifteen_digits_is_read_exactly(
    opened: Opened, declared: str, stored: str, wanted: str
) -> None:
    ports = opened(f"CREATE TABLE t (v {declared})", f"INSERT INTO t VALUES (0.5 + 0.5), ({stored}), (NULL)")
    assert [row["v"] for row in read(ports)] == [1, Decimal(wanted), None]


@pytest.mark.parametrize("stored", ["0.12345", "12345678901.56789", "9007199254740993.25"])
def test_a_double_that_is_no_decimal_of_the_declared_scale_is_refused(opened: Opened, stored: str) -> None:
    ports = opened("CREATE TABLE t (v DECIMAL(18,4))", f"INSERT INTO t VALUES ({stored})")
    with pytest.raises(ConnectorError, match="'v'") as caught:
        read(ports)
    assert caught.value.code == "source_value_out_of_range"


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("INTEGER", "1.5"),
        ("INTEGER", "'abc'"),
        ("TEXT", "x'00'"),
        ("BOOLEAN", "2"),
        ("BOOLEAN", "'yes'"),
        ("DATE", "'2024-02-30'"),
        ("DATE", "19800"),
        ("TIMESTAMP", "1704067200"),
        ("TIMESTAMP", "'2024-01-01 00:00:00.1234567'"),
        ("TIMESTAMP", "'2024-01-01T00:00:00+03:00'"),
        ("DECIMAL(9,2)", "1.239"),
        ("DECIMAL(5,2)", "12345.0"),
        ("DECIMAL(9,2)", "'abc'"),
        ("DECIMAL(9,2)", "x'00'"),
        ("REAL", "'abc'"),
        ("BLOB", "'text'"),
    ],
)
def test_a_value_that_breaks_its_declaration_is_refused_by_column(opened: Opened, declared: str, stored: str) -> None:
    ports = opened(
        f'CREATE TABLE t (id INTEGER PRIMARY KEY, "odd ""v" {declared})', f"INSERT INTO t VALUES (1, {stored})"
    )
    with pytest.raises(ConnectorError) as raised:
        read(ports)
    assert raised.value.code == "source_value_out_of_range"
    assert "'odd \"v'" in str(raised.value) and stored.strip("'") not in str(raised.value)


@pytest.mark.parametrize("at", [1, 2, 70_000])
@pytest.mark.parametrize(
    ("described", "stored"),
    [
        *(("i", stored) for stored in ("'7'", "2.5", "7.0", "x'37'")),
        *(("i + 0.5", stored) for stored in ("'7'", "7", "x'37'")),
        *(("'text ' || i", stored) for stored in ("7", "2.5", "x'37'", "CAST(x'ff' AS TEXT)")),
        *(("CAST(i AS BLOB)", stored) for stored in ("7", "2.5", "'7'")),
    ],
)
def test_a_column_that_holds_something_else_is_refused_wherever_it_stands(
    opened: Opened, tmp_path: Path, at: int, described: str, stored: str
) -> None:
    """An undeclared column keeps every value as it came; it held one class only when it was described."""
    ports = opened(
        "CREATE TABLE t (v)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70000)"
        f" INSERT INTO t SELECT {described} FROM n",
    )
    schema = ports.source.describe(T)
    assert schema.columns[0].type.kind is not ColumnKind.UNSUPPORTED
    with closing(sqlite3.connect(tmp_path / "s.db")) as database, database:
        database.execute(f"UPDATE t SET v = {stored} WHERE rowid = {at}")
    with pytest.raises(ConnectorError, match="column 'v': a value ") as raised:
        list(ports.source.open_stream(T, schema).batches())
    assert raised.value.code == "source_value_out_of_range"


@pytest.mark.parametrize(
    ("kind", "stored", "wanted"),
    [
        (ColumnKind.DECIMAL, "'1234567890123456789.0123456789'", "1234567890123456789.0123456789"),
        (ColumnKind.FLOAT64, "0.5", 0.5),
        (ColumnKind.FLOAT64, "7", None),
        (ColumnKind.DECIMAL, "x'37'", None),
    ],
)
def test_what_is_no_table_converts_no_value(kind: ColumnKind, stored: str, wanted: object) -> None:
    column = Column(name="v", type=ColumnType(kind=kind, precision=38, scale=10, native="declared"))
    expression = reading_of(column, "v", Relation(is_table=False, is_utf8=True)).expression
    with adbc.connect(":memory:") as database, database.cursor() as cursor:
        if wanted is None:
            with pytest.raises(adbc.Error):
                cursor.execute(f"SELECT {expression} FROM (SELECT {stored} AS v)")
        else:
            cursor.execute(f"SELECT {expression} FROM (SELECT {stored} AS v)")
            assert cursor.fetchone() == (wanted,)


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_text_is_the_same_in_every_encoding(opened: Opened, encoding: str) -> None:
    ports = opened(
        f"PRAGMA encoding = '{encoding}'",
        "CREATE TABLE t (v TEXT, ts TIMESTAMP)",
        "INSERT INTO t VALUES ('aж😀', '2024-01-01 12:00:00')",
    )
    assert read(ports) == [{"v": "aж😀", "ts": datetime(2024, 1, 1, 12)}]


def test_null_counts_of_columns_with_and_without_a_constraint(opened: Opened) -> None:
    ports = opened(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, w TEXT NOT NULL)",
        "INSERT INTO t VALUES (1, NULL, 'x'), (2, 'a', 'y')",
    )
    assert ports.metrics is not None
    request = MetricRequest(side=Side.SOURCE, extract=T, null_counts=("id", "v", "w"))
    assert ports.metrics.collect(request)["null_counts"] == {"id": 0, "v": 1, "w": 0}


def test_types_do_not_come_from_the_first_batch(opened: Opened) -> None:
    ports = opened(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, b BLOB, r REAL)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70000)"
        " INSERT INTO t SELECT i, CASE WHEN i = 70000 THEN 'late' END, CASE WHEN i = 70000 THEN x'01' END,"
        " CASE WHEN i = 70000 THEN 0.5 END FROM n",
    )
    assert read(ports)[-1] == {"id": 70000, "v": "late", "b": b"\x01", "r": 0.5}


def test_undeclared_columns_take_the_storage_class_all_values_share(opened: Opened) -> None:
    ports = opened("CREATE TABLE t (a, b, c)", "INSERT INTO t VALUES (1, 'x', 1), (NULL, 'y', 'z')")
    kinds = [column.type.kind for column in ports.source.describe(T).columns]
    assert kinds == [ColumnKind.INT64, ColumnKind.STRING, ColumnKind.UNSUPPORTED]
    with pytest.raises(ConnectorError) as raised:
        read(ports)
    assert raised.value.code == "source_column_unsupported" and "'c'" in str(raised.value)


def test_only_a_rowid_alias_or_not_null_has_no_nulls(opened: Opened) -> None:
    ports = opened("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL, b TEXT)")
    assert [column.nullable for column in ports.source.describe(T).columns] == [False, False, True]


def test_a_query_keeps_declared_types_and_binds_its_tokens(opened: Opened) -> None:
    ports = opened("CREATE TABLE t (id INTEGER PRIMARY KEY, d DECIMAL(9,2))", "INSERT INTO t VALUES (1, 1.5), (2, 2.5)")
    query = SqlText(text="SELECT d, CAST(id AS TEXT) AS k FROM t WHERE id = CAST({{ partition_key }} AS INTEGER)")
    request = ExtractRequest(query=query, token_values={"partition_key": "2"})
    assert read(ports, request) == [{"d": Decimal("2.50"), "k": "2"}]


@pytest.mark.parametrize("text", ["SELECT 1; SELECT 2", "", "-- nothing"])
def test_a_query_is_one_statement(opened: Opened, text: str) -> None:
    ports = opened("CREATE TABLE t (id INTEGER)")
    with pytest.raises(ConnectorError) as raised:
        ports.source.describe(ExtractRequest(query=SqlText(text=text)))
    assert raised.value.code == "source_request_invalid"


def test_timestamps_compare_as_instants_whatever_their_separator(opened: Opened) -> None:
    ports = opened(
        "CREATE TABLE t (ts TIMESTAMP)",
        "INSERT INTO t VALUES ('2024-01-01 00:00:00'), ('2024-01-01T00:00:00.5'), ('2024-01-02')",
        "INSERT INTO t VALUES ('2024-01-01 23:59:59.9')",
    )
    assert ports.source.cursor_maximum(T, "ts") == "2024-01-02T00:00:00.000000"
    window = CursorWindow(column="ts", lower="2024-01-01T00:00:00.500000", upper="2024-01-02T00:00:00")
    found = read(ports, ExtractRequest(table=T.table, window=window))
    assert [row["ts"] for row in found] == [
        datetime(2024, 1, 1, 0, 0, 0, 500000),
        datetime(2024, 1, 1, 23, 59, 59, 900000),
    ]


def test_a_cursor_is_a_column_and_no_expression(opened: Opened) -> None:
    ports = opened("CREATE TABLE t (a INTEGER, b INTEGER)")
    with pytest.raises(ConnectorError) as raised:
        ports.source.cursor_maximum(T, "COALESCE(a, b)")
    assert "alias" in str(raised.value.fix)


def test_framework_names_are_refused(opened: Opened) -> None:
    ports = opened("CREATE TABLE t (__dpone__load_id TEXT)")
    with pytest.raises(ConnectorError) as raised:
        read(ports)
    assert raised.value.code == "framework_column_in_source"


def test_an_absent_file_is_unreachable_and_nothing_is_created(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError) as raised, open_source(connection(f"sqlite:///{tmp_path / 'no.db'}")):
        pass
    assert raised.value.code == "source_unreachable"
    assert list(tmp_path.iterdir()) == []


def test_reading_cannot_write(opened: Opened) -> None:
    ports = opened("CREATE TABLE t (id INTEGER)")
    with pytest.raises(ConnectorError):
        ports.source.describe(ExtractRequest(query=SqlText(text="INSERT INTO t VALUES (1) RETURNING id")))
    assert read(ports) == []


def test_a_script_runs_in_its_transaction_mode(opened: Opened) -> None:
    ports = opened("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    assert ports.statements is not None
    broken = SqlText(text="INSERT INTO t VALUES (1); INSERT INTO t VALUES (1);")
    with pytest.raises(ConnectorError) as raised:
        ports.statements.execute(StatementScript(sql=broken, autocommit=False))
    assert raised.value.code == "statement_failed"
    assert read(ports) == []
    with pytest.raises(ConnectorError):
        ports.statements.execute(StatementScript(sql=broken))
    assert read(ports) == [{"id": 1}]


def test_a_late_error_of_a_result_set_is_surfaced(opened: Opened) -> None:
    ports = opened("CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1), (2), (-9223372036854775808)")
    assert ports.statements is not None
    with pytest.raises(ConnectorError):
        ports.statements.execute(StatementScript(sql=SqlText(text="SELECT abs(id) FROM t")))


def test_triggers_stay_whole_and_tokens_are_bound(opened: Opened) -> None:
    ports = opened("CREATE TABLE t (id INTEGER)", "CREATE TABLE log (v TEXT)")
    assert ports.statements is not None
    script = "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log VALUES ('a;b'); END; INSERT INTO t VALUES (1);"
    script += " INSERT INTO log VALUES ({{ run_id }}); -- done"
    executed = ports.statements.execute(StatementScript(sql=SqlText(text=script), token_values={"run_id": "x'); DROP"}))
    assert executed == 3
    assert read(ports, ExtractRequest(table=TableName(schema=None, name="log"))) == [{"v": "a;b"}, {"v": "x'); DROP"}]


def test_comments_are_no_statements() -> None:
    assert split_script("-- a;\n/* b; */ SELECT ';';;\n") == ("-- a;\n/* b; */ SELECT ';';",)


def test_batches_have_one_type_per_column(opened: Opened) -> None:
    ports = opened(
        "CREATE TABLE t (d DECIMAL(18,4), ts TIMESTAMP, ok BOOLEAN)", "INSERT INTO t VALUES (1, '2024-01-01', 0)"
    )
    (batch,) = ports.source.open_stream(T, ports.source.describe(T)).batches()
    assert batch.schema.types == [pa.decimal128(18, 4), pa.timestamp("us"), pa.bool_()]
