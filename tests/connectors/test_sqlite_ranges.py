"""Bounds of a SQLite key come from its ends, and a value of another storage class is refused: there, or when read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dpone_core.connectors.sqlite.open import open_source
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.partition import KeyBounds, KeyRange
from dpone_core.model.sql import SqlText
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import ExtractRequest
from tests.connectors.sessions import connection

Opened = Callable[..., SourcePorts]
T = ExtractRequest(table=TableName(schema=None, name="t"))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    sessions = []

    def make(*statements: str) -> SourcePorts:
        path = tmp_path / "s.db"
        with closing(sqlite3.connect(path)) as database, database:
            for statement in statements:
                database.execute(statement)
        session = open_source(connection(f"sqlite:///{path}"))
        sessions.append(session)
        return session.__enter__()

    yield make
    for session in sessions:
        session.__exit__(None, None, None)


def bounds(ports: SourcePorts, request: ExtractRequest = T) -> KeyBounds:
    assert ports.ranges is not None
    return ports.ranges.key_bounds(request, ports.source.describe(request), "k", None)


@pytest.mark.parametrize("declared", ["INTEGER PRIMARY KEY", "BIGINT PRIMARY KEY", "INT", "INTEGER UNIQUE"])
def test_integers_are_bounded_whatever_finds_their_ends(opened: Opened, declared: str) -> None:
    ports = opened(f"CREATE TABLE t (k {declared})", "INSERT INTO t VALUES (7), (-3), (9223372036854775807)")
    wanted = KeyBounds(lower="-3", upper="9223372036854775807", rows=3)
    assert bounds(ports) == wanted
    assert bounds(ports, ExtractRequest(query=SqlText(text="SELECT k FROM t"))) == wanted


@pytest.mark.parametrize("declared", ["INTEGER PRIMARY KEY", "INT", "TEXT", "DECIMAL(9,2)", "TIMESTAMP"])
def test_a_table_without_rows_has_no_bounds(opened: Opened, declared: str) -> None:
    assert bounds(opened(f"CREATE TABLE t (k {declared})")) == KeyBounds(lower=None, upper=None, rows=0)


def test_null_keys_are_rows_and_no_bounds(opened: Opened) -> None:
    ports = opened("CREATE TABLE t (k TEXT)", "INSERT INTO t VALUES (NULL), ('b'), ('a')")
    assert bounds(ports) == KeyBounds(lower="a", upper="b", rows=3)


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("BIGINT PRIMARY KEY", "'abc'"),
        ("BIGINT PRIMARY KEY", "x'00'"),
        ("INT", "1.5"),
        ("INT", "'abc'"),
        ("TEXT", "x'00'"),
        ("TIMESTAMP", "20240101"),
        ("DATE", "x'00'"),
        ("DECIMAL(9,2)", "x'00'"),
    ],
)
def test_a_key_of_another_storage_class_at_an_end_has_no_bounds(opened: Opened, declared: str, stored: str) -> None:
    ports = opened(f"CREATE TABLE t (k {declared})", f"INSERT INTO t VALUES ({stored})")
    with pytest.raises(ConnectorError, match="'k'") as raised:
        bounds(ports)
    assert raised.value.code == "source_value_out_of_range"


@pytest.mark.parametrize("declared", ["BIGINT PRIMARY KEY", "INT"])
def test_a_real_among_integers_is_refused_when_its_range_is_read(opened: Opened, declared: str) -> None:
    ports = opened(f"CREATE TABLE t (k {declared})", "INSERT INTO t VALUES (1), (2.5), (4)")
    found = bounds(ports)
    assert ports.ranges is not None and (found.lower, found.upper) == ("1", "4")
    whole = KeyRange(partition_index=1, lower="1", upper="4", include_upper=True)
    with pytest.raises(ConnectorError, match="'k'") as raised:
        list(ports.ranges.open_range(T, ports.source.describe(T), "k", whole, None).batches())
    assert raised.value.code == "source_value_out_of_range"
