"""A CSV file as blocks of whole records, checked for what a parser would guess about (RFC 4180).

Arrow's parser reads `"a"b` as `ab` and an empty line as a row of empty values. Here a quote opens a value only at its
start and closes it only at its end, lines end by LF or CRLF, and no line is empty in a file of several columns.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from .text_blocks import BLOCK_BYTES, MAX_ROW_BYTES, UTF8_HINT, refuse_byte_order_mark, syntax_error

_QUOTE: Final = 0x22
_SUSPECT: Final = re.compile(rb"(?<=\n)\r?\n|\r(?!\n)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvBlock:
    """Whole records; `first_line` is where the first of them begins."""

    content: bytes
    first_line: int

    def line_of(self, record: int) -> int:
        """The line of the file on which a record begins; quotes are balanced at the end of records only."""
        quotes, begun = 0, 0
        for offset, line in enumerate(self.content.split(b"\n")):
            if begun == record and quotes % 2 == 0:
                return self.first_line + offset
            quotes += line.count(b'"')
            begun += quotes % 2 == 0
        return self.first_line


class CsvText:
    """Reads the header line at once and the records by `blocks`; `names` is () without a header."""

    def __init__(self, raw: pa.NativeFile, *, file: int, delimiter: str, header: bool) -> None:
        self._raw = raw
        self._file = file
        self._delimiter = delimiter
        self._edges = pa.array([ord(delimiter), 0x0A, 0x0D, _QUOTE], pa.uint8())
        self._rest: bytes = raw.read(BLOCK_BYTES)
        self._line = 1
        refuse_byte_order_mark(self._rest, file)
        self.names = self._header() if header else ()

    def blocks(self, columns: int) -> Iterator[CsvBlock]:
        ended = False
        while not ended:
            more = self._raw.read(BLOCK_BYTES)
            ended = not more
            self._rest += more
            end = _whole_records(self._rest)
            if end:
                yield self._check(self._rest[:end], columns)
                self._rest = self._rest[end:]
            elif len(self._rest) > MAX_ROW_BYTES:
                self._refuse_quotes(b"\n" + self._rest + b"\n")
                raise syntax_error(self._file, self._line, f"a row is longer than {MAX_ROW_BYTES} bytes")
        if self._rest:
            yield self._check(self._rest, columns)
            self._rest = b""

    def _header(self) -> tuple[str, ...]:
        end = self._rest.find(b"\n") + 1
        while end and self._rest.count(b'"', 0, end) % 2:
            end = self._rest.find(b"\n", end) + 1
        if not end and len(self._rest) >= BLOCK_BYTES:
            raise syntax_error(self._file, 1, "the header line does not end")
        end = end or len(self._rest)
        line, self._rest = self._rest[:end], self._rest[end:]
        if not line:
            raise syntax_error(self._file, 1, "the file is empty: not even a header line", "write at least the header")
        if line.count(b"\r") > line.count(b"\r\n") and b'"' not in line:
            raise syntax_error(self._file, 1, "the line ends with a carriage return alone", "use LF or CRLF")
        try:
            text = io.StringIO(line.decode("utf-8"), newline="")
            (names,) = csv.reader(text, delimiter=self._delimiter, strict=True)
        except UnicodeDecodeError as error:
            raise syntax_error(self._file, 1, "the header line is not UTF-8", UTF8_HINT) from error
        except (csv.Error, ValueError) as error:
            raise syntax_error(self._file, 1, "the header line is not CSV") from error
        if not all(names):
            raise syntax_error(self._file, 1, "a column of the header has no name")
        if len(set(names)) != len(names):
            raise syntax_error(self._file, 1, "the header names a column twice")
        self._line += line.count(b"\n")
        return tuple(names)

    def _check(self, content: bytes, columns: int) -> CsvBlock:
        """Checks whole records and returns them as a block; `window` has a line end on both sides."""
        window = b"\n" + content + b"\n"
        self._refuse_quotes(window)
        self._refuse_line_ends(window, columns)
        block = CsvBlock(content=content, first_line=self._line)
        self._line += content.count(b"\n")
        return block

    def _refuse_line_ends(self, window: bytes, columns: int) -> None:
        blank = columns != 1 and (b"\n\n" in window[:-1] or b"\n\r\n" in window[:-1])
        if not blank and window.count(b"\r") == window.count(b"\r\n"):
            return
        seen, quotes = 0, 0
        for match in _SUSPECT.finditer(window, 1, len(window) - 1):
            position = match.start()
            quotes += window.count(b'"', seen, position)
            seen = position
            if quotes % 2:
                continue
            if match.group() == b"\r" and window[position + 1 : position + 2] != b"\n":
                raise self._malformed_error(
                    window, position, "the line ends with a carriage return alone", "use LF or CRLF"
                )
            if columns != 1:
                raise self._malformed_error(window, position, "the line is empty")

    def _refuse_quotes(self, window: bytes) -> None:
        if b'"' not in window:
            return
        octets = pa.Array.from_buffers(pa.uint8(), len(window), [None, pa.py_buffer(window)])
        found = pc.indices_nonzero(pc.equal(octets, _QUOTE))
        positions = memoryview(found.buffers()[1])[: 8 * len(found)].cast("Q")
        opening, closing = positions[::2], positions[1::2]
        self._refuse_beside(window, octets, opening, -1, "a quote stands inside a value that has none around it")
        self._refuse_beside(window, octets, closing, 1, "a value goes on after its closing quote")
        if len(positions) % 2:
            raise self._malformed_error(window, positions[-1], "a quoted value never ends")

    def _refuse_beside(
        self, window: bytes, octets: pa.Array, quotes: memoryview[int], neighbour: int, what: str
    ) -> None:
        """Raises unless the neighbour of every quote on that side is a delimiter, a line end or another quote."""
        if not len(quotes):
            return
        packed = pa.Array.from_buffers(pa.int64(), len(quotes), [None, pa.py_buffer(quotes.tobytes())])
        proper = pc.is_in(pc.take(octets, pc.add(packed, neighbour)), value_set=self._edges)
        if not pc.all(proper).as_py():
            raise self._malformed_error(window, quotes[pc.index(proper, False).as_py()], what)

    def _malformed_error(self, window: bytes, position: int, what: str, fix: str | None = None) -> Exception:
        line = self._line + window.count(b"\n", 1, position)
        return syntax_error(self._file, line, what, fix) if fix else syntax_error(self._file, line, what)


def _whole_records(content: bytes) -> int:
    """The position after the last whole record; 0 when there is none. The content begins with a record."""
    end, quotes = len(content), content.count(b'"')
    while end:
        line_end = content.rfind(b"\n", 0, end) + 1
        quotes -= content.count(b'"', line_end, end)
        if quotes % 2 == 0:
            return line_end
        end = line_end - 1 if line_end else 0
    return 0
