"""Reads staged rows of ClickHouse back as Arrow, one page of one part at a time: the embedded engine cannot stream
Arrow.

Parts are immutable and merges are stopped meanwhile, so every row is read once. If a part vanished nevertheless, fewer
rows are read than were staged, which is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from dpone_core.connectors._arrow.cast import MAX_BATCH_ROWS, StrictCast, limit_batch_rows
from dpone_core.connectors._arrow.types import arrow_schema, unit_of
from dpone_core.connectors._sql.text import literal_backslash, quote_backtick
from dpone_core.connectors.clickhouse.catalog import schema_of
from dpone_core.connectors.clickhouse.ddl import qualify
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import NO_COLUMNS, Column, ColumnKind, TableSchema
from dpone_core.ports.sink import StagedHandle

PAGE_ROWS: Final = MAX_BATCH_ROWS
_UNREADABLE: Final = "staged_rows_unreadable"
_MOMENTS: Final = (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ)


class ClickHouseStagedRows:
    """StagedRowsPort; at most PAGE_ROWS rows are in memory."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def arrow_schema(self, payload: TableSchema) -> pa.Schema:
        return arrow_schema(payload)

    def read_back(self, handle: StagedHandle) -> Iterator[pa.RecordBatch]:
        schema, table = handle.payload_schema, qualify(handle.table)
        cast = StrictCast(schema, code=_UNREADABLE)
        stored = schema_of(self._session, handle.table) or NO_COLUMNS
        selected = ", ".join(_select_expression(column, stored) for column in schema.columns)
        rows = 0
        stopped = self._session.attempt(f"SYSTEM STOP MERGES {table}") is None
        try:
            for part, part_rows in self._parts(handle.table):
                for start in range(0, part_rows, PAGE_ROWS):
                    page = self._session.arrow(
                        f"SELECT {selected} FROM {table} AS staged WHERE _part = {literal_backslash(part)}"
                        f" AND _part_offset >= {start} AND _part_offset < {start + PAGE_ROWS}",
                        code=_UNREADABLE,
                        message="ClickHouse did not give staged rows back",
                    )
                    rows += page.num_rows
                    for batch in limit_batch_rows(page.to_batches()):
                        yield cast(_decode_batch(batch, schema))
        finally:
            if stopped:
                self._start_merges(table)
        if rows != handle.staged_rows:
            raise ConnectorError(f"only {rows} of {handle.staged_rows} staged rows were read back", code=_UNREADABLE)

    def _start_merges(self, table: str) -> None:
        """Starts the merges again, because the staging table becomes the target."""
        self._session.command(
            f"SYSTEM START MERGES {table}", code=_UNREADABLE, message="merges of staging could not be started again"
        )

    def _parts(self, table: TableName) -> list[tuple[str, int]]:
        rows = self._session.rows(
            "SELECT name, rows FROM system.parts WHERE database = {database:String} AND table = {name:String}"
            " AND active AND rows > 0 ORDER BY name",
            {"database": table.schema or "", "name": table.name},
        )
        return [(str(name), int(count)) for name, count in rows]


def _select_expression(column: Column, stored: TableSchema) -> str:
    """The SQL that reads a column as readers see it; Arrow output writes DateTime as a bare integer, and the ticks of a
    DateTime64 even where they are shown as another moment; nanoseconds reach no such moment."""
    quoted = quote_backtick(column.name)
    held = stored.find(column.name)
    if held is not None and held.type.native == "DateTime":
        return f"toDateTime64(staged.{quoted}, 0, 'UTC') AS {quoted}"
    if held is not None and held.type.native.startswith("DateTime64") and (held.type.fraction or 0) < 9:
        return f"toString(staged.{quoted}, 'UTC') AS {quoted}"
    return quoted


def _decode_batch(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """The batch in the payload's types; ClickHouse sends text as bytes and wall clocks as UTC instants. Moments come
    as text."""
    columns = []
    for column, values in zip(schema.columns, batch.columns, strict=True):
        if column.type.kind in _MOMENTS and not pa.types.is_timestamp(values.type):
            values = values.cast(pa.string()).cast(pa.timestamp(unit_of(column.type.fraction)))
            zone = "UTC" if column.type.kind is ColumnKind.TIMESTAMP_TZ else None
            columns.append(values.cast(pa.timestamp(values.type.unit, zone)))
            continue
        if column.type.kind is ColumnKind.STRING:
            values = values.cast(pa.string())
        elif column.type.kind is ColumnKind.TIMESTAMP:
            values = values.cast(pa.timestamp(values.type.unit))
        columns.append(values)
    return pa.RecordBatch.from_arrays(columns, names=list(schema.names))
