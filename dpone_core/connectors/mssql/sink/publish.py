"""How SQL Server publishes a staged load in one transaction.

Every publication of a target first takes an application lock that ends with its transaction, so another session that
takes the lock waits until the outcome is known. Other writers wait for a table lock. The load marker is an extended
property of the target.
"""

from __future__ import annotations

import hashlib

from dpone_core.connectors._sql.fence import holds_by_lock
from dpone_core.connectors._sql.publication import (
    Ask,
    CatalogDialect,
    MarkerDialect,
    PublicationDialect,
    StatementDialect,
    TransactionDialect,
)
from dpone_core.connectors.mssql.text import quote_name
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import SHADOW
from dpone_core.model.lineage import LINEAGE_TYPES
from dpone_core.model.load_config import PartitionBy, PartitionGranularity, TableName
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.sink import StagedHandle

from .catalog import (
    MARKER,
    UPDATED,
    TargetTable,
    artifact_of,
    attachments_of,
    count_of,
    national_literal,
    property_statement,
    qualify,
    resolve,
    target_table,
)
from .database import Database
from .keys import exact_expression, key_list, same_key
from .types import LAYOUT, StoredColumn, lineage_type, new_column

ROW_LOCK = " WITH (UPDLOCK, HOLDLOCK)"
"""Locks the row, or the gap in the key where it would be, until the transaction ends."""


def publication_dialect(database: Database) -> PublicationDialect[TargetTable]:
    return PublicationDialect(
        engine="SQL Server",
        transactions=TransactionDialect(
            begin=database.transaction,
            rows=database.rows,
            holds=holds_by_lock(
                lambda table: qualify(resolve(table)), "CAST(? AS nvarchar(400))", quote=quote_name, hint=ROW_LOCK
            ),
            keep_publications_out=lambda ask, target: lock_publications(
                ask, target, database.lock_timeout_milliseconds
            ),
            keep_writers_out=_keep_writers_out,
        ),
        catalog=CatalogDialect(
            resolve=resolve, artifact_of=artifact_of, find=target_table, attachments=attachments_of, count=count_of
        ),
        marker=MarkerDialect(write_marker=_write_marker, write_updates=_write_updates, read_updates=_read_updates),
        statements=StatementDialect(
            qualify=qualify,
            same_key=same_key,
            key_list=key_list,
            delete_partitions=_delete_partitions,
            swap=_swap,
            add_columns=_add_columns,
            quote=quote_name,
            row_count="COUNT_BIG(*)",
        ),
        layout=LAYOUT,
    )


def lock_name(target: TableName) -> str:
    return "dpone_" + hashlib.sha256(f"{target.schema}|{target.name}".encode()).hexdigest()


def lock_publications(ask: Ask, target: TableName, milliseconds: int) -> None:
    """Takes the application lock of the target until the transaction ends. Raises ConnectorError `finaliser_refused` on
    a timeout, which the procedure reports by its return value."""
    granted = ask(
        f"DECLARE @granted int; EXEC @granted = sp_getapplock @Resource = {national_literal(lock_name(target))},"
        f" @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = {milliseconds};"
        " SELECT @granted AS granted",
        (),
    )
    if int(granted[0][0]) < 0:
        raise ConnectorError(
            "another publication of the target did not end within the lock timeout; the target is unchanged",
            code="finaliser_refused",
            fix="run again when it has ended",
        )


def _keep_writers_out(ask: Ask, target: TableName) -> None:
    """Takes the table lock by a SELECT with a hint; it stays until the transaction ends."""
    ask(f"SELECT TOP (1) 1 AS one FROM {qualify(target)} WITH (TABLOCK, HOLDLOCK)", ())


def _add_columns(target: TableName, added: TableSchema) -> list[str]:
    return [f"ALTER TABLE {qualify(target)} ADD {', '.join(_added_column(each).definition for each in added.columns)}"]


def _added_column(column: Column) -> StoredColumn:
    if column.name in LINEAGE_TYPES:
        return StoredColumn(column=column, declared_type=lineage_type(column.name))
    return new_column(column)


def _swap(ask: Ask, handle: StagedHandle, target: TableName, exists: bool) -> str:
    if not exists and not ask("SELECT 1 AS one FROM sys.schemas WHERE name = ?", (target.schema,)):
        ask(f"CREATE SCHEMA {quote_name(target.schema or '')}", ())
    old = TableName(schema=target.schema, name=artifact_of(handle.request.ref, SHADOW).name)
    if exists:
        ask(_rename(target, old.name), ())
    moved = handle.table
    if moved.schema != target.schema:
        ask(f"ALTER SCHEMA {quote_name(target.schema or '')} TRANSFER {qualify(moved)}", ())
        moved = TableName(schema=target.schema, name=moved.name)
    ask(_rename(moved, target.name), ())
    if exists:
        ask(f"DROP TABLE {qualify(old)}", ())
    return "swap_in_transaction"


def _rename(table: TableName, name: str) -> str:
    """The statement that renames a table. The procedure takes the new name literally, so it has no brackets."""
    return f"EXEC sp_rename {national_literal(qualify(table))}, {national_literal(name)}"


def _write_marker(ask: Ask, target: TableName, before: TargetTable | None, marker: str) -> None:
    """Writes the load marker; a table that took the target's place has no property to replace yet."""
    published = target_table(ask, target)
    marked = published is not None and published.note != ""
    ask(property_statement(target, MARKER, marker, exists=marked), ())


def _write_updates(ask: Ask, staged: TableName, updated: int) -> None:
    ask(property_statement(staged, UPDATED, str(updated), exists=False), ())


def _read_updates(ask: Ask, staged: TableName) -> int:
    found = target_table(ask, staged, UPDATED)
    return int(found.note) if found is not None and found.note else 0


def _delete_partitions(target: TableName, staged: TableName, by: PartitionBy, column: Column) -> str:
    part, name, source = partition_expression(by, column), quote_name(column.name), qualify(staged)
    return (
        f"DELETE FROM {qualify(target)} WHERE {part} IN (SELECT {part} FROM {source})"
        f" OR ({name} IS NULL AND EXISTS (SELECT 1 AS one FROM {source} WHERE {name} IS NULL))"
    )


def partition_expression(by: PartitionBy, column: Column, qualifier: str = "") -> str:
    """The expression that is equal for all rows of one partition; instants count in UTC."""
    if by.granularity is PartitionGranularity.VALUE:
        return exact_expression(column, qualifier)
    name = f"{qualifier}.{quote_name(column.name)}" if qualifier else quote_name(column.name)
    wall = f"SWITCHOFFSET({name}, '+00:00')" if column.type.kind is ColumnKind.TIMESTAMP_TZ else name
    day = f"CAST({wall} AS date)"
    match by.granularity:
        case PartitionGranularity.DAY:
            return day
        case PartitionGranularity.MONTH:
            return f"DATEFROMPARTS(YEAR({day}), MONTH({day}), 1)"
        case PartitionGranularity.YEAR:
            return f"YEAR({day})"
