"""Rules about columns, judged over staged rows by SQL Server."""

from __future__ import annotations

from functools import partial

from dpone_core.connectors._sql.column_rules import RuleDialect, SqlStagedRules, stays_ansi
from dpone_core.connectors._sql.text import split_statements
from dpone_core.connectors.mssql.catalog import table_columns
from dpone_core.connectors.mssql.statements import MssqlStatements
from dpone_core.connectors.mssql.text import quote_name
from dpone_core.connectors.mssql.types import comparison_expression
from dpone_core.model.load_config import PartitionBy, TableName
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.sink import StageRequest

from .catalog import national_literal, qualify
from .database import Database
from .keys import same_key
from .publish import partition_expression


def staged_rules(database: Database) -> SqlStagedRules:
    def schema_of(table: TableName) -> TableSchema | None:
        columns = table_columns(database.rows, table)
        return TableSchema(columns=columns) if columns else None

    return SqlStagedRules(
        RuleDialect(
            schema_of=schema_of,
            qualify=qualify,
            quote=quote_name,
            rows=database.rows,
            exact=comparison_expression,
            literal=_literal,
            newest=lambda column: f"DATEDIFF_BIG(second, '1970-01-01', MAX({quote_name(column.name)}))",
            statements=MssqlStatements(database.connection_string),
            only_statement=partial(split_statements, backslash_escapes=False),
            stays=_stays,
            count="COUNT_BIG(*)",
            count_of="COUNT_BIG(CASE WHEN {} THEN 1 END)".format,
        )
    )


def _stays(request: StageRequest, staged: str) -> str:
    def partition(by: PartitionBy, table: str) -> str:
        column = request.schema.find(by.column)
        return quote_name(by.column) if column is None else partition_expression(by, column, table)

    same = "({0} = {1} OR ({0} IS NULL AND {1} IS NULL))".format
    return stays_ansi(request, staged, same_key=same_key, partition=partition, same=same)


def _literal(column: Column, text: str) -> str:
    """Text by its bytes, as `comparison_expression` compares it."""
    literal = national_literal(text)
    if column.type.kind is ColumnKind.STRING:
        return f"CAST(CAST({literal} AS nvarchar(max)) AS varbinary(max))"
    return f"CAST({literal} AS {column.type.native})"
