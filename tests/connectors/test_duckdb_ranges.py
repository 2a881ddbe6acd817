"""Key ranges of DuckDB: together they are all rows, once, by code point and not by collation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import UUID

import duckdb
import pytest

from dpone_core.connectors.duckdb.open import open_source
from dpone_core.model.load_config import TableName
from dpone_core.model.partition import KeyBounds
from dpone_core.model.sql import SqlText
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from dpone_core.testing.range_conformance import bounds_of, require_each_key_once, require_no_bounds, require_refusal
from tests.connectors.sessions import connection
from tests.spec.builders import Project, flow, outcome_of

T = ExtractRequest(table=TableName(schema=None, name="t"))
Opened = Callable[..., SourcePorts]
HUGE = 2**127 - 1
KEYS = (
    ("TINYINT", ("-128", "0", "127"), ("-128", "127")),
    ("UBIGINT", ("0", "9", "18446744073709551615"), ("0", "18446744073709551615")),
    ("BIGINT", ("-9223372036854775808", "9", "9223372036854775807"), ("-9223372036854775808", "9223372036854775807")),
    ("HUGEINT", (f"-{10**37}", "0", f"{10**37}"), (f"-{10**37}", f"{10**37}")),
    ("DECIMAL(20,4)", ("-1.5", "0", "99.9999"), ("-1.5000", "99.9999")),
    ("DECIMAL(38,0)", (f"-{10**38 - 1}", "0", f"{10**38 - 1}"), (f"-{10**38 - 1}", f"{10**38 - 1}")),
    ("DATE", ("'0001-01-01'", "'2024-02-29'", "'9999-12-31'"), ("0001-01-01", "9999-12-31")),
    (
        "TIMESTAMP",
        ("'0001-01-01 00:00:00.000001'", "'2024-06-01'", "'9999-12-31 23:59:59.999999'"),
        ("0001-01-01T00:00:00.000001", "9999-12-31T23:59:59.999999"),
    ),
    (
        "TIMESTAMP_S",
        ("'1969-12-31 23:59:59'", "'1970-01-01'"),
        ("1969-12-31T23:59:59.000000", "1970-01-01T00:00:00.000000"),
    ),
    (
        "TIMESTAMP_MS",
        ("'2024-01-01 00:00:00.1'", "'2024-01-02'"),
        ("2024-01-01T00:00:00.100000", "2024-01-02T00:00:00.000000"),
    ),
    (
        "TIMESTAMP_NS",
        ("'1677-09-22 00:12:43.145224193'", "'2024-01-01 00:00:00.000000001'", "'2262-04-11 23:47:16.854775806'"),
        ("1677-09-22T00:12:43.145224193", "2262-04-11T23:47:16.854775806"),
    ),
    (
        "TIMESTAMPTZ",
        ("'2024-01-01 00:00:00.5+05:45'", "'2024-06-01'", "'2024-12-31 00:00+00'"),
        ("2023-12-31T18:15:00.500000+00:00", "2024-12-31T00:00:00.000000+00:00"),
    ),
    ("VARCHAR COLLATE NOCASE", ("'B'", "'a'", "'ä'", "'😀'", "'a '", "''", "chr(0)", "'b'"), ("", "😀")),
    ("VARCHAR", ("'a'", "'a' || chr(0)", "'aa'", "'a~'", "'a' || chr(127)"), ("a", "a\x7f")),
    (
        "UUID",
        (
            "'00000000-0000-0000-0000-000000000001'",
            "'7fffffff-ffff-ffff-ffff-ffffffffffff'",
            "'80000000-0000-0000-0000-000000000000'",
            "'ffffffff-ffff-ffff-ffff-fffffffffffe'",
        ),
        ("00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-fffffffffffe"),
    ),
)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Runs the statements and opens the file as a source."""
    entered = []

    def of(*statements: str) -> SourcePorts:
        path = tmp_path / "s.duckdb"
        with closing(duckdb.connect(str(path))) as database:
            for statement in ("SET TimeZone = 'UTC'", *statements):
                database.execute(statement)
        opening = open_source(connection(f"duckdb:///{path}"))
        entered.append(opening)
        return opening.__enter__()

    yield of
    for opening in entered:
        opening.__exit__(None, None, None)


def table(declared: str, *values: str) -> tuple[str, ...]:
    rows = ", ".join(f"({value})" for value in values)
    return (f"CREATE TABLE t (k {declared})", *([f"INSERT INTO t VALUES {rows}"] if rows else []))


@pytest.mark.parametrize(("declared", "values", "ends"), KEYS, ids=[declared for declared, _, _ in KEYS])
@pytest.mark.parametrize("partitions", [1, 3, 50])
def test_ranges_hold_every_row_once(
    opened: Opened, declared: str, values: tuple[str, ...], ends: tuple[str, str], partitions: int
) -> None:
    ports = opened(*table(declared, *values, "NULL", "NULL"))
    bounds = bounds_of(ports, T)
    assert ((bounds.lower, bounds.upper), bounds.rows) == (ends, len(values) + 2)
    parts = require_each_key_once(ports, T, partitions)
    assert parts[0] == [None, None] and (len(parts) > 2) is (partitions > 1)


