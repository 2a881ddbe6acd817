"""Runs hook scripts on PostgreSQL, each on a connection of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.types.string import TextLoader

from dpone_core.connectors._sql.read_only import would_write_error
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import BoundSql, SqlText, bind_tokens
from dpone_core.ports.statements import StatementAnswer, StatementScript

from .catalog import describe_statement
from .database import Database, abandon
from .errors import ENGINE, WRITES, sqlstate_of
from .script import split_statements

_READ_AS_TEXT: Final = ("date", "time", "timetz", "timestamp", "timestamptz", "interval")
"""Python has no value for some of theirs: a script may answer with 'infinity' or an interval."""
_FAILED: Final = "statement_failed"
_READ_ONLY: Final = b"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"
_MARK: Final = b"SELECT set_config('dpone.script', 'on', true)"
_MARK_IS_SET: Final = b"SELECT current_setting('dpone.script', true) = 'on'"


class PostgresStatements:
    """StatementPort. Each statement is a transaction of its own; with `autocommit` false the whole script is one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def execute(self, script: StatementScript) -> int:
        statements = split_statements(script.sql.text)
        with self._connect() as connection:
            try:
                if script.read_only:
                    connection.execute(_READ_ONLY)
                self._run(connection, script, statements)
            except psycopg.Error as error:
                if script.read_only and sqlstate_of(error) == WRITES:
                    raise would_write_error(ENGINE) from error
                raise self._database.error(error, "PostgreSQL refused a statement of the script", _FAILED) from error
        return len(statements)

    def answer(self, script: StatementScript) -> StatementAnswer:
        """Runs one statement in a read-only transaction."""
        with self._connect() as connection:
            try:
                connection.execute("BEGIN READ ONLY")
                if script.answer_seconds is not None:
                    milliseconds = max(int(script.answer_seconds * 1000), 1)
                    connection.execute(f"SET LOCAL statement_timeout = {milliseconds}".encode())
                bound = _bind(script, script.sql.text)
                columns = describe_statement(connection, bound.text).nfields
                rows = _first_rows(_stream_rows(psycopg.RawCursor(connection), bound))
                return StatementAnswer(columns=columns, rows=tuple(rows))
            except psycopg.Error as error:
                if sqlstate_of(error) == WRITES:
                    raise would_write_error(ENGINE) from error
                raise self._database.error(error, "PostgreSQL refused the statement", _FAILED) from error

    @contextmanager
    def _connect(self) -> Iterator[psycopg.Connection]:
        connection = self._database.new_connection()
        for type_name in _READ_AS_TEXT:
            connection.adapters.register_loader(type_name, TextLoader)
        try:
            yield connection
        finally:
            abandon(connection)

    @staticmethod
    def _run(connection: psycopg.Connection, script: StatementScript, statements: tuple[str, ...]) -> None:
        """Runs the statements. Without autocommit, a setting that lives as long as the transaction shows whether the
        script ended it."""
        cursor = psycopg.RawCursor(connection)
        if not script.autocommit:
            cursor.execute(b"BEGIN")
            cursor.execute(_MARK)
        for statement in statements:
            for _ in _stream_rows(cursor, _bind(script, statement)):
                pass
        unchanged = connection.info.transaction_status is TransactionStatus.IDLE
        if not script.autocommit:
            row = cursor.execute(_MARK_IS_SET).fetchone()
            unchanged = row is not None and row[0] is True
        if not unchanged:
            raise ConnectorError(
                "the script must leave the transaction state as it was; it left a transaction open or ended"
                " the one it runs in",
                code="hook_transaction_state_changed",
                fix="end every transaction the script begins; without autocommit, neither begin nor end one",
            )
        if not script.autocommit:
            cursor.execute(b"COMMIT")


def _bind(script: StatementScript, statement: str) -> BoundSql:
    return bind_tokens(SqlText(text=statement), script.token_values, lambda ordinal: f"${ordinal + 1}")


def _stream_rows(cursor: psycopg.RawCursor[Any], bound: BoundSql) -> Iterator[tuple[Any, ...]]:
    """Yields the rows one at a time as the server sends them, to the end; a statement without rows yields none."""
    try:
        yield from cursor.stream(bound.text.encode(), bound.parameters or None)
    except psycopg.ProgrammingError as error:
        if error.sqlstate is not None:  # the driver's own complaint that a finished statement had no rows has none
            raise


def _first_rows(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for ordinal, row in enumerate(rows):
        if ordinal < 2:
            yield row
