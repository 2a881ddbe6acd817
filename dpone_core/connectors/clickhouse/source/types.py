"""How ClickHouse's types are read: exactly, by an expression of the select list, or reported as unsupported.

A DateTime is an instant whatever its zone, except where dpone itself stored a wall clock (column comment). 128-bit
integers are read as decimal(39,0); enums and addresses as their text; FixedString as the bytes it is. 256-bit
integers, arrays, maps, tuples, JSON, variants, intervals, geometry and aggregate states have no exact flat form.
"""

from __future__ import annotations

import re
from typing import Final

from dpone_core.connectors._sql.text import quote_backtick
from dpone_core.connectors.clickhouse.types import COMMENTS, column_of, unit_digits
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType

_WRAPPED: Final = re.compile(r"(Nullable|LowCardinality)\((.*)\)", re.DOTALL)
_SIMPLE_AGGREGATE: Final = re.compile(r"SimpleAggregateFunction\(\w+, (.*)\)", re.DOTALL)
_DATETIME64: Final = re.compile(r"DateTime64\((\d)(?:, '[^']*')?\)")
_DATETIME: Final = re.compile(r"DateTime(?:\('[^']*'\))?")
_TIME64: Final = re.compile(r"Time64\((\d)\)")
_FIXED: Final = re.compile(r"FixedString\(\d+\)")
_ENUM: Final = re.compile(r"Enum(?:8|16)\(.*\)", re.DOTALL)
_AS_TEXT: Final = frozenset({"IPv4", "IPv6"})
_HUGE: Final = frozenset({"Int128", "UInt128"})
CURSOR_KINDS: Final = frozenset(
    {kind for kind in ColumnKind if kind.value.startswith(("int", "uint"))}
    | {ColumnKind.DECIMAL, ColumnKind.STRING, ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ}
)


def source_column(name: str, text: str, comment: str) -> Column:
    """A column, from ClickHouse's name of its type; `native` is that name without Nullable and LowCardinality."""
    inner, nullable = _unwrap(text)
    return Column(name=name, type=_type_of(name, inner, comment), nullable=nullable)


def _unwrap(text: str) -> tuple[str, bool]:
    nullable = False
    while (wrapped := _WRAPPED.fullmatch(text) or _SIMPLE_AGGREGATE.fullmatch(text)) is not None:
        nullable = nullable or wrapped.group(1) == "Nullable"
        text = wrapped.groups()[-1]
    return text, nullable


def _type_of(name: str, text: str, comment: str) -> ColumnType:
    wall_clock = comment == COMMENTS[ColumnKind.TIMESTAMP]
    instant = ColumnKind.TIMESTAMP if wall_clock else ColumnKind.TIMESTAMP_TZ
    if text in _AS_TEXT or _ENUM.fullmatch(text) is not None:
        return ColumnType(kind=ColumnKind.STRING, native=text)
    if _FIXED.fullmatch(text) is not None:
        return ColumnType(kind=ColumnKind.BINARY, native=text)
    if text in _HUGE:
        return ColumnType(kind=ColumnKind.DECIMAL, precision=39, scale=0, native=text)
    if text == "BFloat16":
        return ColumnType(kind=ColumnKind.FLOAT32, native=text)
    if (moment := _DATETIME64.fullmatch(text)) is not None:
        return ColumnType(kind=instant, fraction=unit_digits(int(moment.group(1))), native=text)
    if _DATETIME.fullmatch(text) is not None:
        return ColumnType(kind=instant, fraction=0, native=text)
    if text == "Time":
        return ColumnType(kind=ColumnKind.TIME, fraction=0, native=text)
    if (clock := _TIME64.fullmatch(text)) is not None:
        return ColumnType(kind=ColumnKind.TIME, fraction=unit_digits(int(clock.group(1))), native=text)
    return column_of(name, text, comment).type


def reading_expression(column: Column) -> str:
    """The SQL in the select list for a column; its values have exactly the Arrow type of the column."""
    quoted, native = quote_backtick(column.name), column.type.native
    match column.type.kind:
        case ColumnKind.STRING if native != "String":
            return f"toString({quoted})"
        case ColumnKind.UUID:
            return f"UUIDToNum({quoted})"
        case ColumnKind.DECIMAL if native in _HUGE:
            return f"toDecimal256({quoted}, 0)"
        case ColumnKind.FLOAT32 if native != "Float32":
            return f"toFloat32({quoted})"
        case ColumnKind.DATE:
            return f"toDate32({quoted})"
        case ColumnKind.TIMESTAMP | ColumnKind.TIMESTAMP_TZ:
            return f"toDateTime64({quoted}, {column.type.fraction}, 'UTC')"
        case ColumnKind.TIME if column.type.fraction:
            return f"toTime64({quoted}, {column.type.fraction})"
        case _:
            return quoted


def misfit_condition(column: Column) -> str | None:
    """SQL that is true for a value at which `reading_expression` or the Arrow output stops; None
    where no value does."""
    quoted, native = quote_backtick(column.name), column.type.native
    if column.type.kind is ColumnKind.TIME:
        seconds = f"toInt64({quoted})" if native == "Time" else f"toDecimal128({quoted}, 9)"
        return f"{seconds} < 0 OR {seconds} >= 86400"
    if column.type.fraction == 9 and native.startswith(("DateTime64(7", "DateTime64(8")):
        return f"{quoted} < '1677-09-22 00:00:00' OR {quoted} >= '2262-04-11 00:00:00'"
    return None


def bound_expression(column: Column, parameter: str) -> str:
    """The SQL that turns a bound text parameter into a value of the cursor's type."""
    text = f"{{{parameter}:String}}"
    match column.type.kind:
        case ColumnKind.STRING:
            return text
        case ColumnKind.DATE:
            return f"toDate32({text})"
        case ColumnKind.TIMESTAMP | ColumnKind.TIMESTAMP_TZ:
            return f"parseDateTime64BestEffort({text}, {column.type.fraction}, 'UTC')"
        case _:
            return f"CAST({text} AS {column.type.native})"


def maximum_expression(column: Column) -> str:
    """The SQL of the greatest value as text; NULL when there are no rows."""
    greatest = f"maxOrNull({quote_backtick(column.name)})"
    if column.type.kind in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ):
        return f"toString(toDateTime64({greatest}, {column.type.fraction}, 'UTC'))"
    return f"toString({greatest})"


def iso_text(column: Column, text: str) -> str:
    """A text of ClickHouse in the form of `CursorWindow`."""
    if column.type.kind not in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ):
        return text
    return text.replace(" ", "T") + ("+00:00" if column.type.kind is ColumnKind.TIMESTAMP_TZ else "")
