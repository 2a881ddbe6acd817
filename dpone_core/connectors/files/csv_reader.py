"""Reads CSV files as batches of undecoded text, NULL where the dialect says so. `TextStream` decodes them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv

from dpone_core.errors import ConnectorError
from dpone_core.model.file_reading import CsvDialect, FileReading
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema

from .csv_blocks import CsvBlock, CsvText
from .text_blocks import TextRows, open_text, syntax_error

_TEXT: Final = ColumnType(kind=ColumnKind.STRING)


def csv_schema(files: tuple[Path, ...], reading: FileReading) -> TableSchema:
    """The declared columns, else the header names as text; ConnectorError for a header with other columns."""
    declared = tuple(column.name for column in reading.columns)
    names = declared
    for index, path in enumerate(files if reading.csv.header else ()):
        found = csv_header(path, index, reading.csv)
        names = names or found
        if set(found) != set(names):
            raise _columns_error(index, names, found, declared=bool(declared))
    if declared:
        return TableSchema(columns=reading.columns)
    return TableSchema(columns=tuple(Column(name=name, type=_TEXT) for name in names))


def csv_header(path: Path, index: int, dialect: CsvDialect) -> tuple[str, ...]:
    """The names in the header line; () where the dialect has none."""
    with _open_csv(path, index, dialect) as text:
        return text.names


def csv_rows(
    path: Path, index: int, names: tuple[str, ...], wanted: tuple[str, ...], dialect: CsvDialect
) -> Iterator[TextRows]:
    """Columns `wanted` as binary; `names` are the file's columns where it has no header."""
    with _open_csv(path, index, dialect) as text:
        names = text.names or names
        for block in text.blocks(len(names)):
            yield TextRows(batch=_parse(block, index, names, wanted, dialect), line_of=block.line_of)


def _parse(
    block: CsvBlock, index: int, names: tuple[str, ...], wanted: tuple[str, ...], dialect: CsvDialect
) -> pa.RecordBatch:
    refused: list[pa.csv.InvalidRow] = []

    def refuse(row: pa.csv.InvalidRow) -> str:
        refused.append(row)
        return "error"

    try:
        table = pa.csv.read_csv(
            io.BytesIO(block.content),
            read_options=pa.csv.ReadOptions(
                column_names=list(names), block_size=len(block.content) + 1, use_threads=False
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=dialect.delimiter.character,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=refuse,
            ),
            convert_options=pa.csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.binary()),
                include_columns=list(wanted),
                null_values=[dialect.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if not refused:
            raise syntax_error(index, block.first_line, "the lines from here on are not CSV") from error
        row = refused[0]
        raise syntax_error(
            index,
            block.line_of(row.number - 1),
            f"the line has {row.actual_columns} columns and {row.expected_columns} are expected",
        ) from error
    (batch,) = table.combine_chunks().to_batches()
    return batch


@contextmanager
def _open_csv(path: Path, index: int, dialect: CsvDialect) -> Iterator[CsvText]:
    with open_text(path, index) as raw:
        yield CsvText(raw, file=index, delimiter=dialect.delimiter.character, header=dialect.header)


def _columns_error(index: int, names: tuple[str, ...], found: tuple[str, ...], *, declared: bool) -> ConnectorError:
    where = "the manifest declares" if declared else "file 0 has"
    surplus = [name for name in found if name not in names]
    what = (
        f"column {surplus[0]!r} is not among those {where}"
        if surplus
        else f"column {next(n for n in names if n not in found)!r} is missing, which {where}"
    )
    return ConnectorError(f"file {index} of the source: {what}", code="source_schema_inconsistent")
