"""A script's late error is seen, and no transaction is left in another state than it was found (SINK-13, HOOK-17).

On each engine that is here: SQLite, DuckDB, ClickHouse (embedded).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.connection import Connection
from dpone_core.model.connector import ConnectorType
from dpone_core.model.sql import SqlText
from dpone_core.ports.statements import StatementPort, StatementScript
from dpone_core.wiring.connectors import SinkLock, open_sink, open_source

ENGINES = ("sqlite", "duckdb", "clickhouse")
TRANSACTIONAL = ("sqlite", "duckdb")
URIS = {"sqlite": "sqlite", "duckdb": "duckdb", "clickhouse": "chdb"}


@contextmanager
def opened(engine: str, directory: Path) -> Iterator[StatementPort]:
    connection = Connection(ref="x", uri=f"{URIS[engine]}:///{directory / engine}", origin="test")
    if engine == "sqlite":
        sqlite3.connect(directory / engine).close()
        with open_source(ConnectorType.SQLITE, connection) as source:
            assert source.statements is not None
            yield source.statements
    else:
        with open_sink(ConnectorType(engine), connection, SinkLock(timeout_seconds=1, holder="test")) as sink:
            assert sink.statements is not None
            yield sink.statements


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, StatementPort]]:
    """One of each engine for the module: the embedded ClickHouse allows one path at a time."""
    directory = tmp_path_factory.mktemp("statements")
    with ExitStack() as stack:
        yield {engine: stack.enter_context(opened(engine, directory)) for engine in ENGINES}


@pytest.fixture
def port(ports: dict[str, StatementPort], request: pytest.FixtureRequest) -> StatementPort:
    """The engine that the test is parametrized with, with an empty table `t`."""
    one = ports[request.param]
    definition = "a Int32) ENGINE = Memory" if request.param == "clickhouse" else "a INTEGER)"
    one.execute(script(f"DROP TABLE IF EXISTS t; CREATE TABLE t ({definition}"))
    return one


def script(sql: str, *, autocommit: bool = True) -> StatementScript:
    return StatementScript(sql=SqlText(text=sql), autocommit=autocommit)


def rows(port: StatementPort) -> object:
    return port.answer(script("SELECT count(*) FROM t")).rows[0][0]


def failed(port: StatementPort, sql: str, *, autocommit: bool = True) -> str:
    """The code with which the script fails."""
    with pytest.raises(ConnectorError) as raised:
        port.execute(script(sql, autocommit=autocommit))
    assert "CANARY" not in str(raised.value)
    return raised.value.code


@pytest.mark.parametrize("port", ENGINES, indirect=True)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; SELECT * FROM CANARY",
        "SELECT 1; INSERT INTO CANARY VALUES (1); SELECT 2",
        "INSERT INTO t VALUES (1); SELECT CANARY FROM t",
    ],
)
def test_an_error_behind_a_result_set_fails_the_script(port: StatementPort, sql: str) -> None:
    assert failed(port, sql) == "statement_failed"


LATE = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) "
    "SELECT json(CASE WHEN i < 4999 THEN '1' ELSE '{' END) FROM n",
    "duckdb": "SELECT CASE WHEN range < 199990 THEN 'ok' ELSE error('CANARY') END FROM range(200000)",
    "clickhouse": "SELECT throwIf(number > 199990, 'CANARY') FROM numbers(200000)",
}


@pytest.mark.parametrize(("port", "sql"), LATE.items(), indirect=["port"], ids=list(LATE))
def test_an_error_that_shows_while_rows_are_read_fails_the_script(port: StatementPort, sql: str) -> None:
    assert failed(port, sql) == "statement_failed"


@pytest.mark.parametrize("port", ENGINES, indirect=True)
def test_statements_before_the_failing_one_are_committed_with_autocommit(port: StatementPort) -> None:
    assert failed(port, "INSERT INTO t VALUES (1); SELECT * FROM CANARY") == "statement_failed"
    assert rows(port) == 1


@pytest.mark.parametrize("port", TRANSACTIONAL, indirect=True)
def test_without_autocommit_the_script_is_all_or_nothing(port: StatementPort) -> None:
    assert failed(port, "INSERT INTO t VALUES (1); SELECT * FROM CANARY", autocommit=False) == "statement_failed"
    assert rows(port) == 0
    assert port.execute(script("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)", autocommit=False)) == 2
    assert rows(port) == 2


@pytest.mark.parametrize("port", TRANSACTIONAL, indirect=True)
@pytest.mark.parametrize(
    ("sql", "autocommit"),
    [
        ("BEGIN; INSERT INTO t VALUES (1)", True),
        ("INSERT INTO t VALUES (1); COMMIT", False),
        ("INSERT INTO t VALUES (1); ROLLBACK", False),
    ],
)
def test_a_changed_transaction_state_fails_the_script(port: StatementPort, sql: str, autocommit: bool) -> None:
    assert failed(port, sql, autocommit=autocommit) == "hook_transaction_state_changed"


@pytest.mark.parametrize("port", TRANSACTIONAL, indirect=True)
def test_a_transaction_that_the_script_ends_itself_is_fine(port: StatementPort) -> None:
    assert port.execute(script("BEGIN; INSERT INTO t VALUES (1); COMMIT")) == 3
    assert rows(port) == 1


@pytest.mark.parametrize("port", ENGINES, indirect=True)
def test_every_script_has_a_connection_of_its_own(port: StatementPort) -> None:
    port.execute(script("CREATE TEMPORARY TABLE only_here (a INTEGER)"))
    with pytest.raises(ConnectorError):
        port.answer(script("SELECT count(*) FROM only_here"))


@pytest.mark.parametrize("port", ["sqlite"], indirect=True)
def test_a_probe_of_sqlite_cannot_write(port: StatementPort) -> None:
    with pytest.raises(ConnectorError):
        port.answer(script("INSERT INTO t VALUES (1) RETURNING 0"))
    assert rows(port) == 0
