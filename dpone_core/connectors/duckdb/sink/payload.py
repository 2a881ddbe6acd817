"""The rows of a load for DuckDB: cast strictly, and checked for moments that it takes for infinity or cannot show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from dpone_core.connectors._arrow.cast import StrictCast, limit_batch_rows, refuse_kind_change
from dpone_core.connectors._arrow.moments import all_within, numbers_of
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import ColumnKind, TableSchema

_REFUSED: Final = "staged_value_refused"
_LAST_DAY: Final = 2**31 - 2
_FIRST_SECOND: Final = -9_223_372_022_400
_LAST_NANOSECOND: Final = 2**63 - 2
"""One more is DuckDB's infinity, of dates and of moments. Moments before 290309-12-22 BC, and those of a coarser unit
that have no microseconds, end the engine when they are shown."""
_MICROSECONDS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}


class PayloadRows:
    """The batches as one Arrow reader for DuckDB. It keeps the first error, which DuckDB would report as text only."""

    def __init__(self, payload: TableSchema, stored: TableSchema, batches: Iterable[pa.RecordBatch]) -> None:
        refuse_kind_change(payload, stored)
        self._stored = stored
        self._cast = StrictCast(stored, code=_REFUSED)
        self._batches = batches
        self._uuids = tuple(i for i, column in enumerate(stored.columns) if column.type.kind is ColumnKind.UUID)
        self.sent = 0
        self.failure: BaseException | None = None

    def reader(self) -> pa.RecordBatchReader:
        schema = self._cast.arrow_schema
        for index in self._uuids:
            field = schema.field(index)
            schema = schema.set(index, pa.field(field.name, pa.uuid(), nullable=field.nullable))
        return pa.RecordBatchReader.from_batches(schema, self._rows(schema))

    def _rows(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            for batch in limit_batch_rows(self._batches):
                cast = self._cast(batch)
                for column, values in zip(self._stored.columns, cast.columns, strict=True):
                    if not _fits(values):
                        raise ConnectorError(
                            f"column {column.name!r}: a value lies outside the range of {column.type.native}",
                            code=_REFUSED,
                        )
                if self._uuids:
                    columns = list(cast.columns)
                    for index in self._uuids:
                        columns[index] = pa.ExtensionArray.from_storage(pa.uuid(), columns[index])
                    cast = pa.RecordBatch.from_arrays(columns, schema=schema)
                self.sent += cast.num_rows
                yield cast
        except BaseException as error:
            self.failure = error
            raise


def _fits(values: pa.Array) -> bool:
    if pa.types.is_date32(values.type):
        return all_within(values.cast(pa.int32()), -_LAST_DAY, _LAST_DAY)
    if not pa.types.is_timestamp(values.type):
        return True
    scale = _MICROSECONDS.get(values.type.unit)
    if scale is None:
        return all_within(numbers_of(values), -_LAST_NANOSECOND, _LAST_NANOSECOND)
    return all_within(numbers_of(values), _FIRST_SECOND * 1_000_000 // scale, (2**63 - 2) // scale)
