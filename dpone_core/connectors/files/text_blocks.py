"""Text files in blocks of whole lines or records, decompressed by extension, with the line number of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from dpone_core.connectors._arrow.cast import MAX_BATCH_ROWS
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column

BLOCK_BYTES: Final = 4 * 1024 * 1024
MAX_ROW_BYTES: Final = 32 * 1024 * 1024
COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}
UTF8_HINT: Final = "convert the files to UTF-8, for example with iconv -f LATIN1 -t UTF-8"
POSITION_HINT: Final = "correct the line or the declaration; files count from 0 in path order"
OUT_OF_RANGE: Final = "source_value_out_of_range"
_BYTE_ORDER_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
NO_UTF8: Final = "a text is not UTF-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRows:
    """Rows of one block; `line_of` gives the line of the file on which a row of the batch begins."""

    batch: pa.RecordBatch
    line_of: Callable[[int], int]

    def slices(self) -> Iterator[TextRows]:
        """The same rows, at most MAX_BATCH_ROWS at a time."""
        for start in range(0, self.batch.num_rows, MAX_BATCH_ROWS):
            yield TextRows(batch=self.batch.slice(start, MAX_BATCH_ROWS), line_of=partial(self._line_after, start))

    def _line_after(self, start: int, row: int) -> int:
        return self.line_of(start + row)


@contextmanager
def open_text(path: Path, file: int) -> Iterator[pa.NativeFile]:
    """Opens a file for sequential reads; `source_unreachable` when it is unreadable or its compression is cut."""
    try:
        with pa.OSFile(str(path), "rb") as raw:
            compression = COMPRESSIONS.get(path.suffix)
            if compression is None:
                yield raw
                return
            with pa.CompressedInputStream(raw, compression) as plain:
                yield plain
    except OSError as error:
        raise foreign_error(error, f"file {file} of the source could not be read", "source_unreachable") from error


def refuse_byte_order_mark(content: bytes, file: int) -> None:
    if content.startswith(_BYTE_ORDER_MARKS):
        raise syntax_error(file, 1, "the file begins with a byte order mark", "save it as UTF-8 without one")


def syntax_error(file: int, line: int, what: str, fix: str = POSITION_HINT) -> ConnectorError:
    """The error of a file that breaks the rules of its format from the given line on."""
    return ConnectorError(f"file {file} of the source, line {line}: {what}", code="source_file_malformed", fix=fix)


def misfit(file: int, line: int, column: Column, what: str | None = None) -> ConnectorError:
    """The error of a value that its column cannot hold."""
    reason = what or f"a value does not fit {column.type}"
    return ConnectorError(
        f"file {file} of the source, line {line}, column {column.name!r}: {reason}",
        code=OUT_OF_RANGE,
        fix=UTF8_HINT if what == NO_UTF8 else POSITION_HINT,
    )
