"""Reading Parquet: one file, a directory (recursive `*.parquet`) or a glob, in path order, batch by batch.

In a directory names that begin with a dot or an underscore are skipped: writers keep unpublished files there. All
files must have one schema; a differing one is refused by its position, never by its path. Nested columns are reported
as unsupported. Memory is bounded by a row group's pages plus one batch.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpone_core.connectors._arrow.cast import MAX_BATCH_ROWS, StrictCast
from dpone_core.connectors._arrow.types import arrow_type, column_type, table_schema
from dpone_core.connectors._sql.schema_rules import check_columns, foreign_error
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import CursorWindow, ExtractRequest

_OFFSET: Final = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")
CURSOR_KINDS: Final = frozenset(
    {kind for kind in ColumnKind if kind.value.startswith(("int", "uint"))}
    | {ColumnKind.STRING, ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ}
)


class ParquetSource:
    """SourcePort over Parquet files; `base` anchors relative paths."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def describe(self, request: ExtractRequest) -> TableSchema:
        files = self.files(request)
        first = _schema_of(files[0], 0)
        for index, path in enumerate(files[1:], start=1):
            _refuse_difference(first, _schema_of(path, index), index)
        return table_schema(first)

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> ParquetStream:
        check_columns(schema)
        return ParquetStream(self.files(request), schema, request.window)

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        schema = self.describe(request)
        cursor = cursor_column(schema, column)
        greatest: pa.Scalar | None = None
        for batch in ParquetStream(self.files(request), TableSchema(columns=(cursor,)), None).batches():
            found = pc.max(batch.column(0))
            if found.is_valid and (greatest is None or pc.greater(found, greatest).as_py()):
                greatest = found
        return None if greatest is None else cursor_text(greatest)

    def files(self, request: ExtractRequest) -> tuple[Path, ...]:
        """Matching files in path order; ConnectorError `source_object_not_found` when there are none."""
        if request.path is None or request.format not in (None, "parquet"):
            raise ConnectorError("the files source reads a path of format parquet", code="source_request_invalid")
        path = self._base / request.path
        if path.is_dir():
            found = [child for child in path.rglob("*.parquet") if child.is_file() and not _is_hidden(child, path)]
        elif path.is_file():
            found = [path]
        else:
            found = [child for child in map(Path, glob.glob(str(path), recursive=True)) if child.is_file()]
        if not found:
            raise ConnectorError("no file matches the path of the source", code="source_object_not_found")
        return tuple(sorted(found))


def _is_hidden(path: Path, directory: Path) -> bool:
    return any(part[0] in "._" for part in path.relative_to(directory).parts)


class ParquetStream:
    """One pass over the files; only the schema's columns are decoded."""

    def __init__(self, files: tuple[Path, ...], schema: TableSchema, window: CursorWindow | None) -> None:
        self.schema = schema
        self._files = files
        self._window = window
        self._cast = StrictCast(schema, code="source_value_out_of_range")
        self._closed = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        for index, path in enumerate(self._files):
            for raw in self._raw_batches(path, index):
                if self._closed:
                    return
                batch = self._cast(raw.select(list(self.schema.names)))
                kept = batch if self._window is None else _within(batch, self.schema, self._window)
                if kept.num_rows:
                    yield kept

    def close(self) -> None:
        self._closed = True

    def _raw_batches(self, path: Path, index: int) -> Iterator[pa.RecordBatch]:
        wanted = [*self.schema.names]
        if self._window is not None and self._window.column not in wanted:
            raise ConnectorError("the cursor column is not read", code="source_request_invalid")
        try:
            with pq.ParquetFile(path, memory_map=True) as file:
                _refuse_other_columns(table_schema(file.schema_arrow), self.schema, index)
                yield from file.iter_batches(MAX_BATCH_ROWS, columns=wanted)
        except (pa.ArrowException, OSError) as error:
            raise foreign_error(error, f"file {index} of the source could not be read", "source_unreachable") from error


def cursor_column(schema: TableSchema, name: str) -> Column:
    column = schema.find(name)
    if column is None:
        raise ConnectorError(
            f"the cursor column {name!r} is not a column of the source",
            code="source_object_not_found",
            fix="a cursor is a column name, never an expression",
        )
    if column.type.kind not in CURSOR_KINDS:
        raise ConnectorError(f"{column.type} cannot be a cursor of files", code="source_column_unsupported")
    return column


def cursor_text(value: pa.Scalar) -> str:
    """`str()` of integers and text, ISO 8601 of times with every digit the type holds."""
    if pa.types.is_timestamp(value.type):
        zone = "+00:00" if value.type.tz else ""
        naive = value.cast(pa.timestamp(value.type.unit, value.type.tz))
        text: str = pc.strftime(naive, format="%Y-%m-%dT%H:%M:%S").as_py()
        return text + zone
    return str(value.as_py())


def _within(batch: pa.RecordBatch, schema: TableSchema, window: CursorWindow) -> pa.RecordBatch:
    column = cursor_column(schema, window.column)
    values = batch.column(window.column)
    keep: pa.Array | None = None
    if window.lower is not None:
        keep = pc.greater_equal(values, _bound(column, window.lower))
    if window.upper is not None:
        below = pc.less(values, _bound(column, window.upper))
        keep = below if keep is None else pc.and_(keep, below)
    return batch if keep is None else batch.filter(keep)


def _bound(column: Column, text: str) -> pa.Scalar:
    wanted = arrow_type(column.type)
    try:
        if column.type.kind is ColumnKind.TIMESTAMP_TZ and _OFFSET.search(text) is None:
            text += "+00:00"
        return pa.scalar(text).cast(wanted, safe=True)
    except (pa.ArrowException, ValueError) as error:
        raise ConnectorError(
            f"the cursor value of {column.name!r} is not a {column.type}", code="cursor_value_invalid"
        ) from error


def _schema_of(path: Path, index: int) -> pa.Schema:
    try:
        return pq.read_schema(path, memory_map=True)
    except (pa.ArrowException, OSError) as error:
        raise foreign_error(
            error, f"file {index} of the source is not readable Parquet", "source_unreachable"
        ) from error


def _refuse_difference(first: pa.Schema, other: pa.Schema, index: int) -> None:
    if first.names != other.names:
        raise ConnectorError(
            f"file {index} of the source has other columns than file 0", code="source_schema_inconsistent"
        )
    for ours, theirs in zip(first, other, strict=True):
        if not column_type(ours.type).same_values(column_type(theirs.type)) or ours.nullable != theirs.nullable:
            raise ConnectorError(
                f"column {ours.name!r}: file {index} of the source has another type than file 0",
                code="source_schema_inconsistent",
            )


def _refuse_other_columns(found: TableSchema, wanted: TableSchema, index: int) -> None:
    for column in wanted.columns:
        if found.find(column.name) is None:
            raise ConnectorError(
                f"column {column.name!r} is missing from file {index} of the source", code="source_schema_inconsistent"
            )
