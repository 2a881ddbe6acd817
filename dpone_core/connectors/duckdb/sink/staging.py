"""The staging table of one load on DuckDB: filled by one streaming insert in one transaction, published in another."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing, nullcontext
from typing import Final

import duckdb
import pyarrow as pa

from dpone_core.connectors._sql.interruptible import interruptible
from dpone_core.connectors._sql.keys import refuse_null_keys, refuse_repeated_keys
from dpone_core.connectors._sql.layout import stored_columns
from dpone_core.connectors._sql.projection import observe_projection
from dpone_core.connectors._sql.publication import publish
from dpone_core.connectors._sql.range_staging import RangeDialect, SqlRangeStaging, WholeStaging
from dpone_core.connectors._sql.schema_rules import check_payload
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.duckdb.catalog import TargetTable, artifact_of, attachments_of, count_of, target_table
from dpone_core.connectors.duckdb.database import Database, qualify, resolve
from dpone_core.connectors.duckdb.types import LAYOUT, column_definition
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import STAGING, LoadRef
from dpone_core.model.lineage import ROW_ID, lineage_schema
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult, LineageProjection, StagedHandle, StageRequest

from .lineage import constant_expression, lineage_expressions
from .payload import PayloadRows
from .publish import publication_dialect

_PAYLOAD: Final = "dpone_payload"


class DuckDbStaging:
    """StagedLoadPort of one DuckDB file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def stage(self, request: StageRequest, batches: Iterable[pa.RecordBatch]) -> StagedHandle:
        with closing(batches) if isinstance(batches, Generator) else nullcontext():
            check_payload(request)
            staged = artifact_of(request.ref, STAGING)
            stored = self._stored_schema(request)
            rows = PayloadRows(request.schema, stored, refuse_null_keys(request, batches))
            with (
                self._database.register(_PAYLOAD, rows.reader()),
                self._database.transaction(
                    code="sink_statement_refused", message="DuckDB did not take the staged rows"
                ) as cursor,
            ):
                for schema in dict.fromkeys((staged.schema, resolve(request.target).schema)):
                    cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_ansi(schema or '')}")
                self._fill(cursor, request, staged, stored, rows)
                counted_rows = count_of(self._database.rows, staged)
                if counted_rows != rows.sent:
                    raise ConnectorError(
                        f"{rows.sent} rows were sent to staging and {counted_rows} arrived",
                        code="staged_row_count_mismatch",
                    )
                self._refuse_repeated_keys(request, staged)
        return StagedHandle(request=request, table=staged, payload_schema=request.schema, staged_rows=counted_rows)

    def project_lineage(self, handle: StagedHandle) -> LineageProjection:
        return observe_projection(
            handle.request.lineage,
            qualify(handle.table),
            constant=constant_expression,
            is_row_id=f"regexp_full_match({quote_ansi(ROW_ID)}, '[0-9a-f]{{64}}')",
            first_row=lambda sql: self._database.rows(sql)[0],
        )

    def finalize(self, handle: StagedHandle) -> FinalizeResult:
        return publish(publication_dialect(self._database), handle)

    def cleanup(self, ref: LoadRef) -> None:
        with self._database.transaction(
            code="staged_cleanup_failed", message="a table of this load was not dropped"
        ) as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {qualify(artifact_of(ref, STAGING))}")

    def _stored_schema(self, request: StageRequest) -> TableSchema:
        """Payload columns as staging holds them."""
        target = target_table(self._database.rows, resolve(request.target))
        attachments = attachments_of(self._database.rows, target) if target is not None else ()
        return TableSchema(columns=stored_columns(LAYOUT, request, target, attachments))

    def _refuse_repeated_keys(self, request: StageRequest, staged: TableName) -> None:
        if request.strategy is StrategyMode.INCREMENTAL_MERGE:
            keys = ", ".join(map(quote_ansi, request.unique_key))
            repeated = f"SELECT 1 FROM {qualify(staged)} GROUP BY {keys} HAVING count(*) > 1"
            with self._database.full_memory():
                key_count = self._database.rows(f"SELECT count(*) FROM ({repeated})")[0][0]
            refuse_repeated_keys(request, int(key_count))

    def _fill(
        self,
        cursor: duckdb.DuckDBPyConnection,
        request: StageRequest,
        staged: TableName,
        stored: TableSchema,
        rows: PayloadRows,
    ) -> None:
        expressions = lineage_expressions(stored, request.lineage)
        columns = (*stored.columns, *lineage_schema(expressions).columns)
        definitions = ", ".join(column_definition(column) for column in columns)
        cursor.execute(f"DROP TABLE IF EXISTS {qualify(staged)}")
        cursor.execute(f"CREATE TABLE {qualify(staged)} ({definitions})")
        selected = ", ".join([*map(quote_ansi, stored.names), *expressions.values()])
        try:
            statement = f"INSERT INTO {qualify(staged)} SELECT {selected} FROM {_PAYLOAD}"
            interruptible(lambda: cursor.execute(statement), cursor.interrupt)
        except (duckdb.ConstraintException, duckdb.ConversionException) as error:
            raise ConnectorError("DuckDB refused a staged value", code="staged_value_refused") from error
        except duckdb.Error as error:
            raise (rows.failure or error) from error


def range_staging(database: Database) -> SqlRangeStaging[TargetTable]:
    def ensure_schema(schema: str) -> None:
        with database.transaction(code="staging_refused", message="DuckDB refused to create a schema") as cursor:
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_ansi(schema)}")

    return SqlRangeStaging(
        RangeDialect(
            publication=publication_dialect(database), ensure_schema=ensure_schema, definition=_range_definition
        )
    )


def _range_definition(table: str, staging: WholeStaging[TargetTable]) -> str:
    return f"TABLE {table} ({', '.join(map(column_definition, staging.part_table.schema.columns))})"
