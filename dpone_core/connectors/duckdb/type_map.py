"""How DuckDB's types are read and written; the reference page is generated from this table."""

from __future__ import annotations

from typing import Final

from dpone_core.model.type_map import TypeMapping

_AS_IS: Final = "as it is"
_ENDLESS: Final = "infinity and -infinity"
_ENDS: Final = "infinity, -infinity"
_FLOATS: Final = "infinity, -infinity, nan"

TYPES: Final = (
    TypeMapping(engine="BOOLEAN", dpone="boolean", read=_AS_IS, written="boolean"),
    TypeMapping(engine="TINYINT", dpone="int8", read=_AS_IS, written="int8"),
    TypeMapping(engine="SMALLINT", dpone="int16", read=_AS_IS, written="int16"),
    TypeMapping(engine="INTEGER", dpone="int32", read=_AS_IS, written="int32"),
    TypeMapping(engine="BIGINT", dpone="int64", read=_AS_IS, written="int64"),
    TypeMapping(engine="UTINYINT", dpone="uint8", read=_AS_IS, written="uint8"),
    TypeMapping(engine="USMALLINT", dpone="uint16", read=_AS_IS, written="uint16"),
    TypeMapping(engine="UINTEGER", dpone="uint32", read=_AS_IS, written="uint32"),
    TypeMapping(engine="UBIGINT", dpone="uint64", read=_AS_IS, written="uint64"),
    TypeMapping(
        engine="HUGEINT, UHUGEINT", dpone="decimal(38,0)", read="CAST AS DECIMAL(38,0)", refused="more than 38 digits"
    ),
    TypeMapping(engine="FLOAT", dpone="float32", read=_AS_IS, written="float32", declared=_FLOATS),
    TypeMapping(engine="DOUBLE", dpone="float64", read=_AS_IS, written="float64", declared=_FLOATS),
    TypeMapping(
        engine="DECIMAL(p,s)",
        dpone="decimal(p,s)",
        read=_AS_IS,
        written="decimal(p,s)",
        refused="when written: p above 38",
    ),
    TypeMapping(engine="VARCHAR", dpone="string", read=_AS_IS, written="string"),
    TypeMapping(engine="ENUM, JSON", dpone="string", read="by its text"),
    TypeMapping(engine="BLOB", dpone="binary", read=_AS_IS, written="binary"),
    TypeMapping(engine="UUID", dpone="uuid", read="as 16 bytes in the order of its text", written="uuid"),
    TypeMapping(engine="DATE", dpone="date", read=_AS_IS, written="date", refused=_ENDLESS, declared=_ENDS),
    TypeMapping(engine="TIME", dpone="time(6)", read=_AS_IS, written="time up to microseconds", refused="24:00:00"),
    TypeMapping(
        engine="TIMESTAMP_S",
        dpone="timestamp(0)",
        read=_AS_IS,
        written="timestamp(0)",
        refused=_ENDLESS,
        declared=_ENDS,
    ),
    TypeMapping(
        engine="TIMESTAMP_MS",
        dpone="timestamp(3)",
        read=_AS_IS,
        written="timestamp(1..3)",
        refused=_ENDLESS,
        declared=_ENDS,
    ),
    TypeMapping(
        engine="TIMESTAMP",
        dpone="timestamp(6)",
        read=_AS_IS,
        written="timestamp(4..6)",
        refused=_ENDLESS,
        declared=_ENDS,
    ),
    TypeMapping(
        engine="TIMESTAMP_NS",
        dpone="timestamp(9)",
        read=_AS_IS,
        written="timestamp(7..9)",
        refused=_ENDLESS,
        declared=_ENDS,
    ),
    TypeMapping(
        engine="TIMESTAMP WITH TIME ZONE",
        dpone="timestamp_tz(6)",
        read="as an instant in UTC",
        written="timestamp_tz up to microseconds",
        refused=_ENDLESS,
        declared=_ENDS,
    ),
    TypeMapping(
        engine="INTERVAL, BIT, BIGNUM, TIME WITH TIME ZONE, lists, arrays, STRUCT, MAP, UNION and all others",
        dpone="unsupported",
        read="",
        refused="the column; CAST it in a query",
    ),
)
