"""The two readers that run in the child process: arrow-odbc for bulk, pyodbc for values without a maximum length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from dpone_core.connectors._arrow.coalesce import join_batches
from dpone_core.errors import ConnectorError

if TYPE_CHECKING:
    import pyodbc

OUT_OF_RANGE: Final = "source_value_out_of_range"
_BUFFER_BYTES: Final = 64 << 20
_BATCH_ROWS: Final = 65_535
_FETCHED_ROWS: Final = 4_096
_TRUNCATION: Final = "too large to be written"


class SourceValueError(ConnectorError):
    """A value of the source does not fit its column's type or the reader's buffer."""

    code = OUT_OF_RANGE


def read_by_arrow_odbc(
    *, connection_string: str, sql: str, parameters: Sequence[str], max_text_size: int | None
) -> pa.RecordBatchReader:
    """Reads in bulk. Arguments must be ASCII, because the driver manager silently reads others as Latin-1. Raises
    SourceValueError for a value longer than its buffer; no value is cut."""
    from arrow_odbc import TextEncoding, read_arrow_batches_from_odbc

    reader = read_arrow_batches_from_odbc(
        query=sql,
        connection_string=connection_string,
        parameters=list(parameters) or None,
        batch_size=_BATCH_ROWS,
        max_bytes_per_batch=_BUFFER_BYTES,
        max_text_size=max_text_size,
        max_binary_size=max_text_size,
        payload_text_encoding=TextEncoding.UTF16,
        falliable_allocations=True,
    )
    return pa.RecordBatchReader.from_batches(reader.schema, join_batches(_require_whole_values(iter(reader))))


def _require_whole_values(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except Exception as error:
            if _TRUNCATION in str(error):
                raise SourceValueError("a value is longer than the reader's buffer") from error
            raise
        yield batch


def read_by_pyodbc(
    *, connection_string: str, sql: str, parameters: Sequence[str], types: Sequence[str]
) -> pa.RecordBatchReader:
    """`types` name the Arrow type of each column as it travels: `int`, `string`, `decimal:18,4` .."""
    from dpone_core.connectors.mssql.session import connect, reading_error

    try:
        cursor = connect(connection_string).cursor()
        cursor.execute(sql, *parameters)
        while cursor.description is None and cursor.nextset():
            pass
    except Exception as error:
        raise reading_error(error) from error
    names = [str(column[0]) for column in cursor.description]
    schema = pa.schema([pa.field(name, _arrow_type(kind)) for name, kind in zip(names, types, strict=True)])
    return pa.RecordBatchReader.from_batches(schema, join_batches(_fetch_batches(cursor, schema)))


_ARROW: Final = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "binary": pa.large_binary(),
    "string": pa.large_string(),
}


def _arrow_type(kind: str) -> pa.DataType:
    name, _, digits = kind.partition(":")
    if name == "decimal":
        precision, scale = digits.split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW[name]


def _fetch_batches(cursor: pyodbc.Cursor, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while rows := cursor.fetchmany(_FETCHED_ROWS):
        columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
