"""The catalogue of the TDS double: what sys.* and INFORMATION_SCHEMA say of its tables, and DDL that DuckDB lacks.

Everything is rows of DuckDB tables, written by the session's own cursor, so a ROLLBACK takes it back. Relations that
nothing here fills (triggers, grants, foreign keys ..) are empty tables: a test puts a row there to say that one exists.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

import duckdb
from pysqlbridge.tds.result import QueryError

from tests.connectors.tds_double_types import Declared

_PART = re.compile(r"\[((?:[^\]]|\]\])*)\]|\"((?:[^\"]|\"\")*)\"|([#\w]+)")
_KEY = "object_id INTEGER"
SETUP = (
    "CREATE SCHEMA double_catalog",
    "CREATE SCHEMA double_sys",
    "CREATE SEQUENCE double_sys.ids",
    "CREATE TABLE double_sys.objects (object_id INTEGER, schema_id VARCHAR, name VARCHAR, type VARCHAR,"
    " parent_object_id INTEGER DEFAULT 0, principal_id INTEGER, parent_column VARCHAR)",
    "CREATE TABLE double_sys.columns (object_id INTEGER, column_id INTEGER, name VARCHAR, system_type_id VARCHAR,"
    " length INTEGER, scale INTEGER, is_nullable BOOLEAN, is_identity BOOLEAN DEFAULT FALSE,"
    " is_computed BOOLEAN DEFAULT FALSE, is_sparse BOOLEAN DEFAULT FALSE, is_masked BOOLEAN DEFAULT FALSE,"
    " generated_always_type INTEGER DEFAULT 0, collation_name VARCHAR)",
    "CREATE TABLE double_sys.extended_properties (class INTEGER, major_id INTEGER, minor_id INTEGER, name VARCHAR,"
    " value VARCHAR)",
    f"CREATE TABLE double_sys.indexes ({_KEY}, index_id INTEGER)",
    "CREATE TABLE double_sys.foreign_keys (referenced_object_id INTEGER)",
    "CREATE TABLE double_sys.sql_expression_dependencies (referenced_id INTEGER, is_schema_bound_reference BOOLEAN)",
    "CREATE TABLE double_sys.database_permissions (class INTEGER, major_id INTEGER)",
    f"CREATE TABLE double_sys.stats ({_KEY}, user_created BOOLEAN)",
    f"CREATE TABLE double_sys.change_tracking_tables ({_KEY})",
    "CREATE TABLE double_sys.security_predicates (target_object_id INTEGER)",
    f"CREATE TABLE double_sys.partitions ({_KEY}, partition_number INTEGER, data_compression INTEGER)",
    f"CREATE TABLE double_sys.tables ({_KEY}, temporal_type INTEGER, is_memory_optimized BOOLEAN,"
    " is_replicated BOOLEAN, is_tracked_by_cdc BOOLEAN)",
    "CREATE TABLE double_sys.denied (permission VARCHAR, class VARCHAR)",
    "CREATE TABLE double_sys.facts AS SELECT 'Updateability' AS name, 'READ_WRITE' AS value"
    " UNION ALL SELECT 'Collation', 'Latin1_General_CI_AS' UNION ALL SELECT 'CodePage', '65001'",
    "CREATE VIEW double_sys.schemas AS SELECT CASE schema_name WHEN 'main' THEN 'dbo' ELSE schema_name END AS name,"
    " CASE schema_name WHEN 'main' THEN 'dbo' ELSE schema_name END AS schema_id FROM duckdb_schemas()"
    " WHERE database_name = current_database() AND schema_name NOT LIKE 'double%'",
    "CREATE TABLE double_sys.databases AS SELECT 'double' AS name, 0::UTINYINT AS snapshot_isolation_state,"
    " FALSE AS is_read_committed_snapshot_on",
    "CREATE VIEW double_catalog.columns AS SELECT o.schema_id AS TABLE_SCHEMA, o.name AS TABLE_NAME,"
    " c.name AS COLUMN_NAME, c.column_id AS ORDINAL_POSITION, c.system_type_id AS DATA_TYPE,"
    " CASE WHEN c.system_type_id NOT IN ('decimal', 'time', 'datetime2', 'datetimeoffset') THEN c.length END"
    " AS CHARACTER_MAXIMUM_LENGTH,"
    " CASE WHEN c.system_type_id = 'decimal' THEN c.length::UTINYINT END AS NUMERIC_PRECISION,"
    " CASE WHEN c.system_type_id = 'decimal' THEN c.scale END AS NUMERIC_SCALE,"
    " CASE WHEN c.system_type_id IN ('time', 'datetime2', 'datetimeoffset') THEN c.length::SMALLINT END"
    " AS DATETIME_PRECISION, CASE WHEN c.is_nullable THEN 'YES' ELSE 'NO' END AS IS_NULLABLE"
    " FROM double_sys.columns AS c JOIN double_sys.objects AS o ON o.object_id = c.object_id",
    "CREATE MACRO db_name() AS 'double'",
    "CREATE MACRO type_name(id) AS id",
    "CREATE MACRO databasepropertyex(database, property) AS"
    " (SELECT max(value) FROM double_sys.facts WHERE name = property)",
    "CREATE MACRO collationproperty(collation, property) AS"
    " (SELECT max(value) FROM double_sys.facts WHERE name = property)",
    "CREATE MACRO has_perms_by_name(securable, kind, asked) AS (SELECT CASE WHEN count(*) > 0 THEN 0 ELSE 1 END"
    " FROM double_sys.denied AS d WHERE d.class = kind AND d.permission = asked)",
)


def two_parts(text: str) -> tuple[str, str]:
    """Schema and name of `[s].[n]`, `s.n` or `n`."""
    parts = [
        one.replace("]]", "]") if one else two.replace('""', '"') if two else three
        for one, two, three in _PART.findall(text)
    ]
    return (parts[-2] if len(parts) > 1 else "dbo"), parts[-1]


def duckdb_name(schema: str, name: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in ("main" if schema == "dbo" else schema, name))


class Tables(Mapping[str, Mapping[str, Declared]]):
    """Declared columns by `schema.table` in lower case, as one session sees them."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor

    def __getitem__(self, key: str) -> Mapping[str, Declared]:
        found = self._cursor.execute(
            "SELECT c.name, c.system_type_id, c.length, c.scale FROM double_sys.columns AS c JOIN double_sys.objects"
            " AS o ON o.object_id = c.object_id WHERE lower(o.schema_id || '.' || o.name) = ? ORDER BY c.column_id",
            [key],
        ).fetchall()
        if not found:
            raise KeyError(key)
        return {name: Declared(name=kind, length=length, scale=scale) for name, kind, length, scale in found}

    def __iter__(self) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


