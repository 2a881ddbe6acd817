"""Runs hook scripts on ClickHouse, statement by statement, each result read to its end. ClickHouse
has no transactions."""

from __future__ import annotations

import json
import re
from typing import Final

from dpone_core.connectors._sql.read_only import would_write_error
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.connectors._sql.text import split_statements
from dpone_core.errors import ConnectorError
from dpone_core.model.sql import bind_tokens
from dpone_core.ports.statements import StatementAnswer, StatementScript

from .session import WRITES, Session, engine_code

_INTEGER: Final = re.compile(r"(?:LowCardinality\()?(?:Nullable\()?U?Int[0-9]+\)*")


class ClickHouseStatements:
    """StatementPort. Tokens become typed server-side parameters (`{name:String}`). Each script has
    a client of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def execute(self, script: StatementScript) -> int:
        bound = bind_tokens(script.sql, script.token_values, lambda ordinal: f"{{dpone_p{ordinal}:String}}")
        values = {f"dpone_p{ordinal}": value for ordinal, value in enumerate(bound.parameters)}
        statements = split_statements(bound.text, backslash_escapes=True)
        try:
            with self._session.own_client(reading=bound.text if script.read_only else None) as client:
                for statement in statements:
                    used = {name: value for name, value in values.items() if f"{{{name}:String}}" in statement}
                    client.raw_query(statement, parameters=used or None)
        except Exception as error:
            if script.read_only and engine_code(error) == WRITES:
                raise would_write_error("ClickHouse") from error
            raise foreign_error(error, "ClickHouse refused a statement of the script", "statement_failed") from error
        return len(statements)

    def answer(self, script: StatementScript) -> StatementAnswer:
        """Runs one query; the server sends at most two rows."""
        bound = bind_tokens(script.sql, script.token_values, lambda ordinal: f"{{dpone_p{ordinal}:String}}")
        values = {f"dpone_p{ordinal}": value for ordinal, value in enumerate(bound.parameters)}
        statements = split_statements(bound.text, backslash_escapes=True)
        if len(statements) != 1:
            raise ConnectorError(
                "the query of one answer must be one statement; the script has several", code="statement_failed"
            )
        try:
            with self._session.own_client(
                reading=bound.text, most_rows=2, most_seconds=script.answer_seconds
            ) as client:
                body = client.raw_query(statements[0], parameters=values or None, fmt="JSONCompact")
                document = json.loads(body)
                types = [str(column["type"]) for column in document["meta"]]
                rows = tuple(
                    tuple(_convert_value(value, kind) for value, kind in zip(row, types, strict=True))
                    for row in document["data"]
                )
        except Exception as error:
            if engine_code(error) == WRITES:
                raise would_write_error("ClickHouse") from error
            raise foreign_error(error, "ClickHouse refused the statement", "statement_failed") from error
        return StatementAnswer(columns=len(types), rows=rows)


def _convert_value(value: object, kind: str) -> object:
    """The value in the column's type: JSON writes 0.0 as 0 and wide integers as text."""
    if _INTEGER.fullmatch(kind) is not None:
        return int(value) if isinstance(value, str) else value
    return float(value) if type(value) is int else value
