"""CSV: UTF-8, comma, one header line, every line ended by a line feed.

NULL is `\\N` without quotes and nothing else; text, bytes and names are always quoted, so an empty text is `""` and the
text `\\N` is `"\\N"`. Every other kind is never quoted. Files are read back by the reader of the CSV source.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.errors import ConnectorError
from dpone_core.model.file_reading import CsvDialect
from dpone_core.model.table_schema import ColumnKind, TableSchema

from .csv_reader import csv_header, csv_rows
from .text_values import format_values, parse_values

NULL_TOKEN: Final = "\\N"
_DIALECT: Final = CsvDialect(null=NULL_TOKEN)
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


def batches_of(path: Path, schema: TableSchema) -> Iterator[pa.RecordBatch]:
    """Columns of `schema` that the file has, in the file's order; without any its first column, undecoded. Raises
    ValueError, or an Arrow error, for a file that `lines_of` did not write."""
    try:
        names = csv_header(path, 0, _DIALECT)
        wanted = tuple(name for name in names if schema.find(name) is not None) or names[:1]
        for rows in csv_rows(path, 0, names, wanted, _DIALECT):
            columns = [_read(rows.batch.column(name), schema, name) for name in wanted]
            yield pa.RecordBatch.from_arrays(columns, names=list(wanted))
    except ConnectorError as error:
        raise ValueError("not CSV as dpone writes it") from error


def quote_name(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _read(texts: pa.Array, schema: TableSchema, name: str) -> pa.Array:
    column = schema.find(name)
    return texts if column is None else parse_values(texts.cast(pa.string()), column.type)
