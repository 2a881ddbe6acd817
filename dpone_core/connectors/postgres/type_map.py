"""PostgreSQL's types and ours as one table: how a type is read, how a kind is written, what is refused and why."""

from __future__ import annotations

from typing import Final

from dpone_core.model.table_schema import ColumnKind
from dpone_core.model.type_map import TypeMapping

MAX_PRECISION: Final = 76
KINDS: Final = {
    "bool": ColumnKind.BOOLEAN,
    "int2": ColumnKind.INT16,
    "int4": ColumnKind.INT32,
    "int8": ColumnKind.INT64,
    "oid": ColumnKind.INT64,
    "float4": ColumnKind.FLOAT32,
    "float8": ColumnKind.FLOAT64,
    "text": ColumnKind.STRING,
    "varchar": ColumnKind.STRING,
    "bpchar": ColumnKind.STRING,
    "name": ColumnKind.STRING,
    "char": ColumnKind.STRING,
    "citext": ColumnKind.STRING,
    "json": ColumnKind.STRING,
    "jsonb": ColumnKind.STRING,
    "xml": ColumnKind.STRING,
    "inet": ColumnKind.STRING,
    "cidr": ColumnKind.STRING,
    "macaddr": ColumnKind.STRING,
    "macaddr8": ColumnKind.STRING,
    "bit": ColumnKind.STRING,
    "varbit": ColumnKind.STRING,
    "interval": ColumnKind.STRING,
    "bytea": ColumnKind.BINARY,
    "date": ColumnKind.DATE,
    "time": ColumnKind.TIME,
    "timestamp": ColumnKind.TIMESTAMP,
    "timestamptz": ColumnKind.TIMESTAMP_TZ,
    "uuid": ColumnKind.UUID,
}
"""pg_type.typname of a base type -> kind; numeric and enums are decided by their modifier and typtype."""

TIMES: Final = frozenset({ColumnKind.TIME, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})
TEXT_AS_IS: Final = frozenset({"text", "character varying", "character", "bpchar", "name"})
"""Text types by their SQL name; every other type of kind string is read by its text form."""

REFUSED: Final = {
    "numeric": "cast it to numeric(p, s), or to text",
    "money": "its text depends on the server's locale; cast it to numeric(18, 2)",
    "timetz": "a time with a zone but no date is no instant; cast it to text",
    "hstore": "cast it to text, or use hstore_to_json",
    "tsvector": "cast it to text",
}
REFUSED_CATEGORIES: Final = {
    "A": "an array; use to_json or unnest",
    "C": "a composite; select its fields, or use to_json",
    "R": "a range; select lower and upper, or cast it to text",
    "G": "cast it to text",
    "P": "cast it to a type of a column",
}
"""By pg_type.typcategory, for types that have no line of their own."""


TYPES: Final = (
    TypeMapping(engine="boolean", dpone="boolean", read="as it is", written="boolean"),
    TypeMapping(engine="smallint", dpone="int16", read="as it is", written="int8, uint8 and int16"),
    TypeMapping(engine="integer", dpone="int32", read="as it is", written="uint16 and int32"),
    TypeMapping(engine="bigint", dpone="int64", read="as it is", written="uint32 and int64"),
    TypeMapping(engine="oid", dpone="int64", read="as bigint", written=""),
    TypeMapping(
        engine="numeric(p,s), at most 18 digits",
        dpone="decimal(p,s)",
        read="exactly, as one scaled bigint",
        written="decimal",
        refused="the value NaN",
        declared="nan",
    ),
    TypeMapping(
        engine="numeric(p,s), 19 to 76 digits",
        dpone="decimal(p,s)",
        read="exactly, by its text",
        written="decimal; uint64 as numeric(20, 0)",
        refused="the value NaN",
        declared="nan",
    ),
    TypeMapping(
        engine="numeric without precision, or more than 76 digits",
        dpone="unsupported",
        read="",
        written="",
        refused="as a column: cast it to numeric(p, s), or to text",
    ),
    TypeMapping(
        engine="real",
        dpone="float32",
        read="as it is, NaN and infinities too",
        written="float32",
        declared="infinity, -infinity, nan",
    ),
    TypeMapping(
        engine="double precision",
        dpone="float64",
        read="as it is, NaN and infinities too",
        written="float64",
        declared="infinity, -infinity, nan",
    ),
    TypeMapping(
        engine="text, varchar",
        dpone="string",
        read="as it is",
        written="string as text",
        refused="when written: the character NUL; more characters than varchar(n) holds",
    ),
    TypeMapping(
        engine="char(n)",
        dpone="string",
        read="padded, as it is stored",
        refused="as a column that is written, for it pads values",
    ),
    TypeMapping(
        engine="json, jsonb, xml, inet, cidr, macaddr, bit, citext, enums, name",
        dpone="string",
        read="by its text",
        written="string, cast to the type of an existing column",
        refused="when written: a text that the type does not take",
    ),
    TypeMapping(
        engine="interval", dpone="string", read="by its ISO 8601 text (P1DT2H)", written="string, cast to interval"
    ),
    TypeMapping(engine="bytea", dpone="binary", read="as it is", written="binary"),
    TypeMapping(
        engine="date",
        dpone="date",
        read="as it is",
        written="date",
        declared="infinity, -infinity",
        refused="infinity and -infinity; when written: dates before 4714 BC or after 5874897",
    ),
    TypeMapping(engine="time(f)", dpone="time(f)", read="as it is", written="time up to microseconds", refused="24:00"),
    TypeMapping(
        engine="timestamp(f)",
        dpone="timestamp(f)",
        read="as it is",
        written="timestamp up to microseconds",
        refused="infinity and -infinity, years after 294246",
        declared="infinity, -infinity",
    ),
    TypeMapping(
        engine="timestamptz(f)",
        dpone="timestamp_tz(f)",
        read="as an instant in UTC",
        written="timestamp_tz up to microseconds",
        refused="infinity and -infinity, years after 294246",
        declared="infinity, -infinity",
    ),
    TypeMapping(engine="uuid", dpone="uuid", read="as it is", written="uuid"),
    TypeMapping(
        engine="domains", dpone="of the base type", read="as the base type", written="through the base type's column"
    ),
    TypeMapping(
        engine="money, time with time zone, hstore, arrays, composites, ranges, geometry, tsvector, others",
        dpone="unsupported",
        read="",
        written="",
        refused="as a column: the message says what to cast it to",
    ),
)
