"""Reads the columns of a source from the PostgreSQL catalogue: of a relation, or of a query that is prepared and not
run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGresult

from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.types import catalog_type
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, TableSchema

from .database import Database

Ask = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""Rows of a query with $1, $2, ...: on any connection, or inside the caller's transaction."""

_READABLE_KINDS: Final = ("r", "p", "v", "m", "f")
_TYPES_SQL: Final = """
WITH RECURSIVE asked AS (
    SELECT ordinal, type, typmod FROM unnest($1::oid[], $2::int4[]) WITH ORDINALITY AS given(type, typmod, ordinal)
), chain AS (
    SELECT ordinal, type, typmod FROM asked
    UNION ALL
    SELECT chain.ordinal, pg_type.typbasetype, pg_type.typtypmod
    FROM chain JOIN pg_catalog.pg_type ON pg_type.oid = chain.type AND pg_type.typtype = 'd'
)
SELECT base.typname, base.typtype, base.typcategory, chain.typmod, pg_catalog.format_type(base.oid, chain.typmod)
FROM chain JOIN pg_catalog.pg_type AS base ON base.oid = chain.type AND base.typtype <> 'd'
ORDER BY chain.ordinal
"""
_COLUMNS_SQL: Final = """
SELECT attname, atttypid, atttypmod, attnotnull FROM pg_catalog.pg_attribute
WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_ESTIMATE_SQL: Final = """
WITH parts(oid) AS (
    SELECT pg_catalog.to_regclass($1)::oid
    UNION SELECT relid::oid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass($1)) WHERE isleaf
)
SELECT CASE WHEN bool_and(c.reltuples >= 0) THEN sum(c.reltuples)::int8 END
FROM parts JOIN pg_catalog.pg_class AS c ON c.oid = parts.oid AND c.relkind IN ('r', 'm')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """What PostgreSQL answers when it prepares a query: the columns, and the SQL type of each bound token."""

    schema: TableSchema
    parameter_types: tuple[str, ...]


def qualify(table: TableName) -> str:
    name = quote_ansi(table.name)
    return name if table.schema is None else f"{quote_ansi(table.schema)}.{name}"


def relation_id(database: Database, table: TableName) -> int | None:
    """The oid of a table or view; without a schema it is looked up in the session's search_path. None when absent."""
    rows = database.rows(
        "SELECT oid FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass($1) AND relkind::text = ANY($2)",
        (qualify(table), list(_READABLE_KINDS)),
    )
    return int(rows[0][0]) if rows else None


def estimated_rows(database: Database, table: TableName) -> int | None:
    """The row estimate of a table, partitions included, from the statistics; None where there is none."""
    (row,) = database.rows(_ESTIMATE_SQL, (qualify(table),))
    return None if row[0] is None else int(row[0])


def relation_schema(database: Database, table: TableName) -> TableSchema | None:
    oid = relation_id(database, table)
    if oid is None:
        return None
    rows = database.rows(_COLUMNS_SQL, (oid,))
    fields = [(str(name), int(type_), int(mod), not null) for name, type_, mod, null in rows]
    return TableSchema(columns=describe_columns(database.rows, fields))


def hides_rows(database: Database, table: TableName) -> bool:
    """Whether a policy decides which rows of the table this role sees."""
    rows = database.rows(
        "SELECT pg_catalog.row_security_active(oid) FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass($1)",
        (qualify(table),),
    )
    return bool(rows and rows[0][0])


def prepare_query(database: Database, text: str, *, visible_rows: bool = False) -> PreparedQuery:
    """Prepares `text`, whose tokens are $1, $2, ...: PostgreSQL parses and plans it and runs nothing. Raises
    ConnectorError `source_request_invalid` for a statement without columns, and `source_rows_hidden` unless
    `visible_rows`."""
    with database.snapshot(visible_rows=visible_rows) as cursor:
        result = describe_statement(cursor.connection, text)
    fields = [((result.fname(i) or b"").decode(), result.ftype(i), result.fmod(i), True) for i in range(result.nfields)]
    if not fields:
        raise ConnectorError("the query of the source returns no columns", code="source_request_invalid")
    parameters = [result.param_type(i) for i in range(result.nparams)]
    names = _resolve_base_types(database.rows, [(oid, -1) for oid in parameters])
    return PreparedQuery(
        schema=TableSchema(columns=describe_columns(database.rows, fields)),
        parameter_types=tuple(native for _, _, _, _, native in names),
    )


def describe_statement(connection: psycopg.Connection, text: str) -> PGresult:
    """The columns and parameters of one statement, which is prepared and not run. Raises psycopg.Error."""
    result = connection.pgconn.prepare(b"", text.encode())
    if result.status == pq.ExecStatus.COMMAND_OK:
        result = connection.pgconn.describe_prepared(b"")
    if result.status != pq.ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(result)
    return result


def describe_columns(ask: Ask, fields: list[tuple[str, int, int, bool]]) -> tuple[Column, ...]:
    """Columns from their names, type oids, type modifiers and nullability; domains become their base types."""
    types = _resolve_base_types(ask, [(oid, typmod) for _, oid, typmod, _ in fields])
    return tuple(
        Column(
            name=name,
            type=catalog_type(typname, typtype=typtype, category=category, typmod=typmod, native=native),
            nullable=nullable,
        )
        for (name, _, _, nullable), (typname, typtype, category, typmod, native) in zip(fields, types, strict=True)
    )


def _resolve_base_types(ask: Ask, types: list[tuple[int, int]]) -> list[tuple[str, str, str, int, str]]:
    """typname, typtype, typcategory, typmod and SQL name of each base type, in order."""
    if not types:
        return []
    rows = ask(_TYPES_SQL, ([oid for oid, _ in types], [typmod for _, typmod in types]))
    return [
        (str(name), _text(typtype), _text(category), int(typmod), str(native))
        for name, typtype, category, typmod, native in rows
    ]


def _text(value: object) -> str:
    """A value of type "char", which the driver gives as bytes or text."""
    return value.decode() if isinstance(value, bytes) else str(value)
