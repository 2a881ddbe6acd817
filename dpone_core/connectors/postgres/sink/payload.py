"""The rows of a load for COPY: cast strictly, and checked for values that COPY would round, shorten or refuse."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.connectors._arrow.cast import StrictCast, limit_batch_rows, refuse_kind_change
from dpone_core.connectors._arrow.moments import all_within, digits_of, has_at_most, numbers_of
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema

from .types import StoredColumn

_REFUSED: Final = "staged_value_refused"
_VARCHAR: Final = re.compile(r"character varying\((\d+)\)")
_FIRST_MICROSECOND: Final = -210_866_803_200_000_000
_LAST_MICROSECOND: Final = 9_223_371_244_799_999_999
_FIRST_DAY: Final = -2_440_588
_LAST_DAY: Final = 2_145_042_905
"""4714-11-24 BC, where PostgreSQL's calendar begins, the end of the year 294246, which is the last
whole one that Arrow has, and 5874897-12-31, where PostgreSQL's dates end."""


class PayloadRows:
    """Reads the batches once. It keeps the first error, which the driver would report as text only."""

    def __init__(
        self, payload: TableSchema, stored: tuple[StoredColumn, ...], batches: Iterable[pa.RecordBatch]
    ) -> None:
        schema = TableSchema(columns=tuple(column.column for column in stored))
        refuse_kind_change(payload, schema)
        self._stored = stored
        self._cast = StrictCast(schema, code=_REFUSED)
        self._batches = batches
        self.sent = 0
        self.failure: BaseException | None = None

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._cast.arrow_schema, self._rows())

    def _rows(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in limit_batch_rows(self._batches):
                cast = self._cast(batch)
                for stored, values in zip(self._stored, cast.columns, strict=True):
                    if not _fits(stored, values):
                        raise _misfit(stored.column)
                self.sent += cast.num_rows
                yield cast
        except BaseException as error:
            self.failure = error
            raise


def _misfit(column: Column) -> ConnectorError:
    return ConnectorError(f"column {column.name!r}: PostgreSQL does not take a value of it exactly", code=_REFUSED)


def _fits(stored: StoredColumn, values: pa.Array) -> bool:
    match stored.column.type.kind:
        case ColumnKind.STRING:
            limit = _VARCHAR.fullmatch(stored.column.type.native) if stored.wire != "text" or stored.is_cast else None
            return not _has_nul(values) and (limit is None or _longest(values) <= int(limit.group(1)))
        case ColumnKind.DATE:
            return all_within(values.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
        case ColumnKind.TIME | ColumnKind.TIMESTAMP | ColumnKind.TIMESTAMP_TZ:
            return _moments_fit(stored.column, values)
        case _:
            return True


def _moments_fit(column: Column, values: pa.Array) -> bool:
    """Whether no value has more digits than the column (COPY rounds; Arrow has 0, 3 and 6 digits only)."""
    fraction = 6 if column.type.fraction is None else column.type.fraction
    if not has_at_most(values, fraction):
        return False
    scale = 10 ** max(6 - digits_of(values), 0)
    bounds = _FIRST_MICROSECOND // scale, _LAST_MICROSECOND // scale
    return column.type.kind is ColumnKind.TIME or all_within(numbers_of(values), *bounds)


def _longest(values: pa.Array) -> int:
    found = pc.max(pc.utf8_length(values)).as_py()
    return 0 if found is None else int(found)


def _has_nul(values: pa.Array) -> bool:
    """Whether a text holds a NUL character. Whole buffers are searched first, where a zero byte is rare."""
    data = values.buffers()[2]
    if data is None or data.to_pybytes().find(b"\0") < 0:
        return False
    return pc.any(pc.match_substring(values, "\0"), skip_nulls=True).as_py() is True
