"""Rules about columns, judged over staged rows by DuckDB."""

from __future__ import annotations

from functools import partial

from dpone_core.connectors._sql.column_rules import RuleDialect, SqlStagedRules, stays_ansi
from dpone_core.connectors._sql.text import literal_ansi, quote_ansi, split_statements
from dpone_core.connectors.duckdb.catalog import schema_of
from dpone_core.connectors.duckdb.database import Database, qualify
from dpone_core.connectors.duckdb.statements import DuckDbStatements
from dpone_core.model.table_schema import Column


def staged_rules(database: Database) -> SqlStagedRules:
    """Judges in one transaction. DuckDB holds the keys of one pass in memory."""
    return SqlStagedRules(
        RuleDialect(
            schema_of=partial(schema_of, database.rows),
            qualify=qualify,
            quote=quote_ansi,
            rows=database.rows,
            exact=lambda column: quote_ansi(column.name),
            literal=_literal,
            newest=lambda column: f"epoch_us(CAST(max({quote_ansi(column.name)}) AS TIMESTAMP)) // 1000000",
            statements=DuckDbStatements(database),
            only_statement=partial(split_statements, backslash_escapes=False),
            bucket="hash({}) % {}".format,
            stays=stays_ansi,
            full_memory=database.full_memory,
            snapshot=partial(
                database.transaction, code="rule_not_judged", message="DuckDB did not judge the staged rows"
            ),
        )
    )


def _literal(column: Column, text: str) -> str:
    return f"CAST({literal_ansi(text)} AS {column.type.native})"
