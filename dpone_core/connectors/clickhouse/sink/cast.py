"""Casts batches strictly to the types that a ClickHouse table stores, and checks the ranges of its date types."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.connectors._arrow.cast import StrictCast, refuse_kind_change
from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.connectors.clickhouse.types import RANGES
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import TableSchema

_REFUSED = "staged_value_refused"


class StoredCast:
    """Turns payload batches into batches of `stored`: the columns of the table with the payload's names, in payload
    order. Raises ConnectorError `staged_value_refused`."""

    def __init__(self, payload: TableSchema, stored: TableSchema) -> None:
        refuse_kind_change(payload, stored)
        self._cast = StrictCast(stored, code=_REFUSED)
        self._ranges = [
            (index, column, *(pa.scalar(bound, type=arrow_type(column.type)) for bound in RANGES[column.type.native]))
            for index, column in enumerate(stored.columns)
            if column.type.native in RANGES
        ]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        cast = self._cast(batch)
        for index, column, first, last in self._ranges:
            bounds = pc.min_max(cast.column(index))
            lowest, highest = bounds["min"], bounds["max"]
            if lowest.is_valid and (pc.less(lowest, first).as_py() or pc.greater(highest, last).as_py()):
                raise ConnectorError(
                    f"column {column.name!r}: a value lies outside the range of {column.type.native}", code=_REFUSED
                )
        return cast
