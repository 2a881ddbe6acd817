"""CSV: UTF-8, comma, one header line, every line ended by a line feed.

NULL is `\\N` without quotes and nothing else; text, bytes and names are always quoted, so an empty text is `""` and the
text `\\N` is `"\\N"`. Every other kind is never quoted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from dpone_core.model.table_schema import ColumnKind, TableSchema

from .text_values import format_values, parse_values

NULL_TOKEN: Final = "\\N"
_QUOTED: Final = frozenset({ColumnKind.STRING, ColumnKind.BINARY})


def header(schema: TableSchema) -> bytes:
    names = ",".join(quote_name(name) for name in schema.names)
    return f"{names}\n".encode()


def lines_of(batch: pa.RecordBatch, schema: TableSchema) -> pa.Array:
    """One text per row, line feed included."""
    fields = []
    for column, values in zip(schema.columns, batch.columns, strict=True):
        text = format_values(values, column)
        if column.type.kind in _QUOTED:
            doubled = pc.replace_substring(text, '"', '""')
            text = pc.binary_join_element_wise(pa.scalar('"'), doubled, pa.scalar('"'), "")
        fields.append(pc.fill_null(text, NULL_TOKEN))
    joined = pc.binary_join_element_wise(*fields, ",")
    return pc.binary_join_element_wise(joined, pa.scalar("\n"), "")


def batches_of(path: Path, schema: TableSchema, block_bytes: int) -> Iterator[pa.RecordBatch]:
    """Columns of `schema` that the file has, in the file's order."""
    reader = pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(block_size=block_bytes, use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in schema.names},
            null_values=[NULL_TOKEN],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    with reader:
        for batch in reader:
            names = [name for name in batch.schema.names if schema.find(name) is not None]
            columns = [_read(batch.column(name), schema, name) for name in names]
            yield pa.RecordBatch.from_arrays(columns, names=names)


def quote_name(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _read(texts: pa.Array, schema: TableSchema, name: str) -> pa.Array:
    column = schema.find(name)
    assert column is not None  # names were taken from the schema
    return parse_values(texts, column.type)
