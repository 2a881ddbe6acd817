"""Runs hook scripts on SQLite, each on a writing connection of its own."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final
from urllib.parse import quote

from dpone_core.connectors._sql.read_only import would_write_error
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import bind_tokens
from dpone_core.ports.statements import StatementAnswer, StatementScript

_STEPS_BETWEEN_CALLS: Final = 200_000
_QUERY_ONLY: Final = "PRAGMA query_only = ON"


class SqliteStatements:
    """Each statement is its own transaction, or the whole script is one (`autocommit` false)."""

    def __init__(self, path: Path) -> None:
        self._uri = f"file:{quote(str(path))}?mode=rw"

    def execute(self, script: StatementScript) -> int:
        bound = bind_tokens(script.sql, script.token_values, lambda ordinal: f":dpone_p{ordinal}")
        values = {f"dpone_p{ordinal}": value for ordinal, value in enumerate(bound.parameters)}
        statements = split_script(bound.text)
        try:
            connection = _connect_interruptible(self._uri)
            try:
                if script.read_only:
                    connection.execute(_QUERY_ONLY)
                self._run(connection, statements, values, script)
            finally:
                connection.close()
        except sqlite3.Error as error:
            if script.read_only and _would_write(error):
                raise would_write_error("SQLite") from error
            raise foreign_error(error, "SQLite refused a statement of the script", "statement_failed") from error
        return len(statements)

    def answer(self, script: StatementScript) -> StatementAnswer:
        """Runs one statement on a read-only connection."""
        bound = bind_tokens(script.sql, script.token_values, lambda ordinal: f":dpone_p{ordinal}")
        values = {f"dpone_p{ordinal}": value for ordinal, value in enumerate(bound.parameters)}
        try:
            connection = _connect_interruptible(self._uri)
            try:
                connection.execute(_QUERY_ONLY)
                cursor = connection.execute(bound.text, values)
                rows = tuple(cursor.fetchmany(2))
                while cursor.fetchmany(1000):
                    pass
                return StatementAnswer(columns=len(cursor.description or ()), rows=rows)
            finally:
                connection.close()
        except (sqlite3.Error, sqlite3.Warning) as error:
            if _would_write(error):
                raise would_write_error("SQLite") from error
            raise foreign_error(error, "SQLite refused the statement", "statement_failed") from error

    @staticmethod
    def _run(
        connection: sqlite3.Connection, statements: tuple[str, ...], values: dict[str, str], script: StatementScript
    ) -> None:
        autocommit = script.autocommit
        if not autocommit:
            connection.execute("BEGIN" if script.read_only else "BEGIN IMMEDIATE")
        for statement in statements:
            cursor = connection.execute(statement, values)
            while cursor.fetchmany(1000):
                pass
            cursor.close()
        if connection.in_transaction is autocommit:
            raise ConnectorError(
                "the script must leave the transaction state as it was; it left a transaction open or ended"
                " the one it runs in",
                code="hook_transaction_state_changed",
                fix="end every transaction the script begins; without autocommit, neither begin nor end one",
            )
        if not autocommit:
            connection.execute("COMMIT")


def _connect_interruptible(uri: str) -> sqlite3.Connection:
    """A connection whose statements stop soon after a signal: the engine calls back regularly, and Python handles
    signals then."""
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    connection.set_progress_handler(_continue, _STEPS_BETWEEN_CALLS)
    return connection


def _would_write(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY


def _continue() -> int:
    return 0


def split_script(script: str) -> tuple[str, ...]:
    """The statements of a script, complete by SQLite's own rule (triggers keep inner semicolons); parts with comments
    only are dropped."""
    statements: list[str] = []
    pending = ""
    for piece in script.split(";"):
        pending += piece + ";"
        if sqlite3.complete_statement(pending):
            statements.append(pending.strip())
            pending = ""
    if pending:
        statements.append(pending.strip().rstrip(";"))
    return tuple(statement for statement in statements if not _is_blank(statement))


def _is_blank(statement: str) -> bool:
    return _only_comments(statement.strip(" \t\r\n;"))


def _only_comments(text: str) -> bool:
    while text:
        if text.startswith("--"):
            text = text.partition("\n")[2].lstrip(" \t\r\n;")
        elif text.startswith("/*"):
            text = text.partition("*/")[2].lstrip(" \t\r\n;")
        else:
            return False
    return True
