"""Reads a target from the PostgreSQL catalogue: columns with their declared types, comment, and
what is attached to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

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
_ATTACHED_SQL: Final = """
WITH target AS (SELECT * FROM pg_catalog.pg_class WHERE oid = $1), attached(what) AS (
    SELECT CASE d.classid
        WHEN 'pg_catalog.pg_class'::regclass THEN
            CASE WHEN other.relkind IN ('i', 'I') THEN 'an index' WHEN other.relkind = 'S' THEN 'a sequence'
                ELSE 'another table' END
        WHEN 'pg_catalog.pg_constraint'::regclass THEN
            CASE WHEN k.conrelid <> $1 THEN 'a foreign key of another table' ELSE 'a constraint' END
        WHEN 'pg_catalog.pg_trigger'::regclass THEN 'a trigger'
        WHEN 'pg_catalog.pg_rewrite'::regclass THEN 'a view or rule'
        WHEN 'pg_catalog.pg_policy'::regclass THEN 'a policy'
        WHEN 'pg_catalog.pg_publication_rel'::regclass THEN 'a publication'
        WHEN 'pg_catalog.pg_attrdef'::regclass THEN 'a column default'
        WHEN 'pg_catalog.pg_statistic_ext'::regclass THEN 'extended statistics'
        ELSE 'a dependent object' END
    FROM pg_catalog.pg_depend AS d
        LEFT JOIN pg_catalog.pg_constraint AS k
            ON d.classid = 'pg_catalog.pg_constraint'::regclass AND k.oid = d.objid
        LEFT JOIN pg_catalog.pg_class AS other ON d.classid = 'pg_catalog.pg_class'::regclass AND other.oid = d.objid
    WHERE d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = $1 AND d.deptype <> 'i'
        AND k.contype IS DISTINCT FROM 'n'
    UNION SELECT 'a use of its row type' FROM pg_catalog.pg_depend AS d, target
        WHERE d.refclassid = 'pg_catalog.pg_type'::regclass AND d.refobjid = target.reltype AND d.deptype <> 'i'
    UNION SELECT 'partitions or inheritance' FROM target WHERE relkind = 'p' OR relispartition
    UNION SELECT 'partitions or inheritance' FROM pg_catalog.pg_inherits WHERE $1 IN (inhrelid, inhparent)
    UNION SELECT 'grants' FROM target WHERE relacl IS NOT NULL
    UNION SELECT 'storage options' FROM target WHERE reloptions IS NOT NULL OR reltablespace <> 0
    UNION SELECT 'row level security' FROM target WHERE relrowsecurity OR relforcerowsecurity
    UNION SELECT 'a replica identity' FROM target WHERE relreplident <> 'd'
    UNION SELECT 'no logging' FROM target WHERE relpersistence <> 'p'
    UNION SELECT 'another owner' FROM target WHERE pg_catalog.pg_get_userbyid(relowner) <> current_user
    UNION SELECT 'column comments' FROM pg_catalog.pg_description
        WHERE classoid = 'pg_catalog.pg_class'::regclass AND objoid = $1 AND objsubid > 0
    UNION SELECT 'security labels' FROM pg_catalog.pg_seclabel
        WHERE classoid = 'pg_catalog.pg_class'::regclass AND objoid = $1
    UNION SELECT CASE WHEN attidentity <> '' THEN 'an identity column' WHEN attacl IS NOT NULL THEN 'grants'
            ELSE 'column settings' END
        FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
        WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
            AND (attidentity <> '' OR attacl IS NOT NULL OR attcollation <> typcollation
                OR EXISTS (SELECT FROM pg_catalog.unnest(attoptions) AS o WHERE o LIKE 'n_distinct%'))
)
SELECT DISTINCT what FROM attached ORDER BY what
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
    return tuple(str(row[0]) for row in ask(_ATTACHED_SQL, (target.oid,)))


def count_of(ask: Ask, table: TableName) -> int:
    return int(ask(f"SELECT count(*) FROM {qualify(table)}", ())[0][0])


def table_names(database: Database, schema: str) -> tuple[str, ...]:
    rows = database.rows(
        "SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = $1 AND c.relkind = 'r'",
        (schema,),
    )
    return tuple(str(row[0]) for row in rows)