def test_a_collation_of_the_session_changes_nothing(opened: Opened) -> None:
    ports = opened(*table("VARCHAR COLLATE NOCASE", "'B'", "'a'", "'C'", "'c'"))
    assert (bounds_of(ports, T).lower, bounds_of(ports, T).upper) == ("B", "c")
    assert require_each_key_once(ports, T, 40)[1] == ["B"]


def test_skewed_keys_lie_in_one_range_each(opened: Opened) -> None:
    ports = opened(
        "CREATE TABLE t AS SELECT CASE WHEN i < 3 THEN i ELSE 1000000000 + i % 3 END AS k FROM range(5000) r(i)"
    )
    assert [len(part) for part in require_each_key_once(ports, T, 7)] == [0, 3, 0, 0, 0, 0, 0, 4997]


def test_random_keys_lie_in_one_range_each(opened: Opened) -> None:
    random = Random(7)
    texts = [
        "".join(chr(random.choice((0, 32, 65, 97, 0x7F, 0xE4, 0xFFFF, 0x10FFFF))) for _ in range(random.randint(0, 5)))
        for _ in range(200)
    ]
    uuids = [str(UUID(int=random.getrandbits(128))) for _ in range(200)]
    ports = opened(
        "CREATE TABLE t (k VARCHAR, u UUID)",
        "INSERT INTO t VALUES "
        + ", ".join(
            f"(decode(from_hex('{text.encode().hex()}')), '{uuid}')" for text, uuid in zip(texts, uuids, strict=True)
        ),
    )
    for partitions in (2, 5, 64):
        require_each_key_once(ports, T, partitions)
        require_each_key_once(ports, T, partitions, "u")


@pytest.mark.parametrize("values", [(), ("NULL", "NULL", "NULL")])
def test_without_keys_there_is_only_the_range_of_null(opened: Opened, values: tuple[str, ...]) -> None:
    require_no_bounds(opened(*table("INTEGER", *values)), T, len(values))


def test_window_and_tokens_hold_in_every_range(opened: Opened) -> None:
    ports = opened("CREATE TABLE t (k INT, c INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (NULL, 2), (9, NULL)")
    query = SqlText(text="SELECT k, c FROM t WHERE 'x' = {{ run_id }}")
    for request in (T, ExtractRequest(query=query, token_values={"run_id": "x"})):
        windowed = replace(request, window=CursorWindow(column="c", lower="2", upper="4"))
        assert bounds_of(ports, windowed) == KeyBounds(lower="2", upper="3", rows=3)
        assert require_each_key_once(ports, windowed, 2) == [[None], [2], [3]]


@pytest.mark.parametrize(
    ("declared", "literal", "code"),
    [
        ("DOUBLE", "1", "partition_key_unsupported"),
        ("BOOLEAN", "true", "partition_key_unsupported"),
        ("BLOB", "'x'", "partition_key_unsupported"),
        ("ENUM('b', 'a')", "'a'", "partition_key_unsupported"),
        ("TIME", "'12:00'", "partition_key_unsupported"),
        ("DATE", "'infinity'", "source_value_out_of_range"),
        ("DATE", "'10000-01-01'", "source_value_out_of_range"),
        ("TIMESTAMP", "'-infinity'", "source_value_out_of_range"),
        ("TIMESTAMP", "'290309-12-22 (BC) 00:00:00'", "source_value_out_of_range"),
        ("TIMESTAMPTZ", "'infinity'", "source_value_out_of_range"),
    ],
)
def test_a_key_without_order_or_form_is_refused(opened: Opened, declared: str, literal: str, code: str) -> None:
    require_refusal(opened(*table(declared, literal)), T, code)


@pytest.mark.parametrize("sink_type", ["duckdb", "clickhouse", "one file"])
def test_a_native_transfer_loads_every_range(tmp_path: Path, sink_type: str) -> None:
    path = tmp_path / "shop.duckdb"
    with closing(duckdb.connect(str(path))) as database:
        database.execute("CREATE TABLE t (id BIGINT, v VARCHAR)")
        database.execute("INSERT INTO t SELECT i, 'v' || i FROM range(5000) r(i)")
        database.execute("INSERT INTO t VALUES (NULL, 'none')")
    project = Project(tmp_path, environment={"DPONE_CONN_SHOP": f"duckdb:///{path}"})
    if sink_type == "one file":
        project.environment["DPONE_CONN_DWH"] = f"duckdb:///{path}"
    if sink_type == "clickhouse":
        project.environment["DPONE_CONN_DWH"] = f"chdb:///{tmp_path}/house"
    project.written(
        flow(
            source__type="duckdb",
            source__table={"name": "t"},
            source__options={"partitioning": {"column": "id", "num_partitions": 4, "workers": 2}},
            sink__type="duckdb" if sink_type == "one file" else sink_type,
            quality={"gates": [{"type": "row_count_reconciliation"}]},
        )
    )
    if sink_type == "clickhouse":
        assert project.run("--run-id", "r1").result["final_rows"] == 5_001
        return
    execution = project.execute("r1")
    assert execution.error is None
    assert outcome_of(execution).result.final_rows == 5_001
