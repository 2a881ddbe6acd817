"""Reads staged rows of PostgreSQL back as Arrow, in the types of the payload."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from dpone_core.connectors._arrow.types import arrow_schema
from dpone_core.connectors.postgres.catalog import qualify, relation_schema
from dpone_core.connectors.postgres.database import Database
from dpone_core.connectors.postgres.source.selection import Selection
from dpone_core.connectors.postgres.source.stream import PostgresStream
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.sink import StagedHandle

UNREADABLE = "staged_rows_unreadable"


class PostgresStagedRows:
    """StagedRowsPort. The type of a staged column decides how it is read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def arrow_schema(self, payload: TableSchema) -> pa.Schema:
        return arrow_schema(payload)

    def read_back(self, handle: StagedHandle) -> Iterator[pa.RecordBatch]:
        stream = PostgresStream(
            self._database, Selection(text=f"FROM {qualify(handle.table)}"), self._readable(handle), code=UNREADABLE
        )
        rows = 0
        with closing(stream):
            for batch in stream.batches():
                rows += batch.num_rows
                yield batch
        if rows != handle.staged_rows:
            raise ConnectorError(f"only {rows} of {handle.staged_rows} staged rows were read back", code=UNREADABLE)

    def _readable(self, handle: StagedHandle) -> TableSchema:
        stored = relation_schema(self._database, handle.table)
        if stored is None:
            raise ConnectorError("the staging table of this load does not exist any more", code=UNREADABLE)
        types = {column.name: column.type.native for column in stored.columns}
        return TableSchema(
            columns=tuple(
                replace(column, type=replace(column.type, native=types.get(column.name, "")))
                for column in handle.payload_schema.columns
            )
        )
