"""MySQL types -> ours, from the catalog for tables and from the result's own fields for queries.

Everything that a binary reader could bend travels as text that the server writes: decimals, dates, times. Arrow parses
it exactly, so a zero date or a time of 800 hours stops at its column instead of becoming NULL or 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dpone_core.connectors.mysql.text import quote_name
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType

_SIGNED: Final = {
    "tinyint": ColumnKind.INT8,
    "smallint": ColumnKind.INT16,
    "mediumint": ColumnKind.INT32,
    "int": ColumnKind.INT32,
    "bigint": ColumnKind.INT64,
}
_UNSIGNED: Final = {
    "tinyint": ColumnKind.UINT8,
    "smallint": ColumnKind.UINT16,
    "mediumint": ColumnKind.UINT32,
    "int": ColumnKind.UINT32,
    "bigint": ColumnKind.UINT64,
}
_PLAIN: Final = {
    "float": ColumnKind.FLOAT32,
    "double": ColumnKind.FLOAT64,
    "year": ColumnKind.UINT16,
    "date": ColumnKind.DATE,
    "uuid": ColumnKind.UUID,
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), ColumnKind.STRING),
    **dict.fromkeys(("enum", "set", "json", "inet4", "inet6", "null"), ColumnKind.STRING),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), ColumnKind.BINARY),
}
_TEMPORAL: Final = {
    "datetime": ColumnKind.TIMESTAMP,
    "timestamp": ColumnKind.TIMESTAMP_TZ,
    "time": ColumnKind.TIME,
}
_AS_TEXT: Final = frozenset({ColumnKind.DECIMAL, ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIME})
_SPECIAL_TEXT: Final = ("enum", "set", "json", "inet4", "inet6", "null")
TEMPORAL_KINDS: Final = frozenset({ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ, ColumnKind.TIME})

UNSIGNED_FLAG: Final = 0x20
ENUM_FLAG: Final = 0x100
SET_FLAG: Final = 0x800
BINARY_CHARSET: Final = 63
_NO_FRACTION: Final = 31
_FIELD_TYPES: Final = {
    0: "decimal", 1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 6: "null", 7: "timestamp",
    8: "bigint", 9: "mediumint", 10: "date", 11: "time", 12: "datetime", 13: "year", 14: "date", 16: "bit",
    245: "json", 246: "decimal", 247: "enum", 248: "set",
}  # fmt: skip
_TEXT_FIELDS: Final = frozenset({15, 249, 250, 251, 252, 253, 254})


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeType:
    """One engine type: `name` without its digits; `digits` and `scale` of decimals and bits; `fraction` of times."""

    name: str
    label: str
    unsigned: bool = False
    digits: int | None = None
    scale: int | None = None
    fraction: int | None = None


def native_of_field(
    type_code: int, *, length: int, decimals: int, flags: int, charset: int, width_per_character: int
) -> NativeType:
    """The type of one field of a result, from what the server says about it. Text has at most 4
    bytes for a character."""
    unsigned = bool(flags & UNSIGNED_FLAG)
    if type_code in _TEXT_FIELDS:
        if flags & ENUM_FLAG:
            return NativeType(name="enum", label="enum")
        if flags & SET_FLAG:
            return NativeType(name="set", label="set")
        if charset == BINARY_CHARSET and length == 0:
            return NativeType(name="null", label="null")
        if charset == BINARY_CHARSET:
            return NativeType(name="varbinary", label=f"binary({length})")
        return NativeType(name="text", label=f"text({length // width_per_character})")
    name = _FIELD_TYPES.get(type_code)
    if name is None:
        return NativeType(name="unknown", label=f"field type {type_code}")
    if name == "decimal":
        precision = length - (decimals > 0) - (not unsigned)
        return NativeType(name=name, label=f"decimal({precision},{decimals})", digits=precision, scale=decimals)
    if name == "bit":
        return NativeType(name=name, label=f"bit({length})", digits=length)
    fraction = decimals if name in _TEMPORAL and decimals != _NO_FRACTION else None
    type_label = f"{name} unsigned" if unsigned and name in _UNSIGNED else name
    return NativeType(name=name, label=type_label, unsigned=unsigned, fraction=fraction)


def column_type(native: NativeType) -> ColumnType:
    """Our type; `unsupported` for spatial types and everything unknown."""
    name, type_label = native.name, native.label
    if name in _SIGNED:
        return ColumnType(kind=(_UNSIGNED if native.unsigned else _SIGNED)[name], native=type_label)
    if name in _TEMPORAL:
        return ColumnType(kind=_TEMPORAL[name], fraction=native.fraction or 0, native=type_label)
    if name == "bit" and native.digits is not None:
        return ColumnType(kind=_bits(native.digits), native=type_label)
    if name == "decimal" and native.digits is not None and native.scale is not None:
        if not 1 <= native.digits <= 65 or not 0 <= native.scale <= native.digits:
            return ColumnType(kind=ColumnKind.UNSUPPORTED, native=type_label)
        return ColumnType(kind=ColumnKind.DECIMAL, precision=native.digits, scale=native.scale, native=type_label)
    return ColumnType(kind=_PLAIN.get(name, ColumnKind.UNSUPPORTED), native=type_label)


def _bits(count: int) -> ColumnKind:
    for width, kind in ((8, ColumnKind.UINT8), (16, ColumnKind.UINT16), (32, ColumnKind.UINT32)):
        if count <= width:
            return kind
    return ColumnKind.UINT64


def reading_expression(column: Column) -> str:
    """The value in the form that every reader carries exactly."""
    quoted = quote_name(column.name)
    kind, native = column.type.kind, column.type.native
    if kind in _AS_TEXT:
        return f"CAST({quoted} AS CHAR)"
    if kind is ColumnKind.TIMESTAMP_TZ:
        return f"CONCAT(CAST({quoted} AS CHAR), 'Z')"
    if kind is ColumnKind.FLOAT32:
        return f"({quoted} + 0e0)"
    if kind is ColumnKind.UUID:
        return f"UNHEX(REPLACE(CAST({quoted} AS CHAR), '-', ''))"
    if native.startswith("bit"):
        return f"CAST({quoted} AS UNSIGNED)"
    if kind is ColumnKind.STRING and native.startswith(_SPECIAL_TEXT):
        return f"CAST({quoted} AS CHAR)"
    return quoted


def comparison_expression(column: Column) -> str:
    """The SQL whose distinct values are counted: text by its code points, not by a collation; other kinds as the engine
    compares them."""
    quoted = quote_name(column.name)
    if column.type.kind is ColumnKind.STRING:
        return f"CAST(CONVERT({quoted} USING utf8mb4) AS BINARY)"
    return quoted
