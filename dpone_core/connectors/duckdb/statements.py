"""Runs hook scripts on DuckDB, each on a cursor of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from dpone_core.connectors._sql.read_only import would_write_error
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import bind_tokens
from dpone_core.ports.statements import StatementAnswer, StatementScript

from .database import BEGIN_READ_ONLY, Database, would_write


class DuckDbStatements:
    """StatementPort. DuckDB's own parser splits the script; with `autocommit` false the whole script is one
    transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def execute(self, script: StatementScript) -> int:
        with self._database.full_memory():
            return self._execute(script)

    def answer(self, script: StatementScript) -> StatementAnswer:
        with self._database.full_memory():
            return self._answer(script)

    def _execute(self, script: StatementScript) -> int:
        bound = bind_tokens(script.sql, script.token_values, lambda ordinal: f"$dpone_p{ordinal}")
        values = {f"dpone_p{ordinal}": value for ordinal, value in enumerate(bound.parameters)}
        cursor = self._database.new_cursor()
        try:
            statements = cursor.extract_statements(bound.text)
            if script.read_only:
                cursor.execute(BEGIN_READ_ONLY)
            elif not script.autocommit:
                cursor.execute("BEGIN TRANSACTION")
            for statement in statements:
                used = {name: values[name] for name in statement.named_parameters if name in values}
                cursor.execute(statement, used or None)
                while cursor.description is not None and cursor.fetchmany(1000):
                    pass
            begun = script.read_only or not script.autocommit
            if ends_a_transaction(cursor, "COMMIT" if begun and not script.read_only else "ROLLBACK") is not begun:
                raise ConnectorError(
                    "the script must leave the transaction state as it was; it left a transaction open or"
                    " ended the one it runs in",
                    code="hook_transaction_state_changed",
                    fix="end every transaction the script begins; without autocommit, neither begin nor end one",
                )
        except duckdb.Error as error:
            if script.read_only and would_write(error):
                raise would_write_error("DuckDB") from error
            raise foreign_error(error, "DuckDB refused a statement of the script", "statement_failed") from error
        finally:
            cursor.close()
        return len(statements)

    def _answer(self, script: StatementScript) -> StatementAnswer:
        bound = bind_tokens(script.sql, script.token_values, lambda ordinal: f"$dpone_p{ordinal}")
        values = {f"dpone_p{ordinal}": value for ordinal, value in enumerate(bound.parameters)}
        cursor = self._database.new_cursor()
        try:
            statements = cursor.extract_statements(bound.text)
            if len(statements) != 1:
                raise ConnectorError(
                    "the query of one answer must be one statement; the script has several", code="statement_failed"
                )
            cursor.execute(BEGIN_READ_ONLY)
            with _limited(cursor, script.answer_seconds):
                cursor.execute(statements[0], values or None)
                rows = tuple(cursor.fetchmany(2))
                while cursor.fetchmany(1000):
                    pass
            return StatementAnswer(columns=len(cursor.description or ()), rows=rows)
        except duckdb.Error as error:
            if would_write(error):
                raise would_write_error("DuckDB") from error
            raise foreign_error(error, "DuckDB refused the statement", "statement_failed") from error
        finally:
            cursor.close()


@contextmanager
def _limited(cursor: duckdb.DuckDBPyConnection, seconds: float | None) -> Iterator[None]:
    """Interrupts what runs on the cursor after so many seconds."""
    timer = None if seconds is None else threading.Timer(seconds, cursor.interrupt)
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def ends_a_transaction(cursor: duckdb.DuckDBPyConnection, statement: str) -> bool:
    """Whether a COMMIT or ROLLBACK found an open transaction to end; DuckDB offers no other way to find out."""
    try:
        cursor.execute(statement)
    except duckdb.TransactionException as error:
        if "no transaction is active" in str(error):
            return False
        raise
    return True
