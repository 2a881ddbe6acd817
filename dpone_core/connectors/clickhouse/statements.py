"""Hook scripts on ClickHouse: statement by statement, each result read to its end. There are no transactions."""

from __future__ import annotations

from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.connectors._sql.text import split_statements
from dpone_core.model.sql import bind_tokens
from dpone_core.ports.statements import StatementScript

from .session import Session


class ClickHouseStatements:
    """Tokens become typed server-side parameters (`{name:String}`). Scripts run on a client of their own."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def execute(self, script: StatementScript) -> int:
        bound = bind_tokens(script.sql, script.token_values, lambda ordinal: f"{{dpone_p{ordinal}:String}}")
        values = {f"dpone_p{ordinal}": value for ordinal, value in enumerate(bound.parameters)}
        statements = split_statements(bound.text, backslash_escapes=True)
        try:
            with self._session.own_client() as client:
                for statement in statements:
                    used = {name: value for name, value in values.items() if f"{{{name}:String}}" in statement}
                    client.raw_query(statement, parameters=used or None)
        except Exception as error:
            raise foreign_error(error, "ClickHouse refused a statement of the script", "statement_failed") from error
        return len(statements)
