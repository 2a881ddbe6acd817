"""Key ranges of MySQL: together they are all rows, once, by code point and not by collation. Tested on MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dpone_core.connectors.mysql.open import open_source
from dpone_core.ports.session import SourcePorts
from dpone_core.testing.range_conformance import require_no_bounds
from tests.connectors.mysql_servers import connected, needs_mariadb, sequence
from tests.connectors.sessions import connection
from tests.connectors.source_ranges import (
    WINDOWED_ROWS,
    T,
    inserted,
    require_every_row_once,
    require_the_key_refused,
    require_the_window_in_every_range,
)
from tests.live.servers import scratch_mysql
from tests.marks import first_quick
from tests.spec.builders import Project, flow

KEYS = (
    ("BIGINT UNSIGNED", ("0", "9", "18446744073709551615"), ("0", "18446744073709551615")),
    ("DECIMAL(20,4)", ("-1.5", "0", "99.9999"), ("-1.5000", "99.9999")),
    ("DATE", ("'1924-01-01'", "'2024-02-29'", "'9999-12-31'"), ("1924-01-01", "9999-12-31")),
    (
        "DATETIME(6)",
        ("'2024-01-01 00:00:00.000001'", "'2024-06-01'", "'2024-12-31 23:59:59.999999'"),
        ("2024-01-01T00:00:00.000001", "2024-12-31T23:59:59.999999"),
    ),
    (
        "TIMESTAMP NULL",
        ("'2024-01-01'", "'2024-06-01'", "'2024-12-31'"),
        ("2024-01-01T00:00:00.000000+00:00", "2024-12-31T00:00:00.000000+00:00"),
    ),
    ("VARCHAR(9)", ("'B'", "'a'", "'ä'", "'😀'", "'a '"), ("B", "😀")),
)


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_mysql() as uri:
        yield uri


@pytest.fixture
def server(uri: str) -> Iterator[Callable[..., None]]:
    with closing(connected(uri)) as session, session.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute("DROP TABLE IF EXISTS t")

        def run(*statements: str) -> None:
            for statement in statements:
                cursor.execute(statement)

        yield run


@pytest.fixture
def ports(uri: str) -> Iterator[SourcePorts]:
    with open_source(connection(uri)) as ports:
        yield ports


@pytest.mark.parametrize(("declared", "values", "ends"), first_quick(KEYS, ids=[declared for declared, _, _ in KEYS]))
def test_ranges_hold_every_row_once(
    server: Callable[..., None],
    ports: SourcePorts,
    declared: str,
    values: tuple[str, ...],
    ends: tuple[str, str],
) -> None:
    server(f"CREATE TABLE t (`odd ``k` {declared})", f"INSERT INTO t VALUES {inserted(values)}")
    require_every_row_once(ports, "odd `k", values, ends, has_snapshot=False)


def test_the_window_of_the_request_holds_in_every_range(server: Callable[..., None], ports: SourcePorts) -> None:
    server("CREATE TABLE t (k INT, c INT)", f"INSERT INTO t VALUES {WINDOWED_ROWS}")
    require_the_window_in_every_range(ports, T)


def test_an_empty_table_has_no_bounds(server: Callable[..., None], ports: SourcePorts) -> None:
    server("CREATE TABLE t (k INT)")
    require_no_bounds(ports, T, 0)


@pytest.mark.parametrize(
    ("declared", "literal", "code"),
    [
        ("DOUBLE", "1", "partition_key_unsupported"),
        ("UUID", "UUID()", "partition_key_unsupported"),
        ("BLOB", "'x'", "partition_key_unsupported"),
        ("DATE", "'0000-00-00'", "source_value_out_of_range"),
    ],
)
def test_a_key_without_order_or_form_is_refused(
    uri: str, server: Callable[..., None], ports: SourcePorts, declared: str, literal: str, code: str
) -> None:
    if declared == "UUID":
        needs_mariadb(uri, declared)
    server(f"CREATE TABLE t (k {declared})", f"INSERT INTO t VALUES ({literal})")
    require_the_key_refused(ports, code)


def test_a_native_transfer_loads_every_range(tmp_path: Path, uri: str, server: Callable[..., None]) -> None:
    server(
        "CREATE TABLE t (id BIGINT, v VARCHAR(20))",
        f"INSERT INTO t SELECT seq, CONCAT('v', seq) FROM {sequence(1_000)}",
    )
    server("INSERT INTO t VALUES (NULL, 'none')")
    environment = {"DPONE_CONN_SHOP": uri, "DPONE_CONN_DWH": f"duckdb:///{tmp_path / 'dwh.duckdb'}"}
    project = Project(tmp_path, environment=environment)
    options = {"partitioning": {"column": "id", "num_partitions": 4, "workers": 2}}
    gates = [{"type": "row_count_reconciliation"}]
    table = {"schema": urlsplit(uri).path.strip("/"), "name": "t"}
    changes = {"source__type": "mysql", "source__table": table, "source__options": options, "quality": {"gates": gates}}
    project.written(flow(**changes, sink__type="duckdb"))
    finished = project.run()
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert finished.result["final_rows"] == 1_001
