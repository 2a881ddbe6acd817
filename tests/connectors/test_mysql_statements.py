"""Hook scripts on MySQL: every answer drained, late errors seen, the transaction as it was found. Tested on MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from dpone_core.connectors.mysql.open import open_source
from dpone_core.errors import ETLExecutionError
from dpone_core.model.sql import SqlText
from dpone_core.ports.statements import StatementPort, StatementScript
from tests.connectors.mysql_servers import connected, sequence
from tests.connectors.sessions import connection
from tests.live.servers import scratch_mysql

Rows = Callable[[str], list[tuple[object, ...]]]


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with scratch_mysql() as uri:
        yield uri


@pytest.fixture
def rows(uri: str) -> Iterator[Rows]:
    with closing(connected(uri)) as session, session.cursor() as cursor:
        for statement in (
            "DROP TABLE IF EXISTS t",
            "DROP PROCEDURE IF EXISTS p",
            "CREATE TABLE t (id INT PRIMARY KEY)",
        ):
            cursor.execute(statement)

        def run(sql: str) -> list[tuple[object, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall())

        yield run


@pytest.fixture
def statements(uri: str, rows: Rows) -> Iterator[StatementPort]:
    with open_source(connection(uri)) as ports:
        assert ports.statements is not None
        yield ports.statements


def script(text: str, *, autocommit: bool = True, **tokens: str) -> StatementScript:
    return StatementScript(sql=SqlText(text=text), autocommit=autocommit, token_values=tokens)


def refusal(statements: StatementPort, asked: StatementScript) -> ETLExecutionError:
    with pytest.raises(ETLExecutionError) as raised:
        statements.execute(asked)
    assert "canary" not in str(raised.value)
    return raised.value


def test_every_statement_runs_and_is_counted(statements: StatementPort, rows: Rows) -> None:
    assert statements.execute(script("SELECT 'a;b'; -- c;\n /* ; */ INSERT INTO t VALUES (1);\n;")) == 2
    assert rows("SELECT id FROM t") == [(1,)]


def test_tokens_are_bound_and_not_pasted(statements: StatementPort, rows: Rows) -> None:
    rows("DROP TABLE IF EXISTS texts")
    rows("CREATE TABLE texts (v VARCHAR(99))")
    statements.execute(script("INSERT INTO texts VALUES ({{ run_id }})", run_id="'; DROP TABLE t; -- \\"))
    assert rows("SELECT v FROM texts") == [("'; DROP TABLE t; -- \\",)]


def test_bodies_of_procedures_stay_whole_and_their_results_are_drained(statements: StatementPort, rows: Rows) -> None:
    many = f"SELECT seq FROM {sequence(10_000)}"
    body = f"CREATE PROCEDURE p() BEGIN SELECT 1; {many}; INSERT INTO t VALUES (7); END;"
    assert statements.execute(script(body + " CALL p(); INSERT INTO t VALUES (8)")) >= 3
    assert rows("SELECT id FROM t ORDER BY id") == [(7,), (8,)]


def test_an_error_behind_a_result_set_is_seen(statements: StatementPort, rows: Rows) -> None:
    rows("INSERT INTO t VALUES (7)")
    statements.execute(script("CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; INSERT INTO t VALUES (7); END"))
    assert refusal(statements, script("CALL p()")).code == "statement_failed"


def test_an_error_of_a_later_statement_is_seen_and_hides_the_drivers_text(statements: StatementPort) -> None:
    error = refusal(statements, script("SELECT 1; SELECT * FROM canary_table"))
    assert error.code == "statement_failed" and "canary" in str(error.__cause__)


def test_a_script_without_autocommit_is_one_transaction(statements: StatementPort, rows: Rows) -> None:
    broken = "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)"
    refusal(statements, script(broken, autocommit=False))
    assert rows("SELECT id FROM t") == []
    refusal(statements, script(broken))
    assert rows("SELECT id FROM t") == [(1,)]
    statements.execute(script("INSERT INTO t VALUES (2); INSERT INTO t VALUES (3)", autocommit=False))
    assert rows("SELECT count(*) FROM t") == [(3,)]


@pytest.mark.parametrize(
    ("text", "autocommit"),
    [
        ("START TRANSACTION; INSERT INTO t VALUES (1)", True),
        ("SET autocommit = 0; INSERT INTO t VALUES (1)", True),
        ("INSERT INTO t VALUES (1); COMMIT", False),
        ("INSERT INTO t VALUES (1); ROLLBACK", False),
        ("INSERT INTO t VALUES (1); CREATE TABLE IF NOT EXISTS made (id INT)", False),
    ],
)
def test_a_script_that_changes_the_transaction_is_an_error(
    statements: StatementPort, text: str, autocommit: bool
) -> None:
    assert refusal(statements, script(text, autocommit=autocommit)).code == "hook_transaction_state_changed"


def test_what_an_open_transaction_did_is_rolled_back(statements: StatementPort, rows: Rows) -> None:
    refusal(statements, script("START TRANSACTION; INSERT INTO t VALUES (1)"))
    assert rows("SELECT id FROM t") == []


@pytest.mark.parametrize(
    ("sql", "columns", "answered"),
    [
        ("SELECT 7", 1, ((7,),)),
        ("SELECT NULL", 1, ((None,),)),
        ("SELECT 'seven'", 1, (("seven",),)),
        ("SELECT 1, 2", 2, ((1, 2),)),
        ("SELECT 1 FROM t", 1, ()),
        (f"SELECT 5 FROM {sequence(10_000)}", 1, ((5,), (5,))),
    ],
)
def test_one_answer_is_given_as_it_is(
    statements: StatementPort, sql: str, columns: int, answered: tuple[tuple[object, ...], ...]
) -> None:
    answer = statements.answer(script(sql))
    assert (answer.columns, answer.rows) == (columns, answered)


def test_an_answer_binds_tokens(statements: StatementPort) -> None:
    assert statements.answer(script("SELECT {{ ds }}", ds="'; DROP")).rows == (("'; DROP",),)


@pytest.mark.parametrize(
    "sql",
    ["SELECT 1; SELECT 2", "SELECT * FROM canary_table", "INSERT INTO t VALUES (1)", "CREATE TABLE canary (i INT)"],
)
def test_an_answer_takes_one_statement_that_reads(statements: StatementPort, rows: Rows, sql: str) -> None:
    with pytest.raises(ETLExecutionError) as raised:
        statements.answer(script(sql))
    writes = sql.startswith(("INSERT", "CREATE"))
    assert raised.value.code == ("statement_not_read_only" if writes else "statement_failed")
    assert "canary" not in str(raised.value)
    assert rows("SELECT id FROM t") == []
