"""Which SQL Server types are read, and how; the reference page is generated from this table."""

from __future__ import annotations

from typing import Final

from dpone_core.model.type_map import TypeMapping

_TEXT: Final = "as text, parsed exactly by Arrow"
_BOUNDED: Final = "a value longer than the connection's max_text_size"

TYPES: Final = (
    TypeMapping(engine="bit", dpone="boolean", read="as it is"),
    TypeMapping(engine="tinyint", dpone="uint8", read="as it is"),
    TypeMapping(engine="smallint", dpone="int16", read="as it is"),
    TypeMapping(engine="int", dpone="int32", read="as it is"),
    TypeMapping(engine="bigint", dpone="int64", read="as it is"),
    TypeMapping(engine="decimal(p,s), numeric(p,s)", dpone="decimal(p,s)", read="as it is"),
    TypeMapping(engine="money", dpone="decimal(19,4)", read="CAST AS decimal(19,4)"),
    TypeMapping(engine="smallmoney", dpone="decimal(10,4)", read="CAST AS decimal(10,4)"),
    TypeMapping(engine="real", dpone="float32", read="as it is"),
    TypeMapping(engine="float", dpone="float64", read="as it is"),
    TypeMapping(engine="date", dpone="date", read="as it is"),
    TypeMapping(engine="time(f)", dpone="time(f)", read=_TEXT),
    TypeMapping(engine="smalldatetime", dpone="timestamp(0)", read=_TEXT),
    TypeMapping(engine="datetime", dpone="timestamp(3)", read="as datetime2(3) in text: .000, .003 and .007"),
    TypeMapping(
        engine="datetime2(f)",
        dpone="timestamp(f)",
        read=_TEXT,
        refused="with f = 7: years before 1678 and after 2261; CAST to datetime2(6)",
    ),
    TypeMapping(
        engine="datetimeoffset(f)",
        dpone="timestamp_tz(f)",
        read="SWITCHOFFSET to UTC, " + _TEXT,
        refused="with f = 7: years before 1678 and after 2261; CAST to datetimeoffset(6)",
    ),
    TypeMapping(engine="uniqueidentifier", dpone="uuid", read="as 16 bytes in the order of its text"),
    TypeMapping(engine="char, varchar, nchar, nvarchar, sysname", dpone="string", read="as UTF-16 from the driver"),
    TypeMapping(
        engine="varchar(max), nvarchar(max), text, ntext, xml",
        dpone="string",
        read="as nvarchar(max)",
        refused=_BOUNDED,
    ),
    TypeMapping(engine="binary, varbinary", dpone="binary", read="as it is"),
    TypeMapping(engine="varbinary(max), image", dpone="binary", read="as varbinary(max)", refused=_BOUNDED),
    TypeMapping(engine="rowversion, timestamp", dpone="binary", read="CAST AS binary(8)"),
    TypeMapping(
        engine="sql_variant, hierarchyid, geography, geometry and all others",
        dpone="unsupported",
        read="",
        refused="the column; CAST it in a query",
    ),
)
