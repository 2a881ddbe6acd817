"""How DuckDB stages key ranges."""

from __future__ import annotations

from dpone_core.connectors._sql.range_staging import RangeDialect, SqlRangeStaging, WholeStaging
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.duckdb.catalog import TargetTable
from dpone_core.connectors.duckdb.database import Database
from dpone_core.connectors.duckdb.types import column_definition

from .publish import publication_dialect


def range_staging(database: Database) -> SqlRangeStaging[TargetTable]:
    def ensure_schema(schema: str) -> None:
        with database.transaction(code="staging_refused", message="DuckDB refused to create a schema") as cursor:
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_ansi(schema)}")

    return SqlRangeStaging(
        RangeDialect(publication=publication_dialect(database), ensure_schema=ensure_schema, definition=_definition)
    )


def _definition(table: str, staging: WholeStaging[TargetTable]) -> str:
    return f"TABLE {table} ({', '.join(map(column_definition, staging.part_table.schema.columns))})"
