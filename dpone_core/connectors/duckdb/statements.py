"""Hook scripts on DuckDB, on a cursor of their own."""

from __future__ import annotations

import duckdb

from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.model.sql import bind_tokens
from dpone_core.ports.statements import StatementScript

from .database import Database


class DuckDbStatements:
    """DuckDB's own parser splits the script; without autocommit it is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def execute(self, script: StatementScript) -> int:
        bound = bind_tokens(script.sql, script.token_values, lambda ordinal: f"$dpone_p{ordinal}")
        values = {f"dpone_p{ordinal}": value for ordinal, value in enumerate(bound.parameters)}
        cursor = self._database.new_cursor()
        try:
            statements = cursor.extract_statements(bound.text)
            if not script.autocommit:
                cursor.execute("BEGIN TRANSACTION")
            for statement in statements:
                used = {name: values[name] for name in statement.named_parameters if name in values}
                cursor.execute(statement, used or None)
                while cursor.description is not None and cursor.fetchmany(1000):
                    pass
            if not script.autocommit:
                cursor.execute("COMMIT")
        except duckdb.Error as error:
            raise foreign_error(error, "DuckDB refused a statement of the script", "statement_failed") from error
        finally:
            cursor.close()
        return len(statements)
