"""How the types of files are read and written; the reference page is generated from this table.

Parquet columns have Arrow types. CSV and NDJSON columns have the types that the manifest declares; a CSV column without
a declaration is text.
"""

from __future__ import annotations

from typing import Final

from dpone_core.model.type_map import TypeMapping

_DIGITS: Final = "Parquet as it is; text as digits with a minus"

TYPES: Final = (
    TypeMapping(
        engine="bool",
        dpone="boolean",
        read="Parquet as it is; CSV true, false, 1, 0; NDJSON true, false",
        written="true and false in text",
    ),
    *(
        TypeMapping(
            engine=name, dpone=name, read=_DIGITS, written="digits in text", refused="what the type cannot hold"
        )
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    ),
    TypeMapping(
        engine="float, halffloat",
        dpone="float32",
        read="Parquet as it is; text as a decimal number, nan and inf in CSV",
        written="the shortest text that reads back equal",
        refused="numbers beyond the type; NaN and infinities in NDJSON",
    ),
    TypeMapping(
        engine="double",
        dpone="float64",
        read="Parquet as it is; text as a decimal number, nan and inf in CSV",
        written="the shortest text that reads back equal",
        refused="numbers beyond the type; NaN and infinities in NDJSON",
    ),
    TypeMapping(
        engine="decimal128(p, s)",
        dpone="decimal(p,s)",
        read="from its own digits; in NDJSON as text or number, never by way of a float",
        written="plain digits; as text in NDJSON",
        refused="more digits than declared",
    ),
    TypeMapping(
        engine="string, large_string, dictionary of string",
        dpone="string",
        read="UTF-8",
        written="always quoted in CSV",
        refused="bytes that are not UTF-8",
    ),
    TypeMapping(
        engine="binary, large_binary, fixed_size_binary",
        dpone="binary",
        read="Parquet as it is; hexadecimal in text",
        written="lower-case hexadecimal in text",
    ),
    TypeMapping(engine="date32, date64", dpone="date", read="YYYY-MM-DD in text", written="YYYY-MM-DD in text"),
    TypeMapping(
        engine="time32, time64",
        dpone="time(f)",
        read="hh:mm:ss[.f] in text",
        written="ISO 8601 in text",
        refused="24:00:00 and more digits than declared",
    ),
    TypeMapping(
        engine="timestamp",
        dpone="timestamp(f)",
        read="ISO 8601 without an offset in text, with T or a space",
        written="ISO 8601 in text",
        refused="offsets; more digits than declared",
    ),
    TypeMapping(
        engine="timestamp with a time zone",
        dpone="timestamp_tz(f)",
        read="ISO 8601 with Z or an offset in text",
        written="ISO 8601 with Z in text",
        refused="texts without an offset; more digits than declared",
    ),
    TypeMapping(
        engine="uuid",
        dpone="uuid",
        read="Parquet's UUID type; its text in CSV and NDJSON",
        written="Parquet's UUID type; hyphenated text",
    ),
    TypeMapping(
        engine="list, struct, map, duration, null and all others; nested values of NDJSON",
        dpone="unsupported",
        read="",
        refused="the column",
    ),
)
