"""Casts a batch to a schema so that every value stays exact. An error names the column and never shows a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import ColumnKind, TableSchema

from .moments import all_within, digits_of, numbers_of
from .types import arrow_schema

MAX_BATCH_ROWS: Final = 65_536


class StrictCast:
    """Casts batches to `schema`, by safe casts only. Raises ConnectorError `code` for a value that does not fit, for a
    time outside of the day, or for NULL in a column that is declared not nullable."""

    def __init__(self, schema: TableSchema, *, code: str) -> None:
        self.arrow_schema = arrow_schema(schema)
        self._schema = schema
        self._code = code

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if tuple(batch.schema.names) != self._schema.names:
            raise ConnectorError("a batch has other columns than the source described", code=self._code)
        columns = [self.column(index, batch.column(index)) for index in range(batch.num_columns)]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)

    def column(self, index: int, values: pa.Array) -> pa.Array:
        field = self.arrow_schema.field(index)
        try:
            cast = _cast(values, field.type)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise ConnectorError(
                f"column {field.name!r}: a value does not fit {self._schema.columns[index].type}", code=self._code
            ) from error
        if pa.types.is_time(field.type) and not all_within(numbers_of(cast), 0, 86_400 * 10 ** digits_of(cast) - 1):
            raise ConnectorError(f"column {field.name!r}: a value is no time of day", code=self._code)
        if not field.nullable and cast.null_count:
            raise ConnectorError(
                f"column {field.name!r}: NULL in a column that is declared not nullable", code=self._code
            )
        return cast


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if values.type == wanted:
        return values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
        return _cast(values, wanted)
    if pa.types.is_floating(values.type) and pa.types.is_decimal(wanted):
        raise ValueError("decimals never come from floats")
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(wanted) and (not values.type.tz) != (not wanted.tz):
        raise ValueError("a wall clock is not an instant")
    if pa.types.is_float64(values.type) and pa.types.is_float32(wanted):
        return _narrow_float(values)
    if pa.types.is_time(wanted) and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return _time_of_text(values, wanted)
    return values.cast(wanted, safe=True)


def _narrow_float(values: pa.Array) -> pa.Array:
    narrowed = values.cast(pa.float32(), safe=True)
    same = pc.or_kleene(pc.equal(narrowed.cast(pa.float64()), values), pc.is_nan(values))
    if pc.all(same, skip_nulls=True).as_py() is False:
        raise ValueError("a float loses digits")
    return narrowed


def _time_of_text(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Times of day from text. Arrow cannot parse them alone, so they are parsed as the time part of a timestamp, which
    refuses 24:00 and signs."""
    moments = pc.binary_join_element_wise(pa.scalar("1970-01-01", values.type), values, pa.scalar(" ", values.type))
    return moments.cast(pa.timestamp(wanted.unit), safe=True).cast(wanted, safe=True)


def limit_batch_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at most MAX_BATCH_ROWS; empty batches are dropped."""
    for batch in batches:
        for start in range(0, batch.num_rows, MAX_BATCH_ROWS):
            yield batch.slice(start, MAX_BATCH_ROWS)


def refuse_kind_change(source: TableSchema, target: TableSchema) -> None:
    """Refuses a cast that would change what a value is (text to number, wall clock to instant)."""
    for column in target.columns:
        origin = source.find(column.name)
        if (
            origin is None
            or origin.type.kind is column.type.kind
            or _family(origin.type.kind) == _family(column.type.kind)
        ):
            continue
        raise ConnectorError(
            f"column {column.name!r}: {origin.type} cannot be stored as {column.type}", code="staged_value_refused"
        )


def _family(kind: ColumnKind) -> str:
    if kind in (ColumnKind.FLOAT32, ColumnKind.FLOAT64):
        return "float"
    if kind.value.startswith(("int", "uint")) or kind is ColumnKind.DECIMAL:
        return "exact number"
    return kind.value
