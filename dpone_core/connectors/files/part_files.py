"""Writes and reads one data file of a target in its format, with the cast that keeps every value exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpone_core.connectors._arrow.cast import MAX_BATCH_ROWS, StrictCast, limit_batch_rows
from dpone_core.connectors._arrow.types import arrow_schema
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import ColumnKind, TableSchema

from . import csv_format, ndjson_format
from .text_blocks import MAX_ROW_BYTES
from .text_values import VALUE_REFUSED

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""A longer row would not fit what is read back at once: twice as long, `MAX_ROW_BYTES`."""
_UNREADABLE: Final = "written_rows_unreadable"


class PartWriter(Protocol):
    """Writes one file. It is durable only after the caller has synced it."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def open_part(path: Path, file_format: str, schema: TableSchema) -> PartWriter:
    """Creates the file. Without rows it is valid too: it holds the schema, the header line, or nothing, as the format
    requires."""
    return _ParquetPart(path, schema) if file_format == "parquet" else _TextPart(path, file_format, schema)


def read_part(path: Path, schema: TableSchema) -> Iterator[pa.RecordBatch]:
    """Batches of at most 65,536 rows in the schema's Arrow types; columns that the file lacks are NULL."""
    cast = StrictCast(schema, code=_UNREADABLE)
    try:
        for batch in limit_batch_rows(_raw_batches(path, schema)):
            yield cast(_add_missing_columns(batch, schema))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ConnectorError("a data file of the target cannot be read back", code=_UNREADABLE) from error


def rows_of(path: Path) -> int | None:
    """The number of rows from the file's footer; None where only reading the whole file would tell."""
    if path.suffix != ".parquet":
        return None
    try:
        with pq.ParquetFile(path) as file:
            return int(file.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise ConnectorError("a data file of the target cannot be read back", code=_UNREADABLE) from error


class _ParquetPart:
    def __init__(self, path: Path, schema: TableSchema) -> None:
        self._schema = _parquet_schema(schema)
        self._writer = pq.ParquetWriter(path, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [
            pa.ExtensionArray.from_storage(field.type, values) if isinstance(field.type, pa.UuidType) else values
            for field, values in zip(self._schema, batch.columns, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


class _TextPart:
    def __init__(self, path: Path, file_format: str, schema: TableSchema) -> None:
        self._schema = schema
        self._lines_of = csv_format.lines_of if file_format == "csv" else ndjson_format.lines_of
        self._file: IO[bytes] = open(path, "wb")  # noqa: SIM115 - closed by close()
        if file_format == "csv":
            self._file.write(csv_format.header(schema))

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        lines = self._lines_of(batch, self._schema)
        if pc.max(pc.binary_length(lines)).as_py() > MAX_LINE_BYTES:
            raise ConnectorError(f"a row is longer than {MAX_LINE_BYTES} bytes of text", code=VALUE_REFUSED)
        self._file.write(b"".join(lines.cast(pa.binary()).to_pylist()))

    def close(self) -> None:
        self._file.close()


def _raw_batches(path: Path, schema: TableSchema) -> Iterator[pa.RecordBatch]:
    match path.suffix:
        case ".parquet":
            with pq.ParquetFile(path, memory_map=True) as file:
                present = [name for name in schema.names if name in file.schema_arrow.names]
                yield from file.iter_batches(MAX_BATCH_ROWS, columns=present or None)
        case ".csv":
            yield from csv_format.batches_of(path, schema)
        case _:
            yield from ndjson_format.batches_of(path, schema, MAX_ROW_BYTES)


def _add_missing_columns(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    present = set(batch.schema.names)
    arrays = [batch.column(name) if name in present else pa.nulls(batch.num_rows) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=list(schema.names))


def _parquet_schema(schema: TableSchema) -> pa.Schema:
    arrow = arrow_schema(schema)
    for index, column in enumerate(schema.columns):
        if column.type.kind is ColumnKind.UUID:
            arrow = arrow.set(index, pa.field(column.name, pa.uuid(), nullable=column.nullable))
    return arrow
