"""Files as a source: each format has its reader, behind one port."""

from __future__ import annotations

from pathlib import Path

from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.source import BatchStream, ExtractRequest, SourcePort

from .parquet import ParquetSource
from .text import TextSource


class FilesSource:
    """SourcePort over files of every format; relative paths are below `base`."""

    def __init__(self, base: Path) -> None:
        self._parquet = ParquetSource(base)
        self._text = TextSource(base)

    def describe(self, request: ExtractRequest) -> TableSchema:
        return self._reader_of(request).describe(request)

    def open_stream(self, request: ExtractRequest, schema: TableSchema) -> BatchStream:
        return self._reader_of(request).open_stream(request, schema)

    def cursor_maximum(self, request: ExtractRequest, column: str) -> str | None:
        return self._reader_of(request).cursor_maximum(request, column)

    def _reader_of(self, request: ExtractRequest) -> SourcePort:
        return self._text if request.format in ("csv", "ndjson") else self._parquet
