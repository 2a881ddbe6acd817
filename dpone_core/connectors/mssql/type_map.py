"""Which SQL Server types are read and written, and how; the reference page is generated from this table."""

from __future__ import annotations

from typing import Final

from dpone_core.model.type_map import TypeMapping

_TEXT: Final = "as text, parsed exactly by Arrow"
_BOUNDED: Final = "a value longer than the connection's max_text_size"

TYPES: Final = (
    TypeMapping(engine="bit", dpone="boolean", read="as it is", written="boolean"),
    TypeMapping(engine="tinyint", dpone="uint8", read="as it is", written="uint8"),
    TypeMapping(engine="smallint", dpone="int16", read="as it is", written="int8, int16"),
    TypeMapping(engine="int", dpone="int32", read="as it is", written="int32, uint16"),
    TypeMapping(engine="bigint", dpone="int64", read="as it is", written="int64, uint32"),
    TypeMapping(
        engine="decimal(p,s), numeric(p,s)",
        dpone="decimal(p,s)",
        read="as it is",
        written="decimal(p,s), uint64 as decimal(20,0)",
    ),
    TypeMapping(engine="money", dpone="decimal(19,4)", read="CAST AS decimal(19,4)", written="decimal(19,4)"),
    TypeMapping(engine="smallmoney", dpone="decimal(10,4)", read="CAST AS decimal(10,4)", written="decimal(10,4)"),
    TypeMapping(engine="real", dpone="float32", read="as it is", written="float32"),
    TypeMapping(engine="float", dpone="float64", read="as it is", written="float64"),
    TypeMapping(engine="date", dpone="date", read="as it is", written="date"),
    TypeMapping(engine="time(f)", dpone="time(f)", read=_TEXT, written="time(f) up to 7 digits"),
    TypeMapping(engine="smalldatetime", dpone="timestamp(0)", read=_TEXT, written=""),
    TypeMapping(
        engine="datetime", dpone="timestamp(3)", read="as datetime2(3) in text: .000, .003 and .007", written=""
    ),
    TypeMapping(
        engine="datetime2(f)",
        dpone="timestamp(f)",
        read=_TEXT,
        written="timestamp(f) up to 7 digits",
        refused="with f = 7: years before 1678 and after 2261; CAST to datetime2(6)",
    ),
    TypeMapping(
        engine="datetimeoffset(f)",
        dpone="timestamp_tz(f)",
        read="SWITCHOFFSET to UTC, " + _TEXT,
        written="timestamp_tz(f) up to 7 digits",
        refused="with f = 7: years before 1678 and after 2261; CAST to datetimeoffset(6)",
    ),
    TypeMapping(engine="uniqueidentifier", dpone="uuid", read="as 16 bytes in the order of its text", written="uuid"),
    TypeMapping(
        engine="char, varchar, nchar, nvarchar, sysname",
        dpone="string",
        read="as UTF-16 from the driver",
        written="string into nvarchar; created as nvarchar(450) for a merge key",
    ),
    TypeMapping(
        engine="varchar(max), nvarchar(max), text, ntext, xml",
        dpone="string",
        read="as nvarchar(max)",
        written="string into nvarchar(max)",
        refused=_BOUNDED,
    ),
    TypeMapping(engine="binary, varbinary", dpone="binary", read="as it is", written="binary into varbinary"),
    TypeMapping(
        engine="varbinary(max), image",
        dpone="binary",
        read="as varbinary(max)",
        written="binary into varbinary(max)",
        refused=_BOUNDED,
    ),
    TypeMapping(engine="rowversion, timestamp", dpone="binary", read="CAST AS binary(8)"),
    TypeMapping(
        engine="sql_variant, hierarchyid, geography, geometry and all others",
        dpone="unsupported",
        read="",
        refused="the column; CAST it in a query",
    ),
)
