"""Staged rows of DuckDB as Arrow: one streaming result on a cursor of its own."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from dpone_core.connectors._arrow.cast import MAX_BATCH_ROWS, StrictCast, limit_batch_rows
from dpone_core.connectors._arrow.types import arrow_schema
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.duckdb.database import Database, qualify
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.sink import StagedHandle

UNREADABLE = "staged_rows_unreadable"


class DuckDbStagedRows:
    """StagedRowsPort; DuckDB produces at most MAX_BATCH_ROWS rows ahead of the reader."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def arrow_schema(self, payload: TableSchema) -> pa.Schema:
        return arrow_schema(payload)

    def read_back(self, handle: StagedHandle) -> Iterator[pa.RecordBatch]:
        schema = handle.payload_schema
        cast = StrictCast(schema, code=UNREADABLE)
        selected = ", ".join(f"{_readable(column)} AS {quote_ansi(column.name)}" for column in schema.columns)
        cursor = self._database.new_cursor()
        rows = 0
        try:
            reader = cursor.sql(f"SELECT {selected} FROM {qualify(handle.table)}").to_arrow_reader(MAX_BATCH_ROWS)
            for batch in limit_batch_rows(reader):
                rows += batch.num_rows
                yield cast(batch)
        except (duckdb.Error, pa.ArrowException) as error:
            raise foreign_error(error, "DuckDB did not give staged rows back", UNREADABLE) from error
        finally:
            cursor.close()
        if rows != handle.staged_rows:
            raise ConnectorError(f"only {rows} of {handle.staged_rows} staged rows were read back", code=UNREADABLE)


def _readable(column: Column) -> str:
    quoted = quote_ansi(column.name)
    return f"unhex(replace({quoted}::VARCHAR, '-', ''))" if column.type.kind is ColumnKind.UUID else quoted
