"""Reads a target from the PostgreSQL catalogue: columns with their declared types, comment, and
what is attached to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from dpone_core.connectors.postgres.attachments import ATTACHED_SQL
from dpone_core.connectors.postgres.catalog import Ask, describe_columns, qualify
from dpone_core.connectors.postgres.database import Database
from dpone_core.model.artifacts import LoadRef, artifact_name
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, TableSchema

from .types import require_name, writable_type

DEFAULT_SCHEMA: Final = "public"

_RELATION_SQL: Final = """
SELECT c.oid::int8, c.relkind::text, c.relpersistence::text,
    coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), ''), pg_catalog.pg_has_role(c.relowner, 'USAGE')
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind NOT IN ('i', 'I', 'S', 'c', 't')
"""
_DECLARED_SQL: Final = """
SELECT attname, atttypid::int8, atttypmod, attnotnull, pg_catalog.format_type(atttypid, atttypmod),
    atthasdef OR attidentity = 'd', attgenerated <> '' OR attidentity = 'a'
FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetColumn:
    """A column of the target. `declared_type` is its type as the catalogue writes it; a domain appears by its name."""

    column: Column
    declared_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTable:
    """`computed` are the columns that only PostgreSQL fills (generated, GENERATED ALWAYS AS IDENTITY); `note` is the
    comment."""

    table: TableName
    oid: int
    kind: str
    is_logged: bool
    note: str
    is_owned: bool
    columns: tuple[TargetColumn, ...]
    computed: tuple[str, ...]
    defaulted: tuple[str, ...]

    @property
    def is_table(self) -> bool:
        return self.kind in ("r", "p")

    @property
    def schema(self) -> TableSchema:
        return TableSchema(columns=tuple(found.column for found in self.columns))

    def declared_type(self, column: Column) -> str:
        return next(found.declared_type for found in self.columns if found.column.name == column.name)


def resolve(table: TableName) -> TableName:
    """The table with its schema; `sink_column_unsupported` for a name that PostgreSQL would shorten."""
    resolved = TableName(schema=table.schema or DEFAULT_SCHEMA, name=table.name)
    require_name(resolved.schema or "")
    require_name(resolved.name)
    return resolved


def artifact_of(ref: LoadRef, role: str) -> TableName:
    target = resolve(ref.target)
    return TableName(schema=ref.staging_schema or target.schema, name=artifact_name(target, ref.identity, role))


def target_table(ask: Ask, table: TableName) -> TargetTable | None:
    """The table of that name; None when no table, view or foreign table has it."""
    found = ask(_RELATION_SQL, (table.schema, table.name))
    if not found:
        return None
    oid, kind, persistence, comment, owned = found[0]
    rows = ask(_DECLARED_SQL, (oid,))
    columns = describe_columns(
        ask, [(str(name), int(type_), int(mod), not null) for name, type_, mod, null, *_ in rows]
    )
    return TargetTable(
        table=table,
        oid=int(oid),
        kind=str(kind),
        is_logged=persistence == "p",
        note=str(comment),
        is_owned=bool(owned),
        columns=tuple(
            TargetColumn(column=replace(column, type=writable_type(column.type)), declared_type=str(declared))
            for column, (*_, declared, _, computed) in zip(columns, rows, strict=True)
            if not computed
        ),
        computed=tuple(str(row[0]) for row in rows if row[-1]),
        defaulted=tuple(str(row[0]) for row in rows if row[-2] and not row[-1]),
    )


def attachments_of(ask: Ask, target: TargetTable) -> tuple[str, ...]:
    """What is attached to the target and a table in its place would not have, in words; () when there is nothing."""
    return tuple(str(row[0]) for row in ask(ATTACHED_SQL, (target.oid,)))


def count_of(ask: Ask, table: TableName) -> int:
    return int(ask(f"SELECT count(*) FROM {qualify(table)}", ())[0][0])


def table_names(database: Database, schema: str) -> tuple[str, ...]:
    rows = database.rows(
        "SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = $1 AND c.relkind = 'r'",
        (schema,),
    )
    return tuple(str(row[0]) for row in rows)
