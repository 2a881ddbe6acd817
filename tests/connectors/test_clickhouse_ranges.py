"""Key ranges of ClickHouse: together they are all rows, once; UUIDs by their bytes, which is not how ClickHouse sorts.

Embedded, and wire-tested against an HTTP endpoint over chDB; not a server or cluster.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from dpone_core.connectors.clickhouse.open import open_source
from dpone_core.model.load_config import TableName
from dpone_core.model.partition import KeyBounds
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from dpone_core.ports.statements import StatementScript
from dpone_core.testing.range_conformance import bounds_of, require_each_key_once, require_no_bounds, require_refusal
from tests.connectors.sessions import connection
from tests.spec.builders import Project, flow

T = ExtractRequest(table=TableName(schema="src", name="t"))
HUGE = 2**127
KEYS = (
    ("Int8", ("-128", "0", "127"), ("-128", "127")),
    ("UInt64", ("0", "9", "18446744073709551615"), ("0", "18446744073709551615")),
    ("LowCardinality(Int32)", ("-5", "0", "9"), ("-5", "9")),
    ("Int128", (f"'{-HUGE}'", "'0'", f"'{HUGE - 1}'"), (f"{-HUGE}", f"{HUGE - 1}")),
    ("UInt128", ("'0'", "'7'", f"'{2 * HUGE - 1}'"), ("0", f"{2 * HUGE - 1}")),
    ("Decimal(20, 4)", ("'-1.5'", "'0'", "'99.9999'"), ("-1.5000", "99.9999")),
    ("Decimal(76, 0)", (f"'-{10**76 - 1}'", "'0'", f"'{10**76 - 1}'"), (f"-{10**76 - 1}", f"{10**76 - 1}")),
    ("Date", ("'1970-01-01'", "'2024-02-29'", "'2149-06-06'"), ("1970-01-01", "2149-06-06")),
    ("Date32", ("'1900-01-01'", "'2024-02-29'", "'2299-12-31'"), ("1900-01-01", "2299-12-31")),
    (
        "DateTime('Asia/Kathmandu')",
        ("toDateTime('1970-01-01 00:00:00', 'UTC')", "toDateTime('2106-02-07 06:28:15', 'UTC')"),
        ("1970-01-01T00:00:00.000000+00:00", "2106-02-07T06:28:15.000000+00:00"),
    ),
    (
        "DateTime64(6, 'UTC')",
        ("'1900-01-01 00:00:00.000001'", "'1969-12-31 23:59:59.999999'", "'2299-12-31 23:59:59.999999'"),
        ("1900-01-01T00:00:00.000001+00:00", "2299-12-31T23:59:59.999999+00:00"),
    ),
    (
        "DateTime64(9, 'America/New_York')",
        (
            "toDateTime64('1900-01-01 00:00:00.000000001', 9, 'UTC')",
            "toDateTime64('2262-04-11 23:47:16.854775807', 9, 'UTC')",
        ),
        ("1900-01-01T00:00:00.000000001+00:00", "2262-04-11T23:47:16.854775807+00:00"),
    ),
    (
        "DateTime64(1) COMMENT 'dpone: wall clock without time zone'",
        ("'2024-01-01 00:00:00.1'", "'2024-01-01 00:00:00.2'"),
        ("2024-01-01T00:00:00.100000", "2024-01-01T00:00:00.200000"),
    ),
    ("String", ("'B'", "'a'", "'ä'", "'😀'", "'a '", "''", "'a\\0b'", r"'\r\n\t\\'"), ("", "😀")),
    ("LowCardinality(String)", ("'a'", "'a\\0'", "'aa'", "'a~'", "'a\\r'"), ("a", "a~")),
    (
        "UUID",
        (
            "'00000000-0000-0001-0000-000000000000'",
            "'7fffffff-ffff-ffff-ffff-ffffffffffff'",
            "'80000000-0000-0000-0000-000000000000'",
            "'01000000-0000-0000-ffff-000000000000'",
            "'ffffffff-ffff-ffff-0000-fffffffffffe'",
        ),
        ("00000000-0000-0001-0000-000000000000", "ffffffff-ffff-ffff-0000-fffffffffffe"),
    ),
)


@pytest.fixture(scope="module", params=["embedded", "served"])
def ports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourcePorts]:
    directory = tmp_path_factory.mktemp("clickhouse") / "data"
    if request.param == "embedded":
        directory.mkdir()
        with open_source(connection(f"chdb:///{directory}")) as opened:
            run(opened, "CREATE DATABASE src")
            yield opened
        return
    double = Path(__file__).with_name("clickhouse_http_double.py")
    with subprocess.Popen([sys.executable, str(double), str(directory)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with open_source(connection(f"clickhouse://default:s3cret@127.0.0.1:{port}/src")) as opened:
            run(opened, "CREATE DATABASE src")
            yield opened
        process.kill()


def run(ports: SourcePorts, *statements: str) -> None:
    assert ports.statements is not None
    for statement in statements:
        ports.statements.execute(StatementScript(sql=SqlText(text=statement)))


def table(ports: SourcePorts, columns: str, *rows: str) -> ExtractRequest:
    settings = "SETTINGS allow_suspicious_low_cardinality_types = 1"
    run(ports, "DROP TABLE IF EXISTS src.t", f"CREATE TABLE src.t ({columns}) ENGINE = Memory {settings}")
    if rows:
        run(ports, f"INSERT INTO src.t VALUES {', '.join(f'({row})' for row in rows)}")
    return T


def nullable(declared: str) -> str:
    name, comment, text = declared.partition(" COMMENT")
    inner = name.removeprefix("LowCardinality(")
    wrapped = f"Nullable({name})" if inner == name else f"LowCardinality(Nullable({inner})"
    return wrapped + comment + text


SERVED = ("Decimal(20, 4)", "DateTime64(6, 'UTC')", "String", "UUID")
"""Keys whose values travel over HTTP in forms of their own; the others are served in the full matrix only."""


@pytest.mark.parametrize(
    ("ports", "declared", "values", "ends"),
    [
        pytest.param(
            where,
            *key,
            id=f"{where}-{key[0]}",
            marks=pytest.mark.slow if where == "served" and key[0] not in SERVED else (),
        )
        for where in ("embedded", "served")
        for key in KEYS
    ],
    indirect=["ports"],
)
def test_ranges_hold_every_row_once(
    ports: SourcePorts, declared: str, values: tuple[str, ...], ends: tuple[str, str]
) -> None:
    for null, column, counts in (((), declared, (2,)), (("NULL", "NULL"), nullable(declared), (1, 7))):
        table(ports, f"k {column}", *values, *null)
        bounds = bounds_of(ports, T)
        assert ((bounds.lower, bounds.upper), bounds.rows) == (ends, len(values) + len(null))
        for partitions in counts:
            parts = require_each_key_once(ports, T, partitions)
            assert parts[0] == [None] * len(null) and (len(parts) > 2) is (partitions > 1)


def test_uuids_are_ordered_by_their_bytes_and_not_by_their_halves(ports: SourcePorts) -> None:
    low, high = "00000000-0000-0000-ffff-ffffffffffff", "80000000-0000-0000-0000-000000000000"
    table(ports, "k UUID", f"'{high}'", f"'{low}'")
    (least,) = ports.source.open_stream(replace(T, query=_min_uuid(), table=None), _described(ports)).batches()
    assert least.column("k").to_pylist()[0] == UUID(high).bytes, "ClickHouse itself takes the other one for less"
    assert bounds_of(ports, T) == KeyBounds(lower=low, upper=high, rows=2)
    assert [len(part) for part in require_each_key_once(ports, T, 2)] == [0, 1, 1]


def _min_uuid() -> SqlText:
    return SqlText(text="SELECT min(k) AS k FROM src.t")


def _described(ports: SourcePorts) -> TableSchema:
    return ports.source.describe(replace(T, query=_min_uuid(), table=None))


def test_skewed_keys_lie_in_one_range_each(ports: SourcePorts) -> None:
    table(ports, "k Int64")
    run(ports, "INSERT INTO src.t SELECT if(number < 3, number, 1000000000 + number % 3) FROM numbers(5000)")
    assert [len(part) for part in require_each_key_once(ports, T, 7)] == [0, 3, 0, 0, 0, 0, 0, 4997]


def test_random_keys_lie_in_one_range_each(ports: SourcePorts) -> None:
    random = Random(7)
    letters = (0, 13, 32, 39, 65, 92, 97, 0x7F, 0xE4, 0xFFFF, 0x10FFFF)
    texts = ["".join(chr(random.choice(letters)) for _ in range(random.randint(0, 5))) for _ in range(200)]
    rows = (f"unhex('{text.encode().hex()}'), '{UUID(int=random.getrandbits(128))}'" for text in texts)
    table(ports, "k String, u UUID", *rows)
    for partitions in (2, 9):
        require_each_key_once(ports, T, partitions)
        require_each_key_once(ports, T, partitions, "u")


@pytest.mark.parametrize("values", [(), ("NULL", "NULL", "NULL")])
def test_without_keys_there_is_only_the_range_of_null(ports: SourcePorts, values: tuple[str, ...]) -> None:
    require_no_bounds(ports, table(ports, "k Nullable(Int32)", *values), len(values))


def test_window_and_tokens_hold_in_every_range(ports: SourcePorts) -> None:
    table(ports, "k Nullable(Int32), c Nullable(Int32)", "1, 1", "2, 2", "3, 3", "NULL, 2", "9, NULL")
    query = SqlText(text="SELECT k, c FROM src.t WHERE 'x' = {{ run_id }}")
    for request in (T, ExtractRequest(query=query, token_values={"run_id": "x"})):
        windowed = replace(request, window=CursorWindow(column="c", lower="2", upper="4"))
        assert bounds_of(ports, windowed) == KeyBounds(lower="2", upper="3", rows=3)
        assert require_each_key_once(ports, windowed, 2) == [[None], [2], [3]]


@pytest.mark.parametrize(
    ("declared", "literal", "code"),
    [
        ("Float64", "1", "partition_key_unsupported"),
        ("Bool", "true", "partition_key_unsupported"),
        ("FixedString(2)", "'ab'", "partition_key_unsupported"),
        ("Enum8('b' = 1, 'a' = 2)", "'a'", "partition_key_unsupported"),
        ("IPv4", "'127.0.0.1'", "partition_key_unsupported"),
        ("Array(Int8)", "[1]", "partition_key_unsupported"),
        ("String", "unhex('61ff')", "source_value_out_of_range"),
        ("DateTime64(7, 'UTC')", "'2299-12-31 00:00:00'", "source_value_out_of_range"),
    ],
)
def test_a_key_without_order_or_form_is_refused(ports: SourcePorts, declared: str, literal: str, code: str) -> None:
    require_refusal(ports, table(ports, f"k {declared}", literal), code)


FILLED = """
import sys, chdb
with chdb.connect(sys.argv[1]) as connection:
    connection.query("CREATE DATABASE src")
    connection.query("CREATE TABLE src.t (id Nullable(Int64), v String) ENGINE = MergeTree ORDER BY tuple()")
    connection.query("INSERT INTO src.t SELECT if(number = 0, NULL, number), toString(number) FROM numbers(5001)")
"""


@pytest.mark.parametrize("sink_type", ["duckdb", "one directory"])
def test_a_native_transfer_loads_every_range(tmp_path: Path, sink_type: str) -> None:
    directory = tmp_path / "shop"
    directory.mkdir()
    filled = subprocess.run([sys.executable, "-c", FILLED, str(directory)], timeout=120)
    assert filled.returncode == 0
    project = Project(tmp_path, environment={"DPONE_CONN_SHOP": f"chdb:///{directory}"})
    if sink_type == "one directory":
        project.environment["DPONE_CONN_DWH"] = f"chdb:///{directory}"
    project.written(
        flow(
            source__type="clickhouse",
            source__table={"schema": "src", "name": "t"},
            source__options={"partitioning": {"column": "id", "num_partitions": 4, "workers": 2}},
            sink__type="duckdb" if sink_type == "duckdb" else "clickhouse",
            quality={"gates": [{"type": "row_count_reconciliation"}]},
        )
    )
    finished = project.run("--run-id", "r1")
    assert finished.exit_code == 0, finished.stderr
    assert finished.result["final_rows"] == 5_001
