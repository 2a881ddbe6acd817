"""The staging table of one load on PostgreSQL: filled by COPY in one transaction, published in another.

A table that may become the target is logged. A table whose rows are copied into the target is unlogged; a server crash
empties it, and the publication then refuses it because it holds fewer rows than were staged.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing, nullcontext
from functools import partial

import psycopg
import pyarrow as pa

from dpone_core.connectors._sql.keys import check_merge_key, refuse_null_keys, refuse_repeated_keys
from dpone_core.connectors._sql.layout import may_swap, stored_columns
from dpone_core.connectors._sql.projection import observe_projection
from dpone_core.connectors._sql.publication import publish
from dpone_core.connectors._sql.range_staging import RangeDialect, SqlRangeStaging, WholeStaging
from dpone_core.connectors._sql.row_id import row_id_expression
from dpone_core.connectors._sql.schema_rules import check_payload
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.catalog import qualify
from dpone_core.connectors.postgres.database import Database
from dpone_core.errors import ConnectionLostError, ConnectorError
from dpone_core.model.artifacts import STAGING, LoadRef
from dpone_core.model.lineage import ROW_ID
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult, LineageProjection, StagedHandle, StageRequest

from .catalog import TargetTable, artifact_of, attachments_of, count_of, resolve, target_table
from .copying import CopyTransaction, begin_copy
from .lineage import PostgresRowId, constant_expression
from .payload import PayloadRows
from .publish import publication_dialect
from .types import LAYOUT, StoredColumn, stored_schema


class PostgresStaging:
    """StagedLoadPort of one database; `lock_timeout_seconds` bounds how long publishing waits for the target."""

    def __init__(self, database: Database, *, lock_timeout_seconds: float) -> None:
        self._database = database
        self._lock_timeout_seconds = lock_timeout_seconds

    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        with closing(batches) if isinstance(batches, Generator) else nullcontext():
            check_payload(request)
            check_merge_key(request)
            stored_schema(request.schema)
            staged = artifact_of(request.ref, STAGING)
            target = target_table(self._database.rows, resolve(request.target))
            attachments = attachments_of(self._database.rows, target) if target is not None else ()
            stored = stored_columns(LAYOUT, request, target, attachments)
            rows = PayloadRows(request.schema, stored, refuse_null_keys(request, batches))
            ensure_schema(self._database, staged.schema or "")
            try:
                with begin_copy(self._database) as transaction:
                    logged = may_swap(request, target, attachments)
                    self._create(transaction, request, staged, stored, logged=logged)
                    transaction.copy(staged, rows)
                    counted_rows = count_of(transaction.run, staged)
                    if counted_rows != rows.sent:
                        raise ConnectorError(
                            f"{rows.sent} rows were sent to staging and {counted_rows} arrived",
                            code="staged_row_count_mismatch",
                        )
                    self._shape(transaction, request, staged, stored)
                    self._refuse_repeated_keys(transaction, request, staged)
            except ConnectionLostError:
                self._drop_what_may_be_there(staged)
                raise
        return StagedHandle(request=request, table=staged, payload_schema=request.schema, staged_rows=counted_rows)

    def project_lineage(self, handle: StagedHandle) -> LineageProjection:
        return observe_projection(
            handle.request.lineage,
            qualify(handle.table),
            constant=constant_expression,
            is_row_id=f"{quote_ansi(ROW_ID)} ~ '^[0-9a-f]{{64}}$'",
            first_row=lambda sql: self._database.rows(sql)[0],
        )

    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        return publish(publication_dialect(self._database, lock_timeout_seconds=self._lock_timeout_seconds), handle)

    def cleanup(self, ref: LoadRef) -> None:
        """Drops the tables of one load. Dropping is repeatable, so it is tried again when an answer is lost."""
        staged = artifact_of(ref, STAGING)
        try:
            self._drop(staged)
        except ConnectionLostError:
            self._drop(staged)

    def _create(
        self,
        transaction: CopyTransaction,
        request: StageRequest,
        staged: TableName,
        stored: tuple[StoredColumn, ...],
        *,
        logged: bool,
    ) -> None:
        definitions = [column.definition for column in stored]
        definitions += [
            f"{quote_ansi(name)} {constant_type(name)} NOT NULL DEFAULT {constant_expression(name, text)}"
            for name, text in request.lineage.constants.items()
        ]
        if request.lineage.row_id_columns:
            definitions.append(f"{quote_ansi(ROW_ID)} text")
        transaction.run(f"DROP TABLE IF EXISTS {qualify(staged)}")
        transaction.run(f"CREATE {'' if logged else 'UNLOGGED '}TABLE {qualify(staged)} ({', '.join(definitions)})")

    def _shape(
        self, transaction: CopyTransaction, request: StageRequest, staged: TableName, stored: tuple[StoredColumn, ...]
    ) -> None:
        """Removes defaults, adds the row id and converts columns to the target's types, in one rewrite."""
        actions = [f"ALTER COLUMN {quote_ansi(name)} DROP DEFAULT" for name in request.lineage.constants]
        cast = tuple(column for column in stored if column.is_cast)
        actions += [
            f"ALTER COLUMN {quoted} TYPE {column.declared_type} USING {quoted}::{column.declared_type}"
            for column in cast
            for quoted in (quote_ansi(column.column.name),)
        ]
        if request.lineage.row_id_columns:
            payload = TableSchema(columns=tuple(column.column for column in stored))
            expression = row_id_expression(request.lineage, payload, PostgresRowId())
            actions += [
                f"ALTER COLUMN {quote_ansi(ROW_ID)} TYPE text USING {expression}",
                f"ALTER COLUMN {quote_ansi(ROW_ID)} SET NOT NULL",
            ]
        transaction.alter(staged, actions, cast)

    def _refuse_repeated_keys(self, transaction: CopyTransaction, request: StageRequest, staged: TableName) -> None:
        if request.strategy is StrategyMode.INCREMENTAL_MERGE:
            keys = ", ".join(map(quote_ansi, request.unique_key))
            repeated = f"SELECT 1 FROM {qualify(staged)} GROUP BY {keys} HAVING count(*) > 1"
            refuse_repeated_keys(request, int(transaction.run(f"SELECT count(*) FROM ({repeated}) AS r")[0][0]))

    def _drop(self, staged: TableName) -> None:
        with self._database.transaction(
            code="staged_cleanup_failed",
            message="a table of this load was not dropped",
            lock_timeout_seconds=self._lock_timeout_seconds,
        ) as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {qualify(staged)}".encode())

    def _drop_what_may_be_there(self, staged: TableName) -> None:
        """Drops a table that a lost session may have committed; a failure leaves a reported leftover."""
        try:
            self._drop(staged)
        except ConnectorError:
            return


def constant_type(name: str) -> str:
    return constant_expression(name, "").rpartition("::")[2]


def ensure_schema(database: Database, schema: str) -> None:
    """Creates the schema when it is absent; for an existing schema no CREATE right is needed."""
    if database.rows("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", (schema,)):
        return
    try:
        with database.transaction(code="staging_refused", message="a schema was not created") as cursor:
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_ansi(schema)}".encode())
    except ConnectorError as error:
        if not isinstance(error.__cause__, psycopg.errors.UniqueViolation | psycopg.errors.DuplicateSchema):
            raise


def range_staging(database: Database, *, lock_timeout_seconds: float) -> SqlRangeStaging[TargetTable]:
    return SqlRangeStaging(
        RangeDialect(
            publication=publication_dialect(database, lock_timeout_seconds=lock_timeout_seconds),
            ensure_schema=partial(ensure_schema, database),
            definition=_range_definition,
        )
    )


def _range_definition(table: str, staging: WholeStaging[TargetTable]) -> str:
    """The SQL after CREATE for the table of all ranges; it is logged when it may become the target."""
    logged = may_swap(staging.request, staging.target, staging.attachments)
    return f"{'' if logged else 'UNLOGGED '}TABLE {table} (LIKE {qualify(staging.part.table)})"
