"""PostgreSQL types as column types of dpone, and the SQL that reads each kind exactly or stops the query.

The reader takes PostgreSQL's binary values unchanged. Values that Arrow would show as others (infinite dates, 24:00,
numeric) are cast or checked in the generated SELECT. `Column.type.native` is the base type's name as `format_type`
writes it; the reading expression follows from it and the kind.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.connectors.postgres.type_map import KINDS, MAX_PRECISION, REFUSED, REFUSED_CATEGORIES, TEXT_AS_IS, TIMES
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType

MAX_SCALED_PRECISION: Final = 18
"""Decimals up to this many digits are read as one int8, scaled, and keep their 16 bytes in Arrow."""

_FIRST: Final = "4714-11-24 00:00:00 BC"
_AFTER_LAST: Final = "294247-01-01 00:00:00"
"""The wall clocks and instants both PostgreSQL and 64 bits of microseconds since 1970 hold."""


def catalog_type(name: str, *, typtype: str, category: str, typmod: int, native: str) -> ColumnType:
    """`name` is pg_type.typname of the base type (domains resolved), `typmod` its modifier (-1 = none)."""
    if name == "numeric":
        return _decimal(typmod, native)
    if typtype == "e":
        return ColumnType(kind=ColumnKind.STRING, native=native)
    kind = KINDS.get(name)
    if kind is None or category == "A":
        hint = REFUSED.get(name) or REFUSED_CATEGORIES.get(category) or "cast it to text"
        return ColumnType(kind=ColumnKind.UNSUPPORTED, native=f"{native}: {hint}")
    fraction = (6 if typmod < 0 else typmod) if kind in TIMES else None
    return ColumnType(kind=kind, fraction=fraction, native=native)


def _decimal(typmod: int, native: str) -> ColumnType:
    if typmod < 0:
        return ColumnType(kind=ColumnKind.UNSUPPORTED, native=f"{native} without precision: {REFUSED['numeric']}")
    precision, scale = ((typmod - 4) >> 16) & 0xFFFF, (((typmod - 4) & 0x7FF) ^ 0x400) - 0x400
    digits = max(precision - min(scale, 0), scale)
    if digits > MAX_PRECISION:
        return ColumnType(kind=ColumnKind.UNSUPPORTED, native=f"{native}: more than {MAX_PRECISION} digits")
    return ColumnType(kind=ColumnKind.DECIMAL, precision=digits, scale=max(scale, 0), native=native)


def reading_expression(column: Column, quoted: str) -> str:
    """The SQL that reads a column. It raises in PostgreSQL at the first value without an exact
    form; NULL stays NULL."""
    match column.type.kind:
        case ColumnKind.DECIMAL if is_scaled(column):
            factor = 10 ** (column.type.scale or 0)
            return f"({quoted} * {factor})::int8" if factor > 1 else f"{quoted}::int8"
        case ColumnKind.DECIMAL | ColumnKind.UINT64:
            return f"{quoted}::text"
        case ColumnKind.DATE:
            return _guard(quoted, f"isfinite({quoted})", "date")
        case ColumnKind.TIME:
            return _guard(quoted, f"{quoted} < '24:00'", "time")
        case ColumnKind.TIMESTAMP | ColumnKind.TIMESTAMP_TZ:
            name = "timestamp" if column.type.kind is ColumnKind.TIMESTAMP else "timestamptz"
            return _guard(quoted, _range_condition(quoted), name)
        case ColumnKind.INT64 if column.type.native == "oid":
            return f"{quoted}::int8"
        case ColumnKind.STRING:
            return comparison_expression(column, quoted)
        case _:
            return quoted


def misfit_condition(column: Column, quoted: str) -> str | None:
    """True for a value that has no exact form; None where every value has one."""
    match column.type.kind:
        case ColumnKind.DECIMAL:
            return f"{quoted}::text IN ('NaN', 'Infinity', '-Infinity')"
        case ColumnKind.DATE:
            return f"NOT isfinite({quoted})"
        case ColumnKind.TIME:
            return f"{quoted} = '24:00'"
        case ColumnKind.TIMESTAMP | ColumnKind.TIMESTAMP_TZ:
            return f"NOT ({_range_condition(quoted)})"
        case _:
            return None


def comparison_expression(column: Column, quoted: str) -> str:
    """The SQL whose distinct values are counted: the text that is read, because PostgreSQL may call different texts
    equal."""
    if column.type.kind is not ColumnKind.STRING or is_plain_text(column):
        return quoted
    return f"abbrev({quoted})" if column.type.native == "inet" else f"{quoted}::text"


def is_plain_text(column: Column) -> bool:
    return column.type.native.partition("(")[0] in TEXT_AS_IS


def is_scaled(column: Column) -> bool:
    return column.type.kind is ColumnKind.DECIMAL and (column.type.precision or 0) <= MAX_SCALED_PRECISION


def decode(column: Column, values: pa.Array) -> pa.Array:
    """Decimals from the scaled integers that are read. Raises ValueError for a value with more digits than the type."""
    if not is_scaled(column):
        return values
    precision, scale = column.type.precision or 0, column.type.scale or 0
    bounds = pc.min_max(values)
    limit = 10**precision
    if any(found is not None and abs(found) >= limit for found in (bounds["min"].as_py(), bounds["max"].as_py())):
        raise ValueError("a value has more digits than its column declares")
    wide = values.cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(
        pa.decimal128(precision, scale), len(wide), wide.buffers(), null_count=wide.null_count, offset=wide.offset
    )


def _guard(quoted: str, condition: str, type_name: str) -> str:
    """SQL that raises for every value but NULL that does not meet the condition: it casts a text that ends in words to
    the type, which no date or time type accepts."""
    return f"CASE WHEN {condition} THEN {quoted} ELSE ({quoted}::text || ' has no exact form')::{type_name} END"


def _range_condition(quoted: str) -> str:
    return f"{quoted} >= '{_FIRST}' AND {quoted} < '{_AFTER_LAST}'"
