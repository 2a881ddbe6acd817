"""NDJSON: one JSON object per line, every column a key, UTF-8 unescaped beyond what JSON demands.

Integers, floats and booleans are JSON's own; decimals are texts in plain digits, because most readers turn numbers
into floats; so are times, UUIDs and bytes (hex). NULL is `null`. JSON has no NaN and no infinity: they are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.model.table_schema import ColumnKind, ColumnType, TableSchema

from .text_values import format_values, parse_values, value_refusal

_FLOATS: Final = frozenset({ColumnKind.FLOAT32, ColumnKind.FLOAT64})
_ESCAPES: Final = tuple((chr(code), json.dumps(chr(code))[1:-1]) for code in range(32))


def lines_of(batch: pa.RecordBatch, schema: TableSchema) -> pa.Array:
    """One text per row, with its line feed. Raises ConnectorError, naming the column, for NaN and infinities."""
    members = []
    for column, values in zip(schema.columns, batch.columns, strict=True):
        if column.type.kind in _FLOATS and pc.all(pc.is_finite(values)).as_py() is False:
            raise value_refusal(column)
        text = format_values(values, column)
        if column.type.kind is ColumnKind.STRING:
            text = _escape(text)
        if not _is_native(column.type):
            text = pc.binary_join_element_wise(pa.scalar('"'), text, pa.scalar('"'), "")
        key = json.dumps(column.name, ensure_ascii=False)
        members.append(pc.binary_join_element_wise(pa.scalar(f"{key}:"), pc.fill_null(text, "null"), ""))
    joined = pc.binary_join_element_wise(*members, ",")
    return pc.binary_join_element_wise(pa.scalar("{"), joined, pa.scalar("}\n"), "")


def batches_of(path: Path, schema: TableSchema, block_bytes: int) -> Iterator[pa.RecordBatch]:
    """All columns of `schema`; one that an object lacks is NULL."""
    if path.stat().st_size == 0:
        return
    read_as = pa.schema(
        [(c.name, arrow_type(c.type) if _is_native(c.type) else pa.string()) for c in schema.columns],
    )
    reader = pyarrow.json.open_json(
        path,
        read_options=pyarrow.json.ReadOptions(block_size=block_bytes, use_threads=False),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=read_as, unexpected_field_behavior="ignore"),
    )
    for batch in reader:
        columns = [
            values if _is_native(column.type) else parse_values(values, column.type)
            for column, values in zip(schema.columns, batch.select(list(schema.names)).columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, names=list(schema.names))


def _is_native(column: ColumnType) -> bool:
    kind = column.kind
    return kind in _FLOATS or kind is ColumnKind.BOOLEAN or kind.value.startswith(("int", "uint"))


def _escape(texts: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        for character, text in _ESCAPES:
            escaped = pc.replace_substring(escaped, character, text)
    return escaped
