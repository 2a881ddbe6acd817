"""Which declared SQLite types are read, and how; the reference page is generated from this table.

SQLite types values, not columns: a declaration is a promise, and the first value that breaks it stops the load.
"""

from __future__ import annotations

from typing import Final

from dpone_core.model.type_map import TypeMapping

TYPES: Final = (
    TypeMapping(
        engine="INTEGER, BIGINT, any name with INT",
        dpone="int64",
        read="as it is",
        refused="values that are no integers",
    ),
    TypeMapping(engine="BOOLEAN, BOOL", dpone="boolean", read="0 and 1", refused="every other value"),
    TypeMapping(
        engine="DECIMAL(p,s), NUMERIC(p,s), NUMBER(p,s)",
        dpone="decimal(p,s)",
        read="the decimal of s digits that its double is to the last bit, integers and texts as they are; p up to 38",
        refused="more digits than declared; text that is no number; blobs",
    ),
    TypeMapping(engine="REAL, FLOAT, DOUBLE", dpone="float64", read="as it is", refused="values that are no reals"),
    TypeMapping(
        engine="TEXT, VARCHAR, CLOB, JSON, STRING, UUID",
        dpone="string",
        read="as it is; lengths are not checked",
        refused="values that are no text in UTF-8 or UTF-16",
    ),
    TypeMapping(engine="BLOB, BINARY", dpone="binary", read="as it is", refused="values that are no blobs"),
    TypeMapping(engine="DATE", dpone="date", read="text YYYY-MM-DD", refused="numbers, other texts"),
    TypeMapping(engine="TIME", dpone="time(6)", read="text hh:mm:ss[.ffffff]", refused="numbers, other texts"),
    TypeMapping(
        engine="TIMESTAMP, DATETIME",
        dpone="timestamp(6)",
        read="text in ISO 8601, with T or a space",
        refused="numbers, offsets, more than six digits of a second",
    ),
    TypeMapping(
        engine="TIMESTAMPTZ, TIMESTAMP WITH TIME ZONE",
        dpone="timestamp_tz(6)",
        read="text in ISO 8601 with an offset",
        refused="numbers, texts without an offset",
    ),
    TypeMapping(
        engine="none, or NUMERIC without digits",
        dpone="int64, float64, string or binary",
        read="by the storage class that all its values share",
        refused="the column, if they share none",
    ),
)
