"""Hook scripts on SQL Server: late errors, doomed transactions, own connections (MSSQL-08, MSSQL-12, MSSQL-13).

Wire-tested against a TDS double; against a server where DPONE_TEST_MSSQL_URI names one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pysqlbridge.tds.result import QueryError, QueryResult

from dpone_core.errors import ETLExecutionError
from dpone_core.model.sql import SqlText
from dpone_core.ports.statements import StatementPort, StatementScript
from tests.connectors.mssql_servers import MssqlServer, mssql_server
from tests.connectors.sessions import mssql_source
from tests.connectors.tds_double import Fault, TdsDouble, TdsSession, integers
from tests.connectors.unixodbc import require_unixodbc


@pytest.fixture(scope="module")
def server() -> Iterator[MssqlServer]:
    with mssql_server() as server:
        yield server


@pytest.fixture
def run(server: MssqlServer) -> MssqlServer:
    server.run("DROP TABLE IF EXISTS dbo.t", "CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(99))")
    return server


@pytest.fixture
def statements(run: MssqlServer) -> Iterator[StatementPort]:
    with mssql_source(run.uri) as ports:
        assert ports.statements is not None
        yield ports.statements


@pytest.fixture
def double(run: MssqlServer) -> TdsDouble:
    if run.double is None:
        pytest.skip("UNVERIFIED: procedures of this test exist in the double only")
    return run.double


def script(text: str, *, autocommit: bool = True, **tokens: str) -> StatementScript:
    return StatementScript(sql=SqlText(text=text), autocommit=autocommit, token_values=tokens)


def refusal(statements: StatementPort, asked: StatementScript) -> ETLExecutionError:
    with pytest.raises(ETLExecutionError) as raised:
        statements.execute(asked)
    assert "canary" not in str(raised.value)
    return raised.value


def test_every_statement_of_a_batch_runs(statements: StatementPort, run: MssqlServer) -> None:
    statements.execute(script("SELECT 'a;b' AS v; -- c;\n /* ; */ INSERT INTO dbo.t (id) VALUES (1); SELECT 2 AS n"))
    assert run.run("SELECT id FROM dbo.t") == [(1,)]


def test_tokens_are_bound_and_not_pasted(statements: StatementPort, run: MssqlServer) -> None:
    statements.execute(script("INSERT INTO dbo.t VALUES (1, {{ run_id }})", run_id="'; DROP TABLE dbo.t; -- é😀"))
    assert run.run("SELECT v FROM dbo.t") == [("'; DROP TABLE dbo.t; -- é😀",)]


def test_an_error_behind_a_result_set_is_seen(statements: StatementPort, run: MssqlServer) -> None:
    error = refusal(statements, script("SELECT 1 AS a; SELECT * FROM dbo.canary_missing"))
    assert error.code == "statement_failed" and "canary" in str(error.__cause__)


def test_a_procedure_that_fails_after_its_first_set_is_seen(statements: StatementPort, double: TdsDouble) -> None:
    def late(_: TdsDouble, __: TdsSession, ___: Mapping[str, Any]) -> list[QueryResult]:
        broken = QueryResult([], [], error=QueryError("canary duplicate", number=2627))
        return [integers(*range(3_000)), integers(2), broken]

    double.procedures["p_refresh"] = late
    assert refusal(statements, script("EXEC dbo.p_refresh")).code == "statement_failed"


def test_a_procedure_gets_its_arguments(statements: StatementPort, double: TdsDouble) -> None:
    given: list[Mapping[str, Any]] = []

    def refresh(_: TdsDouble, __: TdsSession, arguments: Mapping[str, Any]) -> list[QueryResult]:
        given.append(arguments)
        return [integers(1)]

    double.procedures["p_refresh"] = refresh
    statements.execute(script("EXEC dbo.p_refresh @day = {{ ds }}, @n = 3", ds="2024-01-01"))
    assert given == [{"day": "2024-01-01", "n": "3"}]


def test_a_procedure_that_is_not_there_fails(statements: StatementPort) -> None:
    assert refusal(statements, script("EXEC dbo.canary_missing")).code == "statement_failed"


def test_a_script_without_autocommit_is_one_transaction(statements: StatementPort, run: MssqlServer) -> None:
    broken = "INSERT INTO dbo.t (id) VALUES (1); INSERT INTO dbo.t (id) VALUES (1)"
    refusal(statements, script(broken, autocommit=False))
    assert run.run("SELECT id FROM dbo.t") == []
    refusal(statements, script(broken))
    assert run.run("SELECT id FROM dbo.t") == [(1,)]
    statements.execute(script("INSERT INTO dbo.t (id) VALUES (2); INSERT INTO dbo.t (id) VALUES (3)", autocommit=False))
    assert run.run("SELECT COUNT(*) FROM dbo.t") == [(3,)]


@pytest.mark.parametrize(
    ("text", "autocommit"),
    [
        ("BEGIN TRANSACTION; INSERT INTO dbo.t (id) VALUES (1)", True),
        ("INSERT INTO dbo.t (id) VALUES (1); COMMIT", False),
        ("INSERT INTO dbo.t (id) VALUES (1); ROLLBACK", False),
        ("INSERT INTO dbo.t (id) VALUES (1); BEGIN TRANSACTION", False),
    ],
)
def test_a_script_that_changes_the_transaction_is_an_error(
    statements: StatementPort, run: MssqlServer, text: str, autocommit: bool
) -> None:
    assert refusal(statements, script(text, autocommit=autocommit)).code == "hook_transaction_state_changed"
    kept = [(1,)] if "COMMIT" in text else []
    assert run.run("SELECT id FROM dbo.t") == kept


def test_a_doomed_transaction_is_an_error(statements: StatementPort, double: TdsDouble) -> None:
    """TRY .. CATCH swallowed an error: everything before it is gone, and the batch says success."""

    def swallowing(_: TdsDouble, session: TdsSession, __: Mapping[str, Any]) -> list[QueryResult]:
        session.state = -1
        return [integers(1)]

    double.procedures["p_swallow"] = swallowing
    asked = script("INSERT INTO dbo.t (id) VALUES (1); EXEC dbo.p_swallow", autocommit=False)
    assert refusal(statements, asked).code == "hook_transaction_state_changed"
    assert double.run("SELECT id FROM dbo.t") == []


def test_each_script_has_a_connection_in_its_own_mode(statements: StatementPort, double: TdsDouble) -> None:
    seen: list[tuple[int, int]] = []

    def look(_: TdsDouble, session: TdsSession, __: Mapping[str, Any]) -> list[QueryResult]:
        seen.append((id(session), session.transactions))
        return []

    double.procedures["p_look"] = look
    statements.execute(script("EXEC dbo.p_look"))
    statements.execute(script("EXEC dbo.p_look", autocommit=False))
    assert [open_transactions for _, open_transactions in seen] == [0, 1]


@pytest.mark.parametrize("stage", ["before", "after"])
def test_a_connection_that_drops_is_a_failure(statements: StatementPort, double: TdsDouble, stage: str) -> None:
    double.faults = [Fault(match="INSERT", stage=stage)]
    assert refusal(statements, script("INSERT INTO dbo.t (id) VALUES (1)")).code == "statement_failed"
    assert double.run("SELECT id FROM dbo.t") == ([] if stage == "before" else [(1,)])


@pytest.mark.parametrize(
    ("sql", "columns", "rows"),
    [
        ("SELECT 7 AS v", 1, ((7,),)),
        ("SELECT NULL AS v", 1, ((None,),)),
        ("SELECT N'seven' AS v", 1, (("seven",),)),
        ("SELECT 1 AS a, 2 AS b", 2, ((1, 2),)),
        ("SELECT id FROM dbo.t", 1, ()),
        ("SELECT 5 AS v UNION ALL SELECT 5 UNION ALL SELECT 5", 1, ((5,), (5,))),
        ("INSERT INTO dbo.t (id) VALUES (9); SELECT 7 AS v", 1, ((7,),)),
    ],
)
def test_one_answer_is_given_as_it_is_and_changes_nothing(
    statements: StatementPort, run: MssqlServer, sql: str, columns: int, rows: tuple[tuple[object, ...], ...]
) -> None:
    answer = statements.answer(script(sql))
    assert (answer.columns, answer.rows) == (columns, rows)
    assert run.run("SELECT id FROM dbo.t") == []


def test_a_script_that_is_not_declared_as_changing_is_rolled_back(statements: StatementPort, run: MssqlServer) -> None:
    act = SqlText(text="INSERT INTO dbo.t (id) VALUES (1)")
    for autocommit in (True, False):
        statements.execute(StatementScript(sql=act, autocommit=autocommit, read_only=True))
        assert run.run("SELECT id FROM dbo.t") == []
    with pytest.raises(ETLExecutionError) as raised:
        statements.execute(StatementScript(sql=SqlText(text=f"{act.text}; COMMIT"), read_only=True))
    assert raised.value.code == "hook_transaction_state_changed"


def test_an_answer_binds_tokens(statements: StatementPort) -> None:
    assert statements.answer(script("SELECT {{ ds }} AS v", ds="'; DROP")).rows == (("'; DROP",),)


@pytest.mark.parametrize(
    "sql", ["SELECT 1 AS a; SELECT 2 AS b", "INSERT INTO dbo.t (id) VALUES (1)", "SELECT * FROM dbo.canary_missing"]
)
def test_an_answer_of_no_or_several_sets_is_an_error(statements: StatementPort, run: MssqlServer, sql: str) -> None:
    with pytest.raises(ETLExecutionError) as raised:
        statements.answer(script(sql))
    assert raised.value.code == "statement_failed" and "canary" not in str(raised.value)
    assert run.run("SELECT id FROM dbo.t") == []


def test_an_offset_comes_as_its_instant_with_every_digit(statements: StatementPort) -> None:
    value = "CAST('2026-01-31T10:00:00.123456+05:45' AS datetimeoffset(6))"
    ((found,),) = statements.answer(script(f"SELECT {value} AS v")).rows
    assert found == "2026-01-31T04:15:00.1234560+00:00"


def test_the_drivers_structure_is_decoded_whole() -> None:
    require_unixodbc()
    from dpone_core.connectors.mssql.session import offset_text

    east = bytes.fromhex("ea0701001f000a0000000000bccc5b0705002d00")
    assert offset_text(east) == "2026-01-31T04:15:00.1234567+00:00"
    west = bytes.fromhex("ea0701001f000a000000000000000000fdffe2ff")
    assert offset_text(west) == "2026-01-31T13:30:00.0000000+00:00"
