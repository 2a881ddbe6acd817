"""Runs hook scripts on SQL Server: one batch per script, every result read to its end, the transaction state unchanged.
Contract: MSSQL-08 (late errors), MSSQL-11 (counts before rows), MSSQL-12 (own connection), MSSQL-13 (transactions that
can only roll back)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import Final

from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import bind_tokens
from dpone_core.ports.statements import StatementAnswer, StatementScript

from .odbc import pyodbc
from .session import connect

_FETCHED_ROWS: Final = 1_000
_STATE: Final = "SELECT @@TRANCOUNT, XACT_STATE()"
_REFUSED: Final = "SQL Server refused a statement of the script"


class MssqlStatements:
    """StatementPort with a connection per script. Without autocommit the script runs between BEGIN and COMMIT, with
    XACT_ABORT ON."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string

    def execute(self, script: StatementScript) -> int:
        """Runs the script; returns the number of results: row sets and row counts. SQL Server has no read-only mode for
        a session: a read-only script is rolled back."""
        bound = bind_tokens(script.sql, script.token_values, lambda _: "?")
        with self._cursor() as cursor:
            begun = script.read_only or not script.autocommit
            if begun:
                cursor.execute("SET XACT_ABORT ON; BEGIN TRANSACTION")
                _drain(cursor)
            cursor.execute(bound.text, *bound.parameters)
            answers = _drain(cursor)
            _require_same_transaction(cursor, open_transactions=1 if begun else 0)
            if begun:
                cursor.execute("ROLLBACK TRANSACTION" if script.read_only else "COMMIT TRANSACTION")
                _drain(cursor)
        return answers

    def answer(self, script: StatementScript) -> StatementAnswer:
        """The rows of the one result with columns; a second one is an error. Changes of the batch are rolled back."""
        bound = bind_tokens(script.sql, script.token_values, lambda _: "?")
        with self._cursor(script.answer_seconds) as cursor:
            cursor.execute("SET XACT_ABORT ON; BEGIN TRANSACTION")
            _drain(cursor)
            cursor.execute(bound.text, *bound.parameters)
            found: list[StatementAnswer] = []
            while True:
                if cursor.description is not None:
                    rows = tuple(tuple(row) for row in cursor.fetchmany(2))
                    found.append(StatementAnswer(columns=len(cursor.description), rows=rows))
                    _rest(cursor)
                if not cursor.nextset():
                    break
            cursor.execute("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION")
            _drain(cursor)
        if len(found) != 1:
            raise ConnectorError(
                "the statement must give exactly one result set; it gave none or several", code="statement_failed"
            )
        return found[0]

    @contextmanager
    def _cursor(self, seconds: float | None = None) -> Iterator[pyodbc.Cursor]:
        """Closing the connection rolls back what is still open. The driver counts the time limit in whole seconds."""
        try:
            connection = connect(self._connection_string)
            try:
                if seconds is not None:
                    connection.timeout = ceil(seconds)
                yield connection.cursor()
            finally:
                connection.close()
        except Exception as error:
            raise foreign_error(error, _REFUSED, "statement_failed") from error


def _drain(cursor: pyodbc.Cursor) -> int:
    answers = 1
    while True:
        _rest(cursor)
        if not cursor.nextset():
            return answers
        answers += 1


def _rest(cursor: pyodbc.Cursor) -> None:
    while cursor.description is not None and cursor.fetchmany(_FETCHED_ROWS):
        pass


def _require_same_transaction(cursor: pyodbc.Cursor, *, open_transactions: int) -> None:
    cursor.execute(_STATE)
    (row,) = cursor.fetchall()
    if tuple(row) != (open_transactions, open_transactions):
        raise ConnectorError(
            "the script must leave the transaction state as it was; it left a transaction open or ended the"
            " one it runs in, or made it one that can only roll back",
            code="hook_transaction_state_changed",
            fix="end every transaction the script begins; without autocommit, neither begin nor end one",
        )
