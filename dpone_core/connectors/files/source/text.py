"""Reading CSV and NDJSON: declared types, decoded exactly, and refused by file, line and column.

Types are never guessed from rows: a CSV file without declared columns is text, and NDJSON needs them declared. Memory
is bounded by a block of text, whatever the size of a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.connectors._arrow.cast import StrictCast
from dpone_core.connectors._sql.schema_rules import check_columns
from dpone_core.connectors.files.csv_reader import csv_rows, csv_schema
from dpone_core.connectors.files.text_blocks import NO_UTF8, OUT_OF_RANGE, TextRows, misfit
from dpone_core.connectors.files.text_values import parse_values
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import ExtractRequest

from .cursor import file_cursor, greatest_of, rows_in_window
from .declared import apply_not_null
from .listing import matching_files
from .ndjson import ndjson_rows

_HEXADECIMAL: Final = "[xX]"
_INFINITE: Final = "(?i)inf"
_FLOATS: Final = frozenset({ColumnKind.FLOAT32, ColumnKind.FLOAT64})


class TextSource:
    """SourcePort over CSV and NDJSON files; relative paths are below `base`."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def describe(self, request: ExtractRequest) -> TableSchema:
        files = matching_files(self._base, request)
        return apply_not_null(_columns(files, request), request.reading.not_null)

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> TextStream:
        check_columns(schema)
        return TextStream(self._base, request, schema)

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        cursor = file_cursor(self.describe(request), column)
        return greatest_of(TextStream(self._base, request, TableSchema(columns=(cursor,)), windowed=False).batches())


def _columns(files: tuple[Path, ...], request: ExtractRequest) -> TableSchema:
    if request.format == "csv":
        return csv_schema(files, request.reading)
    if not request.reading.columns:
        raise ConnectorError("NDJSON columns are not declared", code="source_request_invalid")
    return TableSchema(columns=request.reading.columns)


class TextStream:
    """Reads the files once; only the columns of the schema are decoded."""

    def __init__(self, base: Path, request: ExtractRequest, schema: TableSchema, *, windowed: bool = True) -> None:
        self.schema = schema
        self._files = matching_files(base, request)
        self._request = request
        self._window = request.window if windowed else None
        self._closed = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        declared = _columns(self._files, self._request)
        for index, path in enumerate(self._files):
            decoder = _Decoder(index, self.schema)
            for block in self._blocks(path, index, declared):
                for rows in block.slices():
                    if self._closed:
                        return
                    batch = decoder.batch(rows)
                    kept = batch if self._window is None else rows_in_window(batch, self.schema, self._window)
                    if kept.num_rows:
                        yield kept

    def close(self) -> None:
        self._closed = True

    def _blocks(self, path: Path, index: int, declared: TableSchema) -> Iterator[TextRows]:
        reading = self._request.reading
        if self._request.format == "csv":
            return csv_rows(path, index, declared.names, self.schema.names, reading.csv)
        return ndjson_rows(path, index, declared, reading.missing)


class _Decoder:
    """Decodes the batches of one file in order, or names the line and column of the first value that does not fit."""

    def __init__(self, index: int, schema: TableSchema) -> None:
        self._index = index
        self._schema = schema
        self._cast = StrictCast(schema, code=OUT_OF_RANGE)

    def batch(self, rows: TextRows) -> pa.RecordBatch:
        columns = [self._column(number, rows) for number in range(len(self._schema.columns))]
        return pa.RecordBatch.from_arrays(columns, schema=self._cast.arrow_schema)

    def _column(self, number: int, rows: TextRows) -> pa.Array:
        column = self._schema.columns[number]
        texts = rows.batch.column(column.name)
        try:
            return self._cast.column(number, _decode(texts, column))
        except (ConnectorError, pa.ArrowException, ValueError) as error:
            raise self._misfit(column, texts, rows) from error

    def _misfit(self, column: Column, texts: pa.Array, rows: TextRows) -> ConnectorError:
        """The error of the first value in the batch that does not fit, found by halving the batch."""
        if not column.nullable and texts.null_count:
            line = rows.line_of(pc.index(pc.is_null(texts), True).as_py())
            return misfit(self._index, line, column, "NULL in a column that is declared not nullable")
        low, high = 0, len(texts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _fits(texts.slice(low, middle - low), column) else (low, middle)
        return misfit(self._index, rows.line_of(low), column, None if _is_utf8(texts.slice(low, 1)) else NO_UTF8)


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.cast(pa.string())
    except pa.ArrowException:
        return False
    return True


def _fits(texts: pa.Array, column: Column) -> bool:
    try:
        StrictCast(TableSchema(columns=(column,)), code=OUT_OF_RANGE).column(0, _decode(texts, column))
    except (ConnectorError, pa.ArrowException, ValueError):
        return False
    return True


def _decode(texts: pa.Array, column: Column) -> pa.Array:
    """The values of texts; columns that the file's own parser has decoded stay unchanged."""
    if pa.types.is_binary(texts.type):
        texts = texts.cast(pa.string())
    if not pa.types.is_string(texts.type):
        return texts
    if "int" in column.type.kind.value and pc.any(pc.match_substring_regex(texts, _HEXADECIMAL)).as_py():
        raise ValueError("hexadecimal digits")
    values = parse_values(texts, column.type)
    if column.type.kind in _FLOATS:
        endless = pc.and_(pc.is_inf(values), pc.invert(pc.match_substring_regex(texts, _INFINITE)))
        if pc.any(endless).as_py():
            raise ValueError("a number beyond the type")
    return values
