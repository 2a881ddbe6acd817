"""How ClickHouse's types are read and written; the reference page is generated from this table."""

from __future__ import annotations

from typing import Final

from dpone_core.model.type_map import TypeMapping

_AS_IS: Final = "as it is"

TYPES: Final = (
    TypeMapping(
        engine="Nullable(T), LowCardinality(T), SimpleAggregateFunction(f, T)",
        dpone="of T",
        read="as T",
        written="Nullable(T) for a column that may be NULL",
    ),
    TypeMapping(engine="Bool", dpone="boolean", read=_AS_IS, written="boolean"),
    TypeMapping(engine="Int8", dpone="int8", read=_AS_IS, written="int8"),
    TypeMapping(engine="Int16", dpone="int16", read=_AS_IS, written="int16"),
    TypeMapping(engine="Int32", dpone="int32", read=_AS_IS, written="int32"),
    TypeMapping(engine="Int64", dpone="int64", read=_AS_IS, written="int64"),
    TypeMapping(engine="UInt8", dpone="uint8", read=_AS_IS, written="uint8"),
    TypeMapping(engine="UInt16", dpone="uint16", read=_AS_IS, written="uint16"),
    TypeMapping(engine="UInt32", dpone="uint32", read=_AS_IS, written="uint32"),
    TypeMapping(engine="UInt64", dpone="uint64", read=_AS_IS, written="uint64"),
    TypeMapping(engine="Int128, UInt128", dpone="decimal(39,0)", read="toDecimal256(x, 0)"),
    TypeMapping(engine="Float32", dpone="float32", read="as it is, NaN and infinities too", written="float32"),
    TypeMapping(engine="Float64", dpone="float64", read="as it is, NaN and infinities too", written="float64"),
    TypeMapping(engine="BFloat16", dpone="float32", read="toFloat32(x)"),
    TypeMapping(engine="Decimal(p, s)", dpone="decimal(p,s)", read=_AS_IS, written="decimal(p,s), p up to 76"),
    TypeMapping(
        engine="String",
        dpone="string",
        read=_AS_IS,
        written="string",
        refused="bytes that are not UTF-8, unless dpone wrote the column as binary",
    ),
    TypeMapping(
        engine="String with the comment dpone: bytes", dpone="binary", read="as the bytes it is", written="binary"
    ),
    TypeMapping(engine="FixedString(n)", dpone="binary", read="as the n bytes it is, zeros at the end too"),
    TypeMapping(engine="Enum8, Enum16, IPv4, IPv6", dpone="string", read="by its text"),
    TypeMapping(engine="UUID", dpone="uuid", read="as 16 bytes in the order of its text", written="uuid"),
    TypeMapping(engine="Date", dpone="date", read="toDate32(x)"),
    TypeMapping(
        engine="Date32", dpone="date", read=_AS_IS, written="date", refused="when written: before 1900, after 2299"
    ),
    TypeMapping(engine="DateTime", dpone="timestamp_tz(0)", read="as an instant in UTC, whatever its zone"),
    TypeMapping(
        engine="DateTime64(f)",
        dpone="timestamp_tz(f)",
        read="as an instant in UTC, whatever its zone; f as 0, 3, 6 or 9",
        written="timestamp_tz(f) as DateTime64(f, 'UTC'), f as 0, 3, 6 or 9",
        refused="with f = 7 or 8: before 1678 and after 2261",
    ),
    TypeMapping(
        engine="DateTime64(f) with the comment dpone: wall clock without time zone",
        dpone="timestamp(f)",
        read="as the wall clock it was written as",
        written="timestamp(f), f as 0, 3, 6 or 9, stored as if it were UTC",
    ),
    TypeMapping(
        engine="Time, Time64(f)",
        dpone="time(f)",
        read="f as 0, 3, 6 or 9",
        written="time(f) as Time64(f), f as 0, 3, 6 or 9",
        refused="negative values and those of 24 hours or more",
    ),
    TypeMapping(
        engine="Int256, UInt256, Array, Map, Tuple, Nested, JSON, Variant, Dynamic, intervals, geometry and all others",
        dpone="unsupported",
        read="",
        refused="the column; convert it in a query, for example toString(x)",
    ),
)
