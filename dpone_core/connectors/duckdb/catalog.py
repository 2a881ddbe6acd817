"""Reads tables, columns and comments from the DuckDB catalogue. Names are compared without case, as DuckDB does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpone_core.model.artifacts import LoadRef, artifact_name
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, TableSchema

from .database import qualify, resolve
from .types import column_of

Ask = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""Rows of a statement with ?, outside or inside of a transaction."""
_HERE = "database_name = current_database() AND lower(schema_name) = lower(?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTable:
    """A table as the catalogue describes it; `note` is its comment. Columns that DuckDB computes are not marked: DuckDB
    refuses to insert into them."""

    table: TableName
    schema: TableSchema
    note: str
    computed: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()

    def declared_type(self, column: Column) -> str:
        return column.type.native


def comment_of(ask: Ask, table: TableName) -> str | None:
    """The table's comment, '' without one; None when the table does not exist."""
    rows = ask(
        f"SELECT coalesce(comment, '') FROM duckdb_tables() WHERE {_HERE} AND lower(table_name) = lower(?)",
        (table.schema, table.name),
    )
    return str(rows[0][0]) if rows else None


def schema_of(ask: Ask, table: TableName) -> TableSchema | None:
    rows = ask(
        f"SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE {_HERE}"
        " AND lower(table_name) = lower(?) ORDER BY column_index",
        (table.schema, table.name),
    )
    if not rows:
        return None
    return TableSchema(columns=tuple(column_of(str(n), str(t), nullable=bool(null)) for n, t, null in rows))


def target_table(ask: Ask, table: TableName) -> TargetTable | None:
    """None when no table has that name."""
    comment, schema = comment_of(ask, table), schema_of(ask, table)
    if comment is None or schema is None:
        return None
    rows = ask(
        f"SELECT column_name FROM duckdb_columns() WHERE {_HERE} AND lower(table_name) = lower(?)"
        " AND column_default IS NOT NULL",
        (table.schema, table.name),
    )
    return TargetTable(table=table, schema=schema, note=comment, defaulted=tuple(str(row[0]) for row in rows))


def attachments_of(ask: Ask, target: TargetTable) -> tuple[str, ...]:
    """What is attached to the target and a table in its place would not have, in words; () when there is nothing."""
    table = (target.table.schema, target.table.name)
    constraints = ask(
        f"SELECT count(*) FROM duckdb_constraints() WHERE {_HERE} AND lower(table_name) = lower(?)"
        " AND constraint_type <> 'NOT NULL'",
        table,
    )
    indexes = ask(f"SELECT count(*) FROM duckdb_indexes() WHERE {_HERE} AND lower(table_name) = lower(?)", table)
    return ("a key, check or index",) if constraints[0][0] or indexes[0][0] else ()


def is_view(ask: Ask, table: TableName) -> bool:
    rows = ask(
        f"SELECT count(*) FROM duckdb_views() WHERE {_HERE} AND lower(view_name) = lower(?)", (table.schema, table.name)
    )
    return bool(rows[0][0])


def count_of(ask: Ask, table: TableName) -> int:
    return int(ask(f"SELECT count(*) FROM {qualify(table)}", ())[0][0])


def table_names(ask: Ask, schema: str) -> tuple[str, ...]:
    rows = ask(f"SELECT table_name FROM duckdb_tables() WHERE {_HERE}", (schema,))
    return tuple(str(row[0]) for row in rows)


def artifact_of(ref: LoadRef, role: str) -> TableName:
    target = resolve(ref.target)
    return TableName(schema=ref.staging_schema or target.schema, name=artifact_name(target, ref.identity, role))
