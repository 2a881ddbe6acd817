"""What the DuckDB catalogue says about tables. Names are compared as DuckDB does, without case."""

from __future__ import annotations

from dpone_core.model.artifacts import LoadRef, artifact_name
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema

from .database import Database, qualified, resolve
from .types import column_of

_HERE = "database_name = current_database() AND lower(schema_name) = lower(?)"


def comment_of(database: Database, table: TableName) -> str | None:
    """The table's comment, '' without one; None when the table does not exist."""
    rows = database.rows(
        f"SELECT coalesce(comment, '') FROM duckdb_tables() WHERE {_HERE} AND lower(table_name) = lower(?)",
        (table.schema, table.name),
    )
    return str(rows[0][0]) if rows else None


def schema_of(database: Database, table: TableName) -> TableSchema | None:
    rows = database.rows(
        f"SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE {_HERE}"
        " AND lower(table_name) = lower(?) ORDER BY column_index",
        (table.schema, table.name),
    )
    if not rows:
        return None
    return TableSchema(columns=tuple(column_of(str(n), str(t), nullable=bool(null)) for n, t, null in rows))


def is_constrained(database: Database, table: TableName) -> bool:
    """Whether a key, check or index hangs on the table that a swapped-in table would not have."""
    constraints = database.rows(
        f"SELECT count(*) FROM duckdb_constraints() WHERE {_HERE} AND lower(table_name) = lower(?)"
        " AND constraint_type <> 'NOT NULL'",
        (table.schema, table.name),
    )
    indexes = database.rows(
        f"SELECT count(*) FROM duckdb_indexes() WHERE {_HERE} AND lower(table_name) = lower(?)",
        (table.schema, table.name),
    )
    return bool(constraints[0][0] or indexes[0][0])


def is_view(database: Database, table: TableName) -> bool:
    rows = database.rows(
        f"SELECT count(*) FROM duckdb_views() WHERE {_HERE} AND lower(view_name) = lower(?)", (table.schema, table.name)
    )
    return bool(rows[0][0])


def count_of(database: Database, table: TableName) -> int:
    return int(database.rows(f"SELECT count(*) FROM {qualified(table)}")[0][0])


def table_names(database: Database, schema: str) -> tuple[str, ...]:
    rows = database.rows(f"SELECT table_name FROM duckdb_tables() WHERE {_HERE}", (schema,))
    return tuple(str(row[0]) for row in rows)


def artifact_of(ref: LoadRef, role: str) -> TableName:
    target = resolve(ref.target)
    return TableName(schema=ref.staging_schema or target.schema, name=artifact_name(target, ref.identity, role))
