"""Casts batches strictly to the types that a ClickHouse table stores, and checks the ranges of its date types."""

from __future__ import annotations

import pyarrow as pa

from dpone_core.connectors._arrow.cast import StrictCast, refuse_kind_change
from dpone_core.connectors._arrow.moments import all_within, numbers_of
from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.connectors.clickhouse.moments import is_moment
from dpone_core.connectors.clickhouse.types import RANGES
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, TableSchema

_REFUSED = "staged_value_refused"


class StoredCast:
    """Turns payload batches into batches of `stored`: the columns of the table with the payload's names, in payload
    order. `seconds` are the first and the last second that readers of a DateTime64 see. Raises ConnectorError
    `staged_value_refused`."""

    def __init__(self, payload: TableSchema, stored: TableSchema, seconds: tuple[int, int]) -> None:
        refuse_kind_change(payload, stored)
        self._cast = StrictCast(stored, code=_REFUSED)
        self._ranges = [
            (index, column, *bounds)
            for index, column in enumerate(stored.columns)
            if (bounds := _bounds_of(column, seconds)) is not None
        ]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        cast = self._cast(batch)
        for index, column, first, last in self._ranges:
            values = cast.column(index)
            numbers = values.cast(pa.int32()) if pa.types.is_date32(values.type) else numbers_of(values)
            if not all_within(numbers, first, last):
                raise ConnectorError(
                    f"column {column.name!r}: a value lies outside the range of {column.type.native}", code=_REFUSED
                )
        return cast


def _bounds_of(column: Column, seconds: tuple[int, int]) -> tuple[int, int] | None:
    """The first and last integer that Arrow may have for a value of the column; None where every one is stored."""
    if is_moment(column):
        unit = 10 ** (column.type.fraction or 0)
        return max(seconds[0] * unit, -(2**63)), min((seconds[1] + 1) * unit, 2**63) - 1
    if column.type.native not in RANGES:
        return None
    first, last = (pa.scalar(bound, type=arrow_type(column.type)).value for bound in RANGES[column.type.native])
    return int(first), int(last)
