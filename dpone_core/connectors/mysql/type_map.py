"""Which MySQL and MariaDB types are read, and how; the reference page is generated from this table."""

from __future__ import annotations

from typing import Final

from dpone_core.model.type_map import TypeMapping

_DATES: Final = "zero_date, partial_date"
_TEXT: Final = "as text, parsed exactly by Arrow"

TYPES: Final = (
    TypeMapping(engine="TINYINT, BOOLEAN", dpone="int8", read="as it is; TINYINT(1) is a number"),
    TypeMapping(engine="SMALLINT", dpone="int16", read="as it is"),
    TypeMapping(engine="MEDIUMINT, INT", dpone="int32", read="as it is"),
    TypeMapping(engine="BIGINT", dpone="int64", read="as it is"),
    TypeMapping(engine="the same UNSIGNED or ZEROFILL", dpone="uint8 .. uint64", read="as it is"),
    TypeMapping(engine="BIT(n)", dpone="uint8 .. uint64, the smallest that holds n bits", read="CAST AS UNSIGNED"),
    TypeMapping(engine="YEAR", dpone="uint16", read="as it is; the zero year is 0"),
    TypeMapping(engine="DECIMAL(p,s)", dpone="decimal(p,s)", read=_TEXT),
    TypeMapping(engine="FLOAT", dpone="float32", read="widened in SQL (+ 0e0), narrowed exactly by Arrow"),
    TypeMapping(engine="DOUBLE", dpone="float64", read="as it is"),
    TypeMapping(engine="CHAR, VARCHAR, TINYTEXT .. LONGTEXT", dpone="string", read="as UTF-8, whatever its charset"),
    TypeMapping(engine="ENUM, SET, JSON, INET4, INET6", dpone="string", read="as text"),
    TypeMapping(engine="BINARY, VARBINARY, TINYBLOB .. LONGBLOB", dpone="binary", read="as it is"),
    TypeMapping(engine="UUID (MariaDB)", dpone="uuid", read="as 16 bytes; string in a query"),
    TypeMapping(engine="DATE", dpone="date", read=_TEXT, refused="zero and partial dates", declared=_DATES),
    TypeMapping(
        engine="DATETIME(f)", dpone="timestamp(f)", read=_TEXT, refused="zero and partial dates", declared=_DATES
    ),
    TypeMapping(
        engine="TIMESTAMP(f)",
        dpone="timestamp_tz(f)",
        read=_TEXT + "; session in UTC",
        refused="zero dates",
        declared="zero_date",
    ),
    TypeMapping(engine="TIME(f)", dpone="time(f)", read=_TEXT, refused="negative values and those of 24 hours or more"),
    TypeMapping(engine="GEOMETRY, POINT .. and all others", dpone="unsupported", read="", refused="the column"),
)