def object_id(cursor: duckdb.DuckDBPyConnection, schema: str, name: str) -> int:
    found = cursor.execute(
        "SELECT object_id FROM double_sys.objects WHERE lower(schema_id) = lower(?) AND lower(name) = lower(?)"
        " AND type = 'U'",
        [schema, name],
    ).fetchone()
    if found is None:
        raise QueryError("The object does not exist.", number=15_225)
    return int(found[0])


def created(
    cursor: duckdb.DuckDBPyConnection,
    schema: str,
    name: str,
    columns: Mapping[str, Declared],
    required: frozenset[str],
    *,
    has_key: bool,
    defaults: Mapping[str, str],
) -> None:
    (number,) = cursor.execute("SELECT nextval('double_sys.ids')::INTEGER").fetchone() or (0,)
    _object(cursor, number, schema, name, "U")
    added(cursor, number, columns, required)
    if has_key:
        _object(cursor, -number, schema, f"PK_{number}", "PK", number)
        cursor.execute("INSERT INTO double_sys.indexes VALUES (?, 1)", [number])
    for constraint, column in defaults.items():
        _object(cursor, -number, schema, constraint, "D", number, column)


def added(
    cursor: duckdb.DuckDBPyConnection, number: int, columns: Mapping[str, Declared], required: frozenset[str]
) -> None:
    (held,) = cursor.execute("SELECT count(*) FROM double_sys.columns WHERE object_id = ?", [number]).fetchone() or (0,)
    for ordinal, (column, kind) in enumerate(columns.items(), held + 1):
        cursor.execute(
            "INSERT INTO double_sys.columns (object_id, column_id, name, system_type_id, length, scale, is_nullable)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [number, ordinal, column, kind.name, kind.length, kind.scale, column not in required],
        )


def _object(
    cursor: duckdb.DuckDBPyConnection,
    number: int,
    schema: str,
    name: str,
    kind: str,
    parent: int = 0,
    column: str | None = None,
) -> None:
    cursor.execute(
        "INSERT INTO double_sys.objects VALUES (?, ?, ?, ?, ?, NULL, ?)", [number, schema, name, kind, parent, column]
    )


def dropped(cursor: duckdb.DuckDBPyConnection, schema: str, name: str) -> None:
    try:
        number = object_id(cursor, schema, name)
    except QueryError:
        return
    cursor.execute("DELETE FROM double_sys.objects WHERE object_id = ? OR parent_object_id = ?", [number, number])
    for relation, key in (("columns", "object_id"), ("extended_properties", "major_id"), ("indexes", "object_id")):
        cursor.execute(f"DELETE FROM double_sys.{relation} WHERE {key} = ?", [number])


