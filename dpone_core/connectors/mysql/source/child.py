"""The two readers, as they run in the child process: connectorx over the binary protocol, pymysql over the text one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dpone_core.connectors._arrow.coalesce import join_batches

if TYPE_CHECKING:
    from pymysql.cursors import SSCursor

_BATCH_ROWS: Final = 4_096


def read_by_connectorx(*, uri: str, sql: str, session: Sequence[str]) -> pa.RecordBatchReader:
    """Every statement of `session` runs on the connection that reads."""
    import connectorx

    reader: pa.RecordBatchReader = connectorx.read_sql(
        uri, sql, return_type="arrow_stream", batch_size=_BATCH_ROWS, pre_execution_query=list(session)
    )
    return pa.RecordBatchReader.from_batches(reader.schema, join_batches(reader))


def read_by_pymysql(
    *, address: Mapping[str, Any], sql: str, session: Sequence[str], types: Sequence[str]
) -> pa.RecordBatchReader:
    """`types` name the Arrow type of each column as text travels: `int`, `uint`, `double`, `binary`, `string`."""
    from pymysql.cursors import SSCursor

    from dpone_core.connectors.mysql.address import Address
    from dpone_core.connectors.mysql.session import connect, reading_error

    try:
        connection = connect(Address(**address), cursor=SSCursor)
        cursor = connection.cursor()
        for statement in session:
            cursor.execute(statement)
        cursor.execute(sql)
    except Exception as error:
        raise reading_error(error) from error
    names = [str(column[0]) for column in cursor.description or ()]
    schema = pa.schema([pa.field(name, _ARROW[kind]) for name, kind in zip(names, types, strict=True)])
    return pa.RecordBatchReader.from_batches(schema, join_batches(_fetch_batches(cursor, schema)))


_ARROW: Final = {
    "int": pa.int64(),
    "uint": pa.uint64(),
    "double": pa.float64(),
    "binary": pa.large_binary(),
    "string": pa.string(),
}


def _fetch_batches(cursor: SSCursor, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while rows := cursor.fetchmany(_BATCH_ROWS):
        columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
