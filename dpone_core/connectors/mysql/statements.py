"""Runs hook scripts on MySQL. The server splits the script, so that bodies of procedures stay whole."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final

import pymysql
from pymysql.constants import CLIENT, SERVER_STATUS
from pymysql.cursors import SSCursor

from dpone_core.connectors._sql.read_only import would_write_error
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.errors import ConnectorError, ETLExecutionError
from dpone_core.model.sql import bind_tokens
from dpone_core.ports.statements import StatementAnswer, StatementScript

from .address import Address
from .session import READ_ONLY, WRITES, connect, engine_number
from .text import text_literal

_FETCHED_ROWS: Final = 1_000


class MySqlStatements:
    """StatementPort with a connection per script. On MySQL DDL commits by itself: without autocommit such a script ends
    with an error, because its changes cannot be rolled back."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def execute(self, script: StatementScript) -> int:
        """The number of answers: one per statement, a procedure's result sets counted too."""
        text = _bind(script)
        try:
            with closing(connect(self._address, client_flag=CLIENT.MULTI_STATEMENTS, cursor=SSCursor)) as connection:
                if script.read_only:
                    _drain_all(connection, READ_ONLY)
                if not script.autocommit:
                    connection.begin()
                answers = _drain_all(connection, text)
                _require_same_transaction(connection, autocommit=script.autocommit)
                if not script.autocommit:
                    connection.commit()
        except Exception as error:
            raise _refusal(error, "MySQL refused a statement of the script") from error
        return answers

    def answer(self, script: StatementScript) -> StatementAnswer:
        """In a read-only transaction; the server takes one statement only."""
        text = _bind(script)
        try:
            with closing(connect(self._address, cursor=SSCursor)) as connection, connection.cursor() as cursor:
                cursor.execute(READ_ONLY)
                cursor.execute(text)
                columns = len(cursor.description or ())
                rows = tuple(cursor.fetchmany(2)) if columns else ()
                _drain(cursor)
        except Exception as error:
            raise _refusal(error, "MySQL refused the statement") from error
        return StatementAnswer(columns=columns, rows=rows)


def _bind(script: StatementScript) -> str:
    values = iter(bind_tokens(script.sql, script.token_values, lambda _: "").parameters)
    return bind_tokens(script.sql, script.token_values, lambda _: text_literal(next(values))).text


def _drain_all(connection: pymysql.Connection[Any], text: str) -> int:
    answers = 1
    with connection.cursor() as cursor:
        cursor.execute(text)
        while True:
            _drain_one(cursor)
            if not cursor.nextset():
                return answers
            answers += 1


def _drain(cursor: SSCursor) -> None:
    _drain_one(cursor)
    while cursor.nextset():
        _drain_one(cursor)


def _drain_one(cursor: SSCursor) -> None:
    while cursor.description and cursor.fetchmany(_FETCHED_ROWS):
        pass


def _require_same_transaction(connection: pymysql.Connection[Any], *, autocommit: bool) -> None:
    status = connection.server_status
    in_transaction = bool(status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)
    still_automatic = bool(status & SERVER_STATUS.SERVER_STATUS_AUTOCOMMIT)
    if in_transaction is autocommit or not still_automatic:
        raise ConnectorError(
            "the script must leave the transaction state as it was; it left a transaction open or ended the"
            " one it runs in",
            code="hook_transaction_state_changed",
            fix="end every transaction the script begins; without autocommit, use no DDL and neither begin nor end one",
        )


def _refusal(error: Exception, message: str) -> ETLExecutionError:
    if engine_number(error) == WRITES:
        return would_write_error("MySQL")
    return foreign_error(error, message, "statement_failed")