def renamed(cursor: duckdb.DuckDBPyConnection, old: str, new: str) -> None:
    schema, name = two_parts(old)
    number = object_id(cursor, schema, name)
    quoted = '"' + new.replace('"', '""') + '"'
    cursor.execute(f"ALTER TABLE {duckdb_name(schema, name)} RENAME TO {quoted}")
    cursor.execute("UPDATE double_sys.objects SET name = ? WHERE object_id = ?", [new, number])


def transferred(cursor: duckdb.DuckDBPyConnection, schema: str, table: str) -> None:
    """DuckDB moves no table between schemas: it is copied, under the same object id."""
    old_schema, name = two_parts(table)
    number = object_id(cursor, old_schema, name)
    columns = cursor.execute(
        "SELECT name, system_type_id, length, scale, is_nullable FROM double_sys.columns WHERE object_id = ?"
        " ORDER BY column_id",
        [number],
    ).fetchall()
    definitions = ", ".join(
        f'"{column.replace(chr(34), chr(34) * 2)}" {Declared(name=kind, length=length, scale=scale).stored}'
        f"{'' if nullable else ' NOT NULL'}"
        for column, kind, length, scale, nullable in columns
    )
    old, new = duckdb_name(old_schema, name), duckdb_name(schema, name)
    cursor.execute(f"CREATE TABLE {new} ({definitions})")
    cursor.execute(f"INSERT INTO {new} SELECT * FROM {old}")
    cursor.execute(f"DROP TABLE {old}")
    cursor.execute(
        "UPDATE double_sys.objects SET schema_id = ? WHERE object_id = ? OR parent_object_id = ?",
        [schema, number, number],
    )


def constraint_dropped(cursor: duckdb.DuckDBPyConnection, table: str, constraint: str) -> None:
    schema, name = two_parts(table)
    number = object_id(cursor, schema, name)
    found = cursor.execute(
        "DELETE FROM double_sys.objects WHERE parent_object_id = ? AND name = ? AND type = 'D' RETURNING parent_column",
        [number, constraint],
    ).fetchone()
    if found is None:
        raise QueryError("The constraint does not exist.", number=3728)
    column = '"' + found[0].replace('"', '""') + '"'
    cursor.execute(f"ALTER TABLE {duckdb_name(schema, name)} ALTER COLUMN {column} DROP DEFAULT")


def made_required(cursor: duckdb.DuckDBPyConnection, table: str, column: str) -> None:
    schema, name = two_parts(table)
    number = object_id(cursor, schema, name)
    quoted = '"' + column.replace('"', '""') + '"'
    cursor.execute(f"ALTER TABLE {duckdb_name(schema, name)} ALTER COLUMN {quoted} SET NOT NULL")
    cursor.execute(
        "UPDATE double_sys.columns SET is_nullable = FALSE WHERE object_id = ? AND name = ?", [number, column]
    )


def property_set(cursor: duckdb.DuckDBPyConnection, procedure: str, given: Mapping[str, Any]) -> None:
    """sp_addextendedproperty, sp_updateextendedproperty and sp_dropextendedproperty of a table."""
    number = object_id(cursor, given["level0name"], given["level1name"])
    known = cursor.execute(
        "SELECT 1 FROM double_sys.extended_properties WHERE major_id = ? AND minor_id = 0 AND name = ?",
        [number, given["name"]],
    ).fetchone()
    if (known is not None) == procedure.startswith("sp_add"):
        raise QueryError("Property cannot be set.", number=15_233 if known else 15_217)
    cursor.execute(
        "DELETE FROM double_sys.extended_properties WHERE major_id = ? AND minor_id = 0 AND name = ?",
        [number, given["name"]],
    )
    if not procedure.startswith("sp_drop"):
        cursor.execute(
            "INSERT INTO double_sys.extended_properties VALUES (1, ?, 0, ?, ?)", [number, given["name"], given["value"]]
        )


class Locks:
    """Locks by name, each held by one session until its transaction ends."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._held: dict[str, object] = {}

    def taken(self, name: str, owner: object, milliseconds: int) -> bool:
        with self._free:
            granted = self._free.wait_for(lambda: self._held.get(name, owner) is owner, milliseconds / 1000)
            if granted:
                self._held[name] = owner
            return granted

    def released(self, owner: object) -> None:
        with self._free:
            self._held = {name: held for name, held in self._held.items() if held is not owner}
            self._free.notify_all()
