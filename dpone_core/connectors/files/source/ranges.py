"""Key ranges of Parquet files. There is no snapshot: each range reads the files as they are at that time.

CSV and NDJSON have no ranges, because each range would decode every file completely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.connectors._sql.schema_rules import check_columns
from dpone_core.errors import ConnectorError
from dpone_core.model.partition import KeyBounds, KeyRange
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.source import ExtractRequest

from .key_filter import file_key, file_key_text, key_filter
from .parquet import ParquetSource, ParquetStream


class FilesRanges:
    """RangeSourcePort over Parquet files; any number of threads may read."""

    def __init__(self, source: ParquetSource) -> None:
        self._source = source

    @contextmanager
    def snapshot(self) -> Iterator[str | None]:
        yield None

    def key_bounds(self, request: ExtractRequest, schema: TableSchema, column: str, snapshot: str | None) -> KeyBounds:
        """The bounds, from decoding the key and the cursor of a window; statistics may be rounded."""
        _require_parquet(request)
        key, window = file_key(schema, column), request.window
        names = {key.name} if window is None else {key.name, window.column}
        read = TableSchema(columns=tuple(each for each in schema.columns if each.name in names))
        rows, least, greatest = 0, pa.scalar(None), pa.scalar(None)
        for batch in self._source.open_stream(request, read).batches():
            found = pc.min_max(batch.column(key.name))
            rows += batch.num_rows
            if found["min"].is_valid:
                least = _first(least, found["min"], pc.less)
                greatest = _first(greatest, found["max"], pc.greater)
        return KeyBounds(lower=file_key_text(key, least), upper=file_key_text(key, greatest), rows=rows)

    def open_range(
        self, request: ExtractRequest, schema: TableSchema, column: str, bounds: KeyRange, snapshot: str | None
    ) -> ParquetStream:
        _require_parquet(request)
        check_columns(schema)
        return self._source.open_stream(request, schema, keys=key_filter(schema, column, bounds))


def _first(known: pa.Scalar, found: pa.Scalar, before: Callable[..., pa.Scalar]) -> pa.Scalar:
    return found if not known.is_valid or before(found, known).as_py() else known


def _require_parquet(request: ExtractRequest) -> None:
    if request.format != "parquet":
        raise ConnectorError(
            f"{request.format} files cannot be split into ranges; Parquet files can",
            code="partition_key_unsupported",
            fix="use one reader",
        )
