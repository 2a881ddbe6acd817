"""Rules about columns, judged over staged rows by PostgreSQL."""

from __future__ import annotations

from functools import partial

from dpone_core.connectors._sql.column_rules import RuleDialect, SqlStagedRules, stays_ansi
from dpone_core.connectors._sql.text import literal_ansi, quote_ansi
from dpone_core.connectors.postgres.catalog import qualify, relation_schema
from dpone_core.connectors.postgres.database import Database
from dpone_core.connectors.postgres.script import split_statements
from dpone_core.connectors.postgres.statements import PostgresStatements
from dpone_core.connectors.postgres.types import comparison_expression
from dpone_core.model.table_schema import Column, ColumnKind


def staged_rules(database: Database) -> SqlStagedRules:
    return SqlStagedRules(
        RuleDialect(
            schema_of=partial(relation_schema, database),
            qualify=qualify,
            quote=quote_ansi,
            rows=database.rows,
            exact=_exact,
            literal=_literal,
            newest=lambda column: f"floor(extract(epoch FROM max({quote_ansi(column.name)})))",
            statements=PostgresStatements(database),
            only_statement=split_statements,
            stays=stays_ansi,
        )
    )


def _exact(column: Column) -> str:
    """Text by its bytes: a collation may call different texts equal."""
    compared = comparison_expression(column, quote_ansi(column.name))
    return f'({compared})::text COLLATE "C"' if column.type.kind is ColumnKind.STRING else compared


def _literal(column: Column, text: str) -> str:
    literal = literal_ansi(text)
    return literal if column.type.kind is ColumnKind.STRING else f"CAST({literal} AS {column.type.native})"
