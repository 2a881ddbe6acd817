"""The staging table of one load on SQL Server: filled by statements of many rows, published in one transaction.

Nobody reads staging, so each statement is a transaction of its own. A lost answer ends the load; the statement is never
repeated. Wire-tested against a TDS double; the same suite runs against a server.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing, nullcontext, suppress
from functools import partial
from typing import Final

import pyarrow as pa

from dpone_core.connectors._sql.keys import check_merge_key, refuse_null_keys, refuse_repeated_keys
from dpone_core.connectors._sql.layout import stored_columns
from dpone_core.connectors._sql.publication import publish
from dpone_core.connectors._sql.range_staging import RangeDialect, SqlRangeStaging, WholeStaging
from dpone_core.connectors._sql.row_id import row_id_expression
from dpone_core.connectors._sql.schema_rules import check_payload
from dpone_core.connectors.mssql.odbc import pyodbc
from dpone_core.connectors.mssql.session import sql_state
from dpone_core.connectors.mssql.text import quote_name
from dpone_core.errors import ConnectionLostError, ConnectorError, DponeError
from dpone_core.model.artifacts import STAGING, LoadRef
from dpone_core.model.lineage import ROW_ID
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult, LineageProjection, StagedHandle, StageRequest

from .catalog import TargetTable, artifact_of, attachments_of, count_of, qualify, resolve, target_table
from .database import Database
from .keys import key_list
from .lineage import MssqlRowId, constant_expression
from .payload import PayloadRows
from .publish import publication_dialect
from .types import LAYOUT, StoredColumn, lineage_type, require_storable

_NOT_TAKEN: Final = "SQL Server did not take the staged rows"
_REFUSED: Final = "staging_refused"
_VALUE_CLASSES: Final = ("22", "23")


class MssqlStaging:
    """StagedLoadPort of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        with closing(batches) if isinstance(batches, Generator) else nullcontext():
            check_payload(request)
            check_merge_key(request)
            require_storable(request.schema)
            staged = artifact_of(request.ref, STAGING)
            target = target_table(self._database.rows, resolve(request.target))
            attachments = attachments_of(self._database.rows, target) if target is not None else ()
            stored = stored_columns(LAYOUT, request, target, attachments)
            rows = PayloadRows(request.schema, stored, refuse_null_keys(request, batches))
            ensure_schema(self._database, staged.schema or "")
            try:
                self._create(request, staged, stored)
                self._fill(staged, stored, rows)
                counted_rows = count_of(self._database.rows, staged)
                if counted_rows != rows.sent:
                    raise ConnectorError(
                        f"{rows.sent} rows were sent to staging and {counted_rows} arrived",
                        code="staged_row_count_mismatch",
                    )
                self._shape(request, staged, stored)
                self._refuse_repeated_keys(request, staged, stored)
            except BaseException:
                self._drop_what_may_be_there(staged)
                raise
        return StagedHandle(request=request, table=staged, payload_schema=request.schema, staged_rows=counted_rows)

    def project_lineage(self, handle: StagedHandle) -> LineageProjection:
        """In one query: a row counts for a column when it holds this load's value."""
        lineage = handle.request.lineage
        conditions = {
            name: f"{quote_name(name)} = {constant_expression(name, text)}" for name, text in lineage.constants.items()
        }
        if lineage.row_id_columns:
            conditions[ROW_ID] = f"LEN({quote_name(ROW_ID)}) = 64"
        if not conditions:
            return LineageProjection(columns=(), rows=0)
        every = " AND ".join(conditions.values())
        counts = ", ".join(
            f"COUNT_BIG(CASE WHEN {condition} THEN 1 END) AS held_{place}"
            for place, condition in enumerate((every, *conditions.values()))
        )
        total, whole, *counts_held = self._database.rows(
            f"SELECT COUNT_BIG(*) AS held, {counts} FROM {qualify(handle.table)}"
        )[0]
        columns = tuple(name for name, count in zip(conditions, counts_held, strict=True) if count == total)
        return LineageProjection(columns=columns, rows=int(whole))

    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        return publish(publication_dialect(self._database), handle)

    def cleanup(self, ref: LoadRef) -> None:
        """Drops the tables of one load. Dropping is repeatable, so it is tried again when an answer is lost."""
        staged = artifact_of(ref, STAGING)
        try:
            self._drop(staged)
        except ConnectionLostError:
            self._drop(staged)

    def _create(self, request: StageRequest, staged: TableName, stored: tuple[StoredColumn, ...]) -> None:
        definitions = [column.definition for column in stored]
        definitions += [
            f"{quote_name(name)} {lineage_type(name)} NOT NULL"
            f" CONSTRAINT {quote_name(constraint)} DEFAULT {constant_expression(name, text)}"
            for (name, text), constraint in zip(
                request.lineage.constants.items(), _constraints(request, staged), strict=True
            )
        ]
        if request.lineage.row_id_columns:
            definitions.append(f"{quote_name(ROW_ID)} {lineage_type(ROW_ID)} NULL")
        self._drop(staged)
        self._run(f"CREATE TABLE {qualify(staged)} ({', '.join(definitions)})", "staging was not created")

    def _fill(self, staged: TableName, stored: tuple[StoredColumn, ...], rows: PayloadRows) -> None:
        names = ", ".join(quote_name(column.column.name) for column in stored)
        row = f"({', '.join('?' * len(stored))})"
        with self._database.open_insert(rows.inputs) as insert:
            for values in rows.chunks():
                marks = ", ".join([row] * (len(values) // len(stored)))
                try:
                    insert(f"INSERT INTO {qualify(staged)} ({names}) VALUES {marks}", values)
                except pyodbc.Error as error:
                    raise self._value_error(error) from error

    def _value_error(self, error: pyodbc.Error) -> DponeError:
        if (sql_state(error) or "").startswith(_VALUE_CLASSES):
            return ConnectorError("SQL Server refused a staged value", code="staged_value_refused")
        return self._database.error(error, _NOT_TAKEN, "sink_statement_refused")

    def _shape(self, request: StageRequest, staged: TableName, stored: tuple[StoredColumn, ...]) -> None:
        """Removes the defaults and adds the row id, so that the published definition names no load."""
        for constraint in _constraints(request, staged):
            self._run(f"ALTER TABLE {qualify(staged)} DROP CONSTRAINT {quote_name(constraint)}", _NOT_TAKEN)
        if request.lineage.row_id_columns:
            payload = TableSchema(columns=tuple(column.column for column in stored))
            row_id, kind = quote_name(ROW_ID), lineage_type(ROW_ID)
            expression = row_id_expression(request.lineage, payload, MssqlRowId())
            self._run(f"UPDATE {qualify(staged)} SET {row_id} = {expression}", _NOT_TAKEN)
            self._run(f"ALTER TABLE {qualify(staged)} ALTER COLUMN {row_id} {kind} NOT NULL", _NOT_TAKEN)

    def _refuse_repeated_keys(self, request: StageRequest, staged: TableName, stored: tuple[StoredColumn, ...]) -> None:
        if request.strategy is StrategyMode.INCREMENTAL_MERGE:
            columns = [column.column for column in stored if column.column.name in request.unique_key]
            repeated = f"SELECT 1 AS one FROM {qualify(staged)} GROUP BY {key_list(columns)} HAVING COUNT_BIG(*) > 1"
            key_count = self._database.rows(f"SELECT COUNT_BIG(*) AS held FROM ({repeated}) AS repeated")
            refuse_repeated_keys(request, int(key_count[0][0]))

    def _run(self, sql: str, message: str) -> None:
        self._database.execute(sql, code=_REFUSED, message=message)

    def _drop(self, staged: TableName) -> None:
        self._database.execute(
            f"DROP TABLE IF EXISTS {qualify(staged)}",
            code="staged_cleanup_failed",
            message="a table of this load was not dropped",
        )

    def _drop_what_may_be_there(self, staged: TableName) -> None:
        """Drops the staging table after an error. If that fails it is reported as a leftover."""
        with suppress(DponeError):
            self._drop(staged)


def final_columns(request: StageRequest, stored: tuple[StoredColumn, ...]) -> dict[str, str]:
    """Quoted names and definitions of filled staging: no defaults, technical columns never NULL."""
    names = (*request.lineage.constants, *((ROW_ID,) if request.lineage.row_id_columns else ()))
    return {quote_name(column.column.name): column.definition for column in stored} | {
        quote_name(name): f"{quote_name(name)} {lineage_type(name)} NOT NULL" for name in names
    }


def _constraints(request: StageRequest, staged: TableName) -> list[str]:
    """Names of the defaults, as unique as staging's own."""
    return [f"{staged.name}_{ordinal}" for ordinal, _ in enumerate(request.lineage.constants)]


def ensure_schema(database: Database, schema: str) -> None:
    """Creates it when it is absent; CREATE SCHEMA is a batch of its own."""
    known = "SELECT 1 AS one FROM sys.schemas WHERE name = ?"
    if database.rows(known, (schema,)):
        return
    try:
        database.execute(f"CREATE SCHEMA {quote_name(schema)}", code=_REFUSED, message="a schema was not created")
    except ConnectorError:
        if not database.rows(known, (schema,)):
            raise


def range_staging(database: Database) -> SqlRangeStaging[TargetTable]:
    return SqlRangeStaging(
        RangeDialect(
            publication=publication_dialect(database),
            ensure_schema=partial(ensure_schema, database),
            definition=_range_definition,
        )
    )


def _range_definition(table: str, staging: WholeStaging[TargetTable]) -> str:
    """The SQL after CREATE for the table of all ranges, in the final form of a staging table."""
    stored = stored_columns(LAYOUT, staging.request, staging.target, staging.attachments)
    return f"TABLE {table} ({', '.join(final_columns(staging.request, stored).values())})"
