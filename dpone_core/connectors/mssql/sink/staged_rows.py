"""Reads staged rows of SQL Server back as Arrow, in the types of the payload."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

import pyarrow as pa

from dpone_core.connectors._arrow.types import arrow_schema
from dpone_core.connectors.mssql.catalog import table_columns
from dpone_core.connectors.mssql.session import Session
from dpone_core.connectors.mssql.source.child import SourceValueError
from dpone_core.connectors.mssql.source.reader import MssqlStream
from dpone_core.connectors.mssql.source.selection import Selection
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.sink import StagedHandle

from .catalog import qualify
from .database import Database

UNREADABLE: Final = "staged_rows_unreadable"


class MssqlStagedRows:
    """StagedRowsPort. The type of a staged column decides how it is read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def arrow_schema(self, payload: TableSchema) -> pa.Schema:
        return arrow_schema(payload)

    def read_back(self, handle: StagedHandle) -> Iterator[pa.RecordBatch]:
        schema = self._readable(handle)
        rows = 0
        chosen = Selection(text=f"FROM {qualify(handle.table)} AS dpone_staged")
        with (
            closing(Session(self._database.address)) as session,
            closing(MssqlStream(session, chosen, schema)) as stream,
        ):
            try:
                for batch in stream.batches():
                    rows += batch.num_rows
                    yield batch
            except SourceValueError as error:
                raise ConnectorError(error.message, code=UNREADABLE, fix=error.fix) from error
        if rows != handle.staged_rows:
            raise ConnectorError(f"only {rows} of {handle.staged_rows} staged rows were read back", code=UNREADABLE)

    def _readable(self, handle: StagedHandle) -> TableSchema:
        stored = {column.name: column.type.native for column in table_columns(self._database.rows, handle.table)}
        if not stored:
            raise ConnectorError("the staging table of this load does not exist any more", code=UNREADABLE)
        return TableSchema(
            columns=tuple(
                replace(column, type=replace(column.type, native=stored.get(column.name, "")))
                for column in handle.payload_schema.columns
            )
        )
