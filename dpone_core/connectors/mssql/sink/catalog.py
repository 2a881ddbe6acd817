"""Reads a target from the SQL Server catalogue: columns, load marker, and what is attached to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dpone_core.connectors.mssql.catalog import table_columns
from dpone_core.connectors.mssql.source.selection import DEFAULT_SCHEMA
from dpone_core.connectors.mssql.text import quote_name
from dpone_core.model.artifacts import LoadRef, artifact_name
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, TableSchema

from .database import Ask, Database
from .types import require_name, writable_column

MARKER: Final = "dpone_load"
"""The extended property of a target that names its last publication."""
UPDATED: Final = "dpone_updated"
"""The extended property of staging that says how many rows a merge found in the target."""
_TABLE: Final = "U"
_RELATION: Final = (
    "SELECT o.object_id, o.type, CAST(p.value AS nvarchar(200)) AS marker"
    " FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id"
    " LEFT JOIN sys.extended_properties AS p"
    " ON p.class = 1 AND p.major_id = o.object_id AND p.minor_id = 0 AND p.name = ?"
    " WHERE s.name = ? AND o.name = ?"
)
_COMPUTED: Final = (
    "SELECT name FROM sys.columns WHERE object_id = ? AND"
    " (is_identity = 1 OR is_computed = 1 OR generated_always_type <> 0 OR TYPE_NAME(system_type_id) = 'timestamp')"
)
_NAMES: Final = (
    "SELECT o.name FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id"
    " WHERE s.name = ? AND o.type = 'U'"
)
_ATTACHED: Final = " UNION ".join(
    f"SELECT '{what}' AS what FROM sys.{view} WHERE {condition}"
    for what, view, condition in (
        ("a trigger", "objects", "parent_object_id = {oid} AND type IN ('TR', 'TA')"),
        ("a constraint", "objects", "parent_object_id = {oid} AND type NOT IN ('TR', 'TA')"),
        ("an index", "indexes", "object_id = {oid} AND index_id > 0"),
        ("a foreign key of another table", "foreign_keys", "referenced_object_id = {oid}"),
        (
            "a schema-bound view or function",
            "sql_expression_dependencies",
            "referenced_id = {oid} AND is_schema_bound_reference = 1",
        ),
        ("grants", "database_permissions", "class = 1 AND major_id = {oid}"),
        (
            "extended properties",
            "extended_properties",
            f"class = 1 AND major_id = {{oid}} AND NOT (minor_id = 0 AND name = '{MARKER}')",
        ),
        ("statistics", "stats", "object_id = {oid} AND user_created = 1"),
        ("change tracking", "change_tracking_tables", "object_id = {oid}"),
        ("a security policy", "security_predicates", "target_object_id = {oid}"),
        (
            "partitions or compression",
            "partitions",
            "object_id = {oid} AND (partition_number > 1 OR data_compression > 0)",
        ),
        (
            "versions, replication or memory storage",
            "tables",
            "object_id = {oid} AND (temporal_type <> 0 OR is_memory_optimized = 1 OR is_replicated = 1"
            " OR is_tracked_by_cdc = 1)",
        ),
        ("another owner", "objects", "object_id = {oid} AND principal_id IS NOT NULL"),
        (
            "column settings",
            "columns",
            "object_id = {oid} AND (is_identity = 1 OR is_computed = 1 OR is_sparse = 1 OR is_masked = 1"
            " OR collation_name <> CAST(DATABASEPROPERTYEX(DB_NAME(), 'Collation') AS nvarchar(128)))",
        ),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTable:
    """A table; `computed` are columns that only SQL Server fills, `note` is the text of an extended property."""

    table: TableName
    object_id: int
    is_table: bool
    note: str
    columns: tuple[Column, ...]
    computed: tuple[str, ...]
    defaulted: tuple[str, ...] = ()

    @property
    def schema(self) -> TableSchema:
        return TableSchema(columns=self.columns)

    def declared_type(self, column: Column) -> str:
        return column.type.native


def qualify(table: TableName) -> str:
    return f"{quote_name(table.schema or DEFAULT_SCHEMA)}.{quote_name(table.name)}"


def resolve(table: TableName) -> TableName:
    """The table with its schema; `sink_column_unsupported` for a name that SQL Server does not take."""
    resolved = TableName(schema=table.schema or DEFAULT_SCHEMA, name=table.name)
    require_name(resolved.schema or "")
    require_name(resolved.name)
    return resolved


def artifact_of(ref: LoadRef, role: str) -> TableName:
    target = resolve(ref.target)
    return TableName(schema=ref.staging_schema or target.schema, name=artifact_name(target, ref.identity, role))


def target_table(ask: Ask, table: TableName, note: str = MARKER) -> TargetTable | None:
    """None when nothing has that name. `note` names the extended property that is read."""
    found = ask(_RELATION, (note, table.schema, table.name))
    if not found:
        return None
    object_id, kind, marker = found[0]
    computed = tuple(str(row[0]) for row in ask(_COMPUTED, (object_id,)))
    return TargetTable(
        table=table,
        object_id=int(object_id),
        is_table=str(kind).strip() == _TABLE,
        note="" if marker is None else str(marker),
        columns=tuple(writable_column(column) for column in table_columns(ask, table) if column.name not in computed),
        computed=computed,
    )


def attachments_of(ask: Ask, target: TargetTable) -> tuple[str, ...]:
    """What is attached to the target and a table in its place would not have, in words; () when there is nothing."""
    return tuple(sorted(str(row[0]) for row in ask(_ATTACHED.replace("{oid}", str(target.object_id)), ())))


def count_of(ask: Ask, table: TableName) -> int:
    return int(ask(f"SELECT COUNT_BIG(*) AS held FROM {qualify(table)}", ())[0][0])


def table_names(database: Database, schema: str) -> tuple[str, ...]:
    return tuple(str(row[0]) for row in database.rows(_NAMES, (schema,)))


def property_statement(table: TableName, name: str, value: str, *, exists: bool) -> str:
    """The statement that sets an extended property of a table; its name is reserved for dpone."""
    procedure = "sp_updateextendedproperty" if exists else "sp_addextendedproperty"
    arguments = {
        "name": name,
        "value": value,
        "level0type": "SCHEMA",
        "level0name": table.schema or DEFAULT_SCHEMA,
        "level1type": "TABLE",
        "level1name": table.name,
    }
    return f"EXEC sys.{procedure} " + ", ".join(f"@{key} = {national_literal(text)}" for key, text in arguments.items())


def national_literal(text: str) -> str:
    """An N'' literal, which holds any characters whatever the code page."""
    return "N'" + text.replace("'", "''") + "'"
