"""Reads tables, columns and partitions from the ClickHouse catalogue."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_core.model.artifacts import LoadRef, artifact_name
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema

from .ddl import qualify
from .session import Session
from .types import column_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """An existing table as the catalogue describes it; keys are texts as ClickHouse normalises them."""

    engine: str
    sorting_key: str
    partition_key: str
    comment: str
    definition: str


def facts_of(session: Session, table: TableName) -> TableFacts | None:
    """None when the table does not exist."""
    rows = session.rows(
        "SELECT engine, sorting_key, partition_key, comment, create_table_query FROM system.tables"
        " WHERE database = {database:String} AND name = {name:String}",
        {"database": table.schema or "", "name": table.name},
    )
    if not rows:
        return None
    engine, sorting_key, partition_key, comment, definition = map(str, rows[0])
    return TableFacts(
        engine=engine, sorting_key=sorting_key, partition_key=partition_key, comment=comment, definition=definition
    )


def schema_of(session: Session, table: TableName) -> TableSchema | None:
    """Stored columns in physical order; None when the table does not exist."""
    rows = session.rows(
        "SELECT name, type, comment FROM system.columns WHERE database = {database:String} AND table = {name:String}"
        " AND default_kind NOT IN ('ALIAS', 'MATERIALIZED', 'EPHEMERAL') ORDER BY position",
        {"database": table.schema or "", "name": table.name},
    )
    return TableSchema(columns=tuple(column_of(*map(str, row)) for row in rows)) if rows else None


def defaulted_columns_of(session: Session, table: TableName) -> tuple[str, ...]:
    """Columns with a DEFAULT expression."""
    rows = session.rows(
        "SELECT name FROM system.columns WHERE database = {database:String} AND table = {name:String}"
        " AND default_kind = 'DEFAULT' ORDER BY position",
        {"database": table.schema or "", "name": table.name},
    )
    return tuple(str(row[0]) for row in rows)


def count_of(session: Session, table: TableName) -> int:
    return int(session.rows(f"SELECT count() FROM {qualify(table)}")[0][0])


def partitions_of(session: Session, table: TableName) -> tuple[str, ...]:
    """Ids of partitions that hold rows."""
    rows = session.rows(
        "SELECT DISTINCT partition_id FROM system.parts WHERE database = {database:String} AND table = {name:String}"
        " AND active AND rows > 0 ORDER BY partition_id",
        {"database": table.schema or "", "name": table.name},
    )
    return tuple(str(row[0]) for row in rows)


def table_names(session: Session, schema: str) -> tuple[str, ...]:
    rows = session.rows("SELECT name FROM system.tables WHERE database = {database:String}", {"database": schema})
    return tuple(str(row[0]) for row in rows)


def artifact_of(session: Session, ref: LoadRef, role: str) -> TableName:
    target = session.resolve(ref.target)
    return TableName(schema=ref.staging_schema or target.schema, name=artifact_name(target, ref.identity, role))
