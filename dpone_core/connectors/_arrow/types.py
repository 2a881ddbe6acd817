"""Column types of dpone as Arrow types and back. A kind without an exact Arrow type is `unsupported`, never
approximated."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema

_PLAIN: Final[dict[ColumnKind, pa.DataType]] = {
    ColumnKind.BOOLEAN: pa.bool_(),
    ColumnKind.INT8: pa.int8(),
    ColumnKind.INT16: pa.int16(),
    ColumnKind.INT32: pa.int32(),
    ColumnKind.INT64: pa.int64(),
    ColumnKind.UINT8: pa.uint8(),
    ColumnKind.UINT16: pa.uint16(),
    ColumnKind.UINT32: pa.uint32(),
    ColumnKind.UINT64: pa.uint64(),
    ColumnKind.FLOAT32: pa.float32(),
    ColumnKind.FLOAT64: pa.float64(),
    ColumnKind.STRING: pa.string(),
    ColumnKind.BINARY: pa.binary(),
    ColumnKind.DATE: pa.date32(),
    ColumnKind.UUID: pa.binary(16),
}
_KIND_OF_PLAIN: Final = {arrow: kind for kind, arrow in _PLAIN.items() if kind is not ColumnKind.UUID}
_FRACTION_OF_UNIT: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
DEFAULT_FRACTION: Final = 6


def unit_of(fraction: int | None) -> str:
    """The coarsest Arrow unit that holds `fraction` decimal digits of a second (None = microseconds)."""
    digits = DEFAULT_FRACTION if fraction is None else fraction
    return next(unit for unit, digits_of_unit in _FRACTION_OF_UNIT.items() if digits <= digits_of_unit)


def arrow_type(column: ColumnType) -> pa.DataType:
    """The Arrow type batches of this column carry; ValueError for `unsupported`."""
    plain = _PLAIN.get(column.kind)
    if plain is not None:
        return plain
    match column.kind:
        case ColumnKind.DECIMAL if column.precision is not None and column.scale is not None:
            return (pa.decimal128 if column.precision <= 38 else pa.decimal256)(column.precision, column.scale)
        case ColumnKind.TIMESTAMP:
            return pa.timestamp(unit_of(column.fraction))
        case ColumnKind.TIMESTAMP_TZ:
            return pa.timestamp(unit_of(column.fraction), "UTC")
        case ColumnKind.TIME:
            unit = unit_of(column.fraction)
            return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        case _:
            raise ValueError(f"no Arrow type for {column}")


def arrow_schema(schema: TableSchema) -> pa.Schema:
    return pa.schema([pa.field(c.name, arrow_type(c.type), nullable=c.nullable) for c in schema.columns])


def column_type(arrow: pa.DataType) -> ColumnType:
    """The column type of an Arrow type; nested and rare types become `unsupported` with their Arrow name."""
    if pa.types.is_dictionary(arrow):
        return column_type(arrow.value_type)
    if isinstance(arrow, pa.UuidType):
        return ColumnType(kind=ColumnKind.UUID, native=str(arrow))
    if pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow):
        return ColumnType(kind=ColumnKind.STRING, native=str(arrow))
    if pa.types.is_large_binary(arrow) or pa.types.is_binary_view(arrow) or pa.types.is_fixed_size_binary(arrow):
        return ColumnType(kind=ColumnKind.BINARY, native=str(arrow))
    if pa.types.is_float16(arrow):
        return ColumnType(kind=ColumnKind.FLOAT32, native=str(arrow))
    if pa.types.is_date64(arrow):
        return ColumnType(kind=ColumnKind.DATE, native=str(arrow))
    return _numbers_and_times(arrow)


def _numbers_and_times(arrow: pa.DataType) -> ColumnType:
    native = str(arrow)
    if pa.types.is_decimal(arrow) and 0 <= arrow.scale <= arrow.precision:
        return ColumnType(kind=ColumnKind.DECIMAL, precision=arrow.precision, scale=arrow.scale, native=native)
    if pa.types.is_timestamp(arrow):
        kind = ColumnKind.TIMESTAMP if arrow.tz is None else ColumnKind.TIMESTAMP_TZ
        return ColumnType(kind=kind, fraction=_FRACTION_OF_UNIT[arrow.unit], native=native)
    if pa.types.is_time(arrow):
        return ColumnType(kind=ColumnKind.TIME, fraction=_FRACTION_OF_UNIT[arrow.unit], native=native)
    plain = _KIND_OF_PLAIN.get(arrow)
    if plain is not None:
        return ColumnType(kind=plain, native=native)
    return ColumnType(kind=ColumnKind.UNSUPPORTED, native=native)


def table_schema(arrow: pa.Schema) -> TableSchema:
    return TableSchema(columns=tuple(Column(name=f.name, type=column_type(f.type), nullable=f.nullable) for f in arrow))
