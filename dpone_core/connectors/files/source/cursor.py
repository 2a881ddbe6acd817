"""The cursor of files: which kinds are allowed, its text, and the rows of a batch that lie in a window."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.connectors._sql.extract import cursor_column
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema
from dpone_core.ports.source import CursorWindow

_OFFSET: Final = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")
CURSOR_KINDS: Final = frozenset(
    {kind for kind in ColumnKind if kind.value.startswith(("int", "uint"))}
    | {ColumnKind.STRING, ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ}
)


def file_cursor(schema: TableSchema, name: str) -> Column:
    return cursor_column(schema, name, CURSOR_KINDS, "files")


def greatest_of(batches: Iterable[pa.RecordBatch]) -> str | None:
    """The greatest value of a stream of one column, as `CursorWindow` text."""
    greatest: pa.Scalar | None = None
    for batch in batches:
        found = pc.max(batch.column(0))
        if found.is_valid and (greatest is None or pc.greater(found, greatest).as_py()):
            greatest = found
    return None if greatest is None else cursor_text(greatest)


def cursor_text(value: pa.Scalar) -> str:
    """`str()` of integers and text, ISO 8601 of times with every digit the type holds."""
    if pa.types.is_timestamp(value.type):
        zone = "+00:00" if value.type.tz else ""
        naive = value.cast(pa.timestamp(value.type.unit, value.type.tz))
        text: str = pc.strftime(naive, format="%Y-%m-%dT%H:%M:%S").as_py()
        return text + zone
    return str(value.as_py())


def rows_in_window(batch: pa.RecordBatch, schema: TableSchema, window: CursorWindow) -> pa.RecordBatch:
    """The rows of the batch whose cursor lies in the window."""
    column = file_cursor(schema, window.column)
    values = batch.column(window.column)
    keep: pa.Array | None = None
    if window.lower is not None:
        keep = pc.greater_equal(values, _bound_scalar(column, window.lower))
    if window.upper is not None:
        below = pc.less(values, _bound_scalar(column, window.upper))
        keep = below if keep is None else pc.and_(keep, below)
    return batch if keep is None else batch.filter(keep)


def _bound_scalar(column: Column, text: str) -> pa.Scalar:
    wanted = arrow_type(column.type)
    try:
        if column.type.kind is ColumnKind.TIMESTAMP_TZ and _OFFSET.search(text) is None:
            text += "+00:00"
        return pa.scalar(text).cast(wanted, safe=True)
    except (pa.ArrowException, ValueError) as error:
        raise ConnectorError(
            f"the cursor value of {column.name!r} is not a {column.type}", code="cursor_value_invalid"
        ) from error
