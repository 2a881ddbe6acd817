"""Reading Parquet batch by batch.

The files have one schema, by the names of columns; what differs is refused by the position of the file, never by its
path, or widened where the manifest says so. Nested columns are reported as unsupported. Memory is bounded by a row
group's pages plus one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from dpone_core.connectors._arrow.cast import MAX_BATCH_ROWS, StrictCast
from dpone_core.connectors._sql.schema_rules import check_columns, foreign_error
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.source import CursorWindow, ExtractRequest

from .cursor import file_cursor, greatest_of, rows_in_window
from .data_set import data_set_schema
from .declared import apply_not_null
from .key_filter import KeyFilter
from .listing import matching_files

_READ_BUFFER_BYTES: Final = 256 << 10
"""Per column. A mapped file counts as memory of this process, and one that is buffered ahead stays there as a whole."""


class ParquetSource:
    """SourcePort over Parquet files; relative paths are below `base`."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def describe(self, request: ExtractRequest) -> TableSchema:
        files = matching_files(self._base, request)
        schemas = [_schema_of(path, index) for index, path in enumerate(files)]
        found = data_set_schema(schemas, widen=request.reading.widen)
        return apply_not_null(found, request.reading.not_null)

    def open_stream(
        self, request: ExtractRequest, schema: TableSchema, *, keys: KeyFilter | None = None
    ) -> ParquetStream:
        check_columns(schema)
        files = matching_files(self._base, request)
        return ParquetStream(files, schema, request.window, keys, widen=request.reading.widen)

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        schema = self.describe(request)
        cursor = file_cursor(schema, column)
        files = matching_files(self._base, request)
        read = ParquetStream(files, TableSchema(columns=(cursor,)), None, widen=request.reading.widen)
        return greatest_of(read.batches())


class ParquetStream:
    """Reads the files once; only the columns of the schema are decoded."""

    def __init__(
        self,
        files: tuple[Path, ...],
        schema: TableSchema,
        window: CursorWindow | None,
        keys: KeyFilter | None = None,
        *,
        widen: bool = False,
    ) -> None:
        self.schema = schema
        self._files = files
        self._window = window
        self._keys = keys
        self._widen = widen
        self._cast = StrictCast(schema, code="source_value_out_of_range")
        self._closed = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        for index, path in enumerate(self._files):
            for raw in self._raw_batches(path, index):
                if self._closed:
                    return
                batch = self._cast(_with_absent_columns(raw, self.schema))
                kept = batch if self._window is None else rows_in_window(batch, self.schema, self._window)
                kept = kept if self._keys is None else self._keys(kept)
                if kept.num_rows:
                    yield kept

    def close(self) -> None:
        self._closed = True

    def expected_rows(self) -> int | None:
        """The number of rows in the files' footers."""
        if self._window is not None or self._keys is not None:
            return None
        try:
            return sum(int(pq.read_metadata(path, memory_map=True).num_rows) for path in self._files)
        except (pa.ArrowException, OSError):
            return None

    def _raw_batches(self, path: Path, index: int) -> Iterator[pa.RecordBatch]:
        wanted = [*self.schema.names]
        if self._window is not None and self._window.column not in wanted:
            raise ConnectorError(
                "the cursor column is not among the columns that are read", code="source_request_invalid"
            )
        try:
            with pq.ParquetFile(path, buffer_size=_READ_BUFFER_BYTES, pre_buffer=False) as file:
                held = frozenset(file.schema_arrow.names)
                present = [name for name in wanted if name in held]
                if not self._widen:
                    _refuse_absent(present, wanted, index)
                groups = None if self._keys is None else self._keys.row_groups(path)
                yield from file.iter_batches(
                    MAX_BATCH_ROWS, row_groups=groups, columns=present or file.schema_arrow.names[:1]
                )
        except (pa.ArrowException, OSError) as error:
            raise foreign_error(error, f"file {index} of the source could not be read", "source_unreachable") from error


def _schema_of(path: Path, index: int) -> pa.Schema:
    try:
        return pq.read_schema(path, memory_map=True)
    except (pa.ArrowException, OSError) as error:
        raise foreign_error(
            error, f"file {index} of the source is not readable Parquet", "source_unreachable"
        ) from error


def _refuse_absent(present: list[str], wanted: list[str], index: int) -> None:
    for name in wanted:
        if name not in present:
            raise ConnectorError(
                f"column {name!r} is missing from file {index} of the source", code="source_schema_inconsistent"
            )


def _with_absent_columns(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """The columns of the schema, NULL where the file has none of that name."""
    present = set(batch.schema.names)
    arrays = [batch.column(name) if name in present else pa.nulls(batch.num_rows) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=list(schema.names))
