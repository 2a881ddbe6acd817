"""Column types of dpone as ClickHouse types and back, and the ranges of date types that wrap around silently.

ClickHouse has one type for text and bytes, and one for wall clocks and instants. A column comment tells them apart:
bytes in String, and wall clocks, which are stored as if they were UTC so that no server zone can shift them (VAL-02,
CH-23). Without the comment a DateTime is an instant whatever its zone, for source and sink.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Final

from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType

COMMENTS: Final = {
    ColumnKind.BINARY: "dpone: bytes",
    ColumnKind.TIMESTAMP: "dpone: wall clock without time zone",
}
_KIND_OF_COMMENT: Final = {comment: kind for kind, comment in COMMENTS.items()}
_PLAIN: Final = {
    ColumnKind.BOOLEAN: "Bool",
    ColumnKind.INT8: "Int8",
    ColumnKind.INT16: "Int16",
    ColumnKind.INT32: "Int32",
    ColumnKind.INT64: "Int64",
    ColumnKind.UINT8: "UInt8",
    ColumnKind.UINT16: "UInt16",
    ColumnKind.UINT32: "UInt32",
    ColumnKind.UINT64: "UInt64",
    ColumnKind.FLOAT32: "Float32",
    ColumnKind.FLOAT64: "Float64",
    ColumnKind.STRING: "String",
    ColumnKind.BINARY: "String",
    ColumnKind.DATE: "Date32",
    ColumnKind.UUID: "UUID",
}
_KIND_OF_PLAIN: Final = {text: kind for kind, text in _PLAIN.items() if kind is not ColumnKind.BINARY} | {
    "Date": ColumnKind.DATE
}
_WRAPPED: Final = re.compile(r"(Nullable|LowCardinality)\((.*)\)", re.DOTALL)
_DECIMAL: Final = re.compile(r"Decimal\((\d+), (\d+)\)")
_DATETIME64: Final = re.compile(r"DateTime64\((\d)(?:, '[^']*')?\)")
_DATETIME: Final = re.compile(r"DateTime(?:\('[^']*'\))?")
_TIME64: Final = re.compile(r"Time64\((\d)\)")
_EXACT_FRACTIONS: Final = (0, 3, 6, 9)
"""Digits Arrow has a unit for; ClickHouse would cut a finer value down to any other number of digits."""
_DEFAULT_FRACTION: Final = 6
_TIMES: Final = frozenset({ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ, ColumnKind.TIME})

RANGES: Final[dict[str, tuple[date | datetime, date | datetime]]] = {
    "Date": (date(1970, 1, 1), date(2149, 6, 6)),
    "Date32": (date(1900, 1, 1), date(2299, 12, 31)),
    "DateTime": (datetime(1970, 1, 1, tzinfo=UTC), datetime(2106, 2, 7, 6, 28, 15, tzinfo=UTC)),
}
"""First and last value; ClickHouse turns anything outside into another date without an error."""
DOCUMENTED_SECONDS: Final = (-2_208_988_800, 10_413_791_999)
SHOWN_SECONDS: Final = (-62_167_219_200, 253_402_300_799)
"""First and last second of a DateTime64 since 1970: 1900 to 2299 as documented, and the years 0000 to 9999 that newer
servers show. Any number of ticks is stored, and one outside is shown as the end."""


def unit_digits(digits: int) -> int:
    """How many digits of a second the coarsest Arrow unit has that keeps all `digits`."""
    return next(each for each in _EXACT_FRACTIONS if digits <= each)


def stored_type(wanted: ColumnType) -> ColumnType:
    """The type that the catalogue will show for a column of a new table; seconds have 0, 3, 6 or 9 digits there
    (VAL-06)."""
    if wanted.kind not in _TIMES:
        return wanted
    return replace(wanted, fraction=unit_digits(_DEFAULT_FRACTION if wanted.fraction is None else wanted.fraction))


def type_text(column: Column) -> str:
    """The ClickHouse type of a column in DDL. Raises ConnectorError `sink_column_unsupported` where there is none."""
    text = _base_text(column)
    return f"Nullable({text})" if column.nullable else text


def _base_text(column: Column) -> str:
    kind, fraction = column.type.kind, stored_type(column.type).fraction
    plain = _PLAIN.get(kind)
    if plain is not None:
        return plain
    match kind:
        case ColumnKind.DECIMAL if column.type.precision is not None and column.type.precision <= 76:
            return f"Decimal({column.type.precision}, {column.type.scale})"
        case ColumnKind.TIMESTAMP | ColumnKind.TIMESTAMP_TZ:
            return f"DateTime64({fraction}, 'UTC')"
        case ColumnKind.TIME:
            return f"Time64({fraction})"
        case _:
            raise ConnectorError(
                f"column {column.name!r}: ClickHouse has no type for {column.type}", code="sink_column_unsupported"
            )


def column_of(name: str, text: str, comment: str) -> Column:
    """A column of an existing table. A type that dpone does not write is `unsupported` with its native name."""
    inner, nullable = text, False
    while (wrapped := _WRAPPED.fullmatch(inner)) is not None:
        nullable = nullable or wrapped.group(1) == "Nullable"
        inner = wrapped.group(2)
    found = _type_of(inner, _KIND_OF_COMMENT.get(comment))
    return Column(name=name, type=found, nullable=nullable)


def _type_of(text: str, comment_of: ColumnKind | None) -> ColumnType:
    instant = ColumnKind.TIMESTAMP if comment_of is ColumnKind.TIMESTAMP else ColumnKind.TIMESTAMP_TZ
    if text == "String" and comment_of is ColumnKind.BINARY:
        return ColumnType(kind=ColumnKind.BINARY, native=text)
    plain = _KIND_OF_PLAIN.get(text)
    if plain is not None:
        return ColumnType(kind=plain, native=text)
    if (decimal := _DECIMAL.fullmatch(text)) is not None:
        return ColumnType(
            kind=ColumnKind.DECIMAL, precision=int(decimal.group(1)), scale=int(decimal.group(2)), native=text
        )
    if (moment := _DATETIME64.fullmatch(text)) is not None and int(moment.group(1)) in _EXACT_FRACTIONS:
        return ColumnType(kind=instant, fraction=int(moment.group(1)), native=text)
    if _DATETIME.fullmatch(text) is not None:
        return ColumnType(kind=instant, fraction=0, native="DateTime")
    if (clock := _TIME64.fullmatch(text)) is not None and int(clock.group(1)) in _EXACT_FRACTIONS:
        return ColumnType(kind=ColumnKind.TIME, fraction=int(clock.group(1)), native=text)
    return ColumnType(kind=ColumnKind.UNSUPPORTED, native=text)
