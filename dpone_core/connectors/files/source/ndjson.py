"""NDJSON files as batches: one object per line, declared columns only, absent keys told apart from null.

Numbers are parsed from their digits, never by way of a float. Strings of the kinds that JSON does not know (times,
UUIDs, bytes) stay text here; decoding is the stream's. Arrow's parser forgives what NDJSON does not allow (several
objects on a line, NaN, an absent key read as null), so each block is checked beside it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from functools import partial
from operator import add
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.connectors.files.text_blocks import (
    BLOCK_BYTES,
    MAX_ROW_BYTES,
    TextRows,
    misfit,
    open_text,
    refuse_byte_order_mark,
    syntax_error,
)
from dpone_core.errors import ConnectorError
from dpone_core.model.file_reading import MissingKeys
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema

_FLOATS: Final = frozenset({ColumnKind.FLOAT32, ColumnKind.FLOAT64})
_OBJECT_LINE: Final = r"^[ \t]*\{.*\}[ \t]*\r?$"


def ndjson_rows(path: Path, index: int, declared: TableSchema, missing: MissingKeys) -> Iterator[TextRows]:
    """Batches of all declared columns; a row is a line."""
    read_as = pa.schema([(column.name, _parsed_type(column.type)) for column in declared.columns])
    first = 1
    with open_text(path, index) as file:
        for block in _blocks(file, index):
            lines = _lines_of(block)
            batch = _Block(index, first, lines, declared, missing).batch(block, read_as)
            yield TextRows(batch=batch, line_of=partial(add, first))
            first += len(lines)


def _parsed_type(column: ColumnType) -> pa.DataType:
    kind = column.kind
    native = kind in _FLOATS or kind in (ColumnKind.BOOLEAN, ColumnKind.DECIMAL) or "int" in kind.value
    return arrow_type(column) if native else pa.string()


def _blocks(file: pa.NativeFile, index: int) -> Iterator[bytes]:
    """Whole lines, at least one."""
    rest = file.read(BLOCK_BYTES)
    refuse_byte_order_mark(rest, index)
    line = 1
    more = rest
    while more:
        end = rest.rfind(b"\n") + 1
        if end:
            yield rest[:end]
            line += rest.count(b"\n", 0, end)
            rest = rest[end:]
        elif len(rest) > MAX_ROW_BYTES:
            raise syntax_error(index, line, f"a line is longer than {MAX_ROW_BYTES} bytes")
        more = file.read(BLOCK_BYTES)
        rest += more
    if rest:
        yield rest


def _lines_of(block: bytes) -> pa.Array:
    lines = pc.split_pattern(pa.array([block], pa.large_binary()), "\n").flatten()
    return lines.slice(0, len(lines) - 1) if block.endswith(b"\n") else lines


class _Block:
    """One block of lines; `first` is the number of its first line."""

    def __init__(self, file: int, first: int, lines: pa.Array, declared: TableSchema, missing: MissingKeys) -> None:
        self._file = file
        self._first = first
        self._lines = lines
        self._declared = declared
        self._missing = missing

    def batch(self, block: bytes, read_as: pa.Schema) -> pa.RecordBatch:
        texts = self._texts()
        self._require_objects(texts)
        try:
            table = pa.json.read_json(
                io.BytesIO(block),
                read_options=pa.json.ReadOptions(block_size=len(block) + 1, use_threads=False),
                parse_options=pa.json.ParseOptions(explicit_schema=read_as, unexpected_field_behavior="error"),
            )
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise self._explain(texts) from error
        if table.num_rows != len(texts):
            raise self._explain(texts)
        (batch,) = table.select(read_as.names).combine_chunks().to_batches()
        self._require_finite(batch)
        if self._missing is MissingKeys.REFUSE:
            self._require_keys(batch, texts)
        return batch

    def _texts(self) -> pa.Array:
        try:
            return self._lines.cast(pa.large_string())
        except pa.ArrowException as error:
            for offset, line in enumerate(self._lines.to_pylist()):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError:
                    raise syntax_error(self._file, self._first + offset, "the line is not UTF-8") from error
            raise

    def _require_objects(self, texts: pa.Array) -> None:
        whole = pc.match_substring_regex(texts, _OBJECT_LINE)
        if not pc.all(whole).as_py():
            offset = pc.index(whole, False).as_py()
            raise syntax_error(self._file, self._first + offset, "the line is not one JSON object")

    def _require_finite(self, batch: pa.RecordBatch) -> None:
        for column, values in zip(self._declared.columns, batch.columns, strict=True):
            if column.type.kind in _FLOATS and pc.all(pc.is_finite(values)).as_py() is False:
                offset = pc.index(pc.is_finite(values), False).as_py()
                raise misfit(self._file, self._first + offset, column, "the value is not a finite number")

    def _require_keys(self, batch: pa.RecordBatch, texts: pa.Array) -> None:
        """Raises unless each NULL has its key on the line; an escaped key is found by a full parse."""
        for column, values in zip(self._declared.columns, batch.columns, strict=True):
            if not values.null_count:
                continue
            key = re.escape(json.dumps(column.name, ensure_ascii=False))
            doubtful = pc.and_(pc.is_null(values), pc.invert(pc.match_substring_regex(texts, rf"{key}\s*:")))
            for offset in pc.indices_nonzero(doubtful).to_pylist():
                if column.name not in json.loads(texts[offset].as_py()):
                    raise misfit(
                        self._file, self._first + offset, column, "the key is absent; only null counts as NULL"
                    )

    def _explain(self, texts: pa.Array) -> ConnectorError:
        """The error of the first line that a strict parser refuses, with the reason."""
        for offset, text in enumerate(texts.to_pylist()):
            line = self._first + offset
            try:
                members = json.loads(text, object_pairs_hook=list, parse_constant=_refuse_constant, parse_float=_Number,
                                     parse_int=_Number)  # fmt: skip
            except (ValueError, RecursionError):
                return syntax_error(self._file, line, "the line is not one JSON object")
            refusal = self._refusal(line, members)
            if refusal is not None:
                return refusal
        return syntax_error(self._file, self._first, "a line from here on is not NDJSON of the declared columns")

    def _refusal(self, line: int, members: list[tuple[str, Any]]) -> ConnectorError | None:
        seen: set[str] = set()
        for name, value in members:
            column = self._declared.find(name)
            if column is None:
                return syntax_error(self._file, line, f"the key {name!r} is not a declared column", "declare it")
            if name in seen:
                return syntax_error(self._file, line, f"the key {name!r} stands twice")
            seen.add(name)
            if isinstance(value, list):
                return misfit(self._file, line, column, "a nested value is not read")
            if value is not None and not _fits(column, value):
                return misfit(self._file, line, column)
        return None


class _Number(str):
    """A number, kept as its digits."""


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _fits(column: Column, value: object) -> bool:
    wanted = _parsed_type(column.type)
    if isinstance(value, bool):
        return bool(wanted == pa.bool_())
    if wanted == pa.bool_() or not isinstance(value, str):
        return False
    is_number = isinstance(value, _Number)
    if wanted == pa.string():
        return not is_number
    if not is_number and not pa.types.is_decimal(wanted):
        return False
    try:
        parsed = pa.array([str(value)], pa.string()).cast(wanted, safe=True)
    except pa.ArrowException:
        return False
    return not pa.types.is_floating(wanted) or bool(pc.all(pc.is_finite(parsed)).as_py())
