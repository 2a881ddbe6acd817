"""MySQL end to end: gates, typed hashes and acceptance into DuckDB and embedded ClickHouse. Tested on MariaDB."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.connectors.mysql_servers import connected, sequence
from tests.live.servers import scratch_mysql
from tests.spec.builders import Finished, Project, project_between

GATES = [
    {"type": "row_count_reconciliation"},
    {"type": "typed_hash_reconciliation"},
]
ACCEPTANCE = {
    "enabled": True,
    "mode": "required",
    "checks": {"null_counts": "all_columns", "distinct_counts": ["id", "name", "amount"]},
}
QUALITY = {"gates": GATES, "acceptance": ACCEPTANCE}
SHOP = (
    "DROP TABLE IF EXISTS orders",
    "CREATE TABLE orders (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, name VARCHAR(20), amount DECIMAL(18,4),"
    " day DATE, made DATETIME(6), seen TIMESTAMP NULL, rate FLOAT, kind ENUM('a','b'), note TEXT)",
    "INSERT INTO orders VALUES"
    " (1, 'a', 1.1, '1924-01-01', '2024-01-01 00:00:00.000001', '2024-06-01 12:00:00', 1.234567, 'a', 'é😀'),"
    " (2, 'A', NULL, NULL, NULL, NULL, NULL, NULL, NULL),"
    " (18446744073709551615, '', -0.0001, '2199-12-31', '2199-12-31 23:59:59.999999', FROM_UNIXTIME(1), -0.1, 'b', '')",
)
ENDLESS = f"SELECT a.seq FROM {sequence(1_000_000, 'a')} JOIN {sequence(1_000_000, 'b')} ON a.seq + b.seq = 0"
BUSY = "SELECT id FROM information_schema.processlist WHERE info LIKE '%a.seq + b.seq%' AND id <> CONNECTION_ID()"
Server = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_mysql() as uri:
        yield uri


@pytest.fixture
def server(uri: str) -> Iterator[Server]:
    with closing(connected(uri)) as session, session.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+05:00'")

        def run(*statements: str) -> list[tuple[Any, ...]]:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

        run(*SHOP)
        yield run


def mysql_project(root: Path, uri: str, sink: str, **changes: Any) -> Project:
    table = {"schema": urlsplit(uri).path.strip("/"), "name": "orders"}
    manifest = {"source__type": "mysql", "source__table": table, "quality": QUALITY}
    return project_between(root, uri, sink, **manifest | changes)


def succeeded(finished: Finished, rows: int) -> None:
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert {
        gate["status"] for gate in finished.result["details"]["reconciliation_metrics"]["quality_gates"]["results"]
    } == {"passed"}
    assert finished.result["final_rows"] == rows


@pytest.mark.parametrize("sink", ["duckdb", "clickhouse"])
def test_a_table_is_loaded_and_reconciled(tmp_path: Path, uri: str, server: Server, sink: str) -> None:
    succeeded(mysql_project(tmp_path, uri, sink).run(), 3)


def test_a_query_with_a_token_is_loaded(tmp_path: Path, uri: str, server: Server) -> None:
    sql = "SELECT id, name FROM orders WHERE seen < {{ data_interval_end }}"
    made = mysql_project(
        tmp_path,
        uri,
        "duckdb",
        source__table=None,
        source__options={"query": {"sql": sql}},
        quality={"gates": GATES},
    )
    finished = made.run("--interval-start", "2000-01-01", "--interval-end", "2024-06-01T07:00:01Z")
    succeeded(finished, 2)


def test_an_append_moves_its_cursor(tmp_path: Path, uri: str, server: Server) -> None:
    changes = {
        "source__options": {"incremental": {"cursor_column": "made"}},
        "sink__strategy": {"mode": "incremental_append"},
        "state": {"type": "sink"},
        "quality": {"gates": GATES},
    }
    server("DELETE FROM orders WHERE made IS NULL")
    made = mysql_project(tmp_path, uri, "duckdb", **changes)
    succeeded(made.run(), 1)
    server("UPDATE orders SET made = '2025-01-01' WHERE made > '2100-01-01'")
    server("INSERT INTO orders (id, made) VALUES (7, '9999-12-31 23:59:59.999999'), (8, '9999-12-30')")
    again = made.run()
    assert again.exit_code == 0, again.stdout + again.stderr


def test_a_value_without_exact_form_leaves_the_target_alone_and_the_secret_unsaid(
    tmp_path: Path, uri: str, server: Server
) -> None:
    made = mysql_project(tmp_path, uri, "duckdb")
    succeeded(made.run(), 3)
    server("UPDATE orders SET day = '0000-00-00' WHERE id = 2")
    finished = made.run()
    assert (finished.exit_code, finished.code) == (1, "source_value_out_of_range")
    assert finished.result["failure_context"]["target_state"] == "not_mutated", finished.result
    assert "'day'" in finished.stdout + finished.stderr and "0000-00-00" not in finished.stdout + finished.stderr


def test_a_procedure_refreshes_the_source_before_it_is_read(tmp_path: Path, uri: str, server: Server) -> None:
    server(
        "DROP PROCEDURE IF EXISTS refresh",
        "CREATE PROCEDURE refresh(who VARCHAR(99)) BEGIN SELECT 1; INSERT INTO orders (id, name) VALUES (9, who); END",
    )
    hook = {
        "id": "refresh",
        "kind": "source_refresh",
        "connector": "source",
        "sql": "CALL refresh({{ run_id }})",
        "mutates_source": True,
    }
    made = mysql_project(tmp_path, uri, "duckdb", source__options={"hooks": {"pre_hook": [hook]}})
    succeeded(made.run("--run-id", "r'; DROP"), 4)
    assert server("SELECT name FROM orders WHERE id = 9") == [("r'; DROP",)]


def test_a_hook_that_fails_behind_a_result_set_stops_the_run(tmp_path: Path, uri: str, server: Server) -> None:
    server(
        "DROP PROCEDURE IF EXISTS refresh",
        "CREATE PROCEDURE refresh() BEGIN SELECT 1; INSERT INTO orders (id) VALUES (1); END",
    )
    hook = {
        "id": "refresh",
        "kind": "source_refresh",
        "connector": "source",
        "sql": "CALL refresh()",
        "mutates_source": True,
    }
    finished = mysql_project(tmp_path, uri, "duckdb", source__options={"hooks": {"pre_hook": [hook]}}).run()
    assert (finished.exit_code, finished.code) == (1, "hook_failed")
    assert not finished.result["extracted_rows"]


@pytest.mark.parametrize("sink", ["duckdb", "clickhouse"])
def test_a_termination_while_the_server_thinks_leaves_no_reader(
    tmp_path: Path, uri: str, server: Server, sink: str
) -> None:
    made = mysql_project(
        tmp_path,
        uri,
        sink,
        source__table=None,
        source__options={"query": {"sql": ENDLESS}},
        quality={"gates": GATES},
    )
    running = made.start("run", "m.yaml", "--format", "json")
    deadline = time.monotonic() + 60
    while not server(BUSY) and time.monotonic() < deadline:
        time.sleep(0.1)
    readers = children_of(running.pid)
    running.send_signal(signal.SIGTERM)
    assert made.finished(running).exit_code == 143
    assert readers and not [pid for pid in readers if Path(f"/proc/{pid}").exists()]
    assert server(BUSY) == []


def children_of(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(status.parent.name))
    return found
