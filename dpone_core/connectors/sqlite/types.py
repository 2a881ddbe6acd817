"""Declared SQLite types -> ours, and the SQL that reads each kind exactly or stops.

SQLite types values, not columns. A declared type is a promise that every value must keep: the generated expression
raises inside the engine ("integer overflow") at the first value whose storage class breaks it. Decimals and times are
read as text and parsed strictly by Arrow, so a scale that does not fit stops too. Without a usable declaration the
storage classes of the whole result decide, if they agree (INTEGER, REAL or both, TEXT, BLOB).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema

_DECIMAL: Final = re.compile(r"(?:DECIMAL|NUMERIC|DEC|NUMBER)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_STOP: Final = "abs(-9223372036854775808)"
_MAX_PRECISION: Final = 38

_STORAGE_CLASS: Final = {
    ColumnKind.INT64: "integer",
    ColumnKind.FLOAT64: "real",
    ColumnKind.STRING: "text",
    ColumnKind.BINARY: "blob",
    ColumnKind.DATE: "text",
    ColumnKind.TIME: "text",
    ColumnKind.TIMESTAMP: "text",
    ColumnKind.TIMESTAMP_TZ: "text",
}
_SENTINELS: Final = {
    ColumnKind.INT64: "0",
    ColumnKind.BOOLEAN: "0",
    ColumnKind.FLOAT64: "0.5",
    ColumnKind.BINARY: "x''",
}


def declared_type(declaration: str) -> ColumnType | None:
    """Our type for a declared type; None when it promises nothing (absent, or NUMERIC without digits)."""
    text = " ".join(declaration.upper().split())
    decimal = _DECIMAL.fullmatch(text)
    if decimal is not None:
        precision, scale = int(decimal.group(1)), int(decimal.group(2) or 0)
        if not 1 <= precision <= _MAX_PRECISION or scale > precision:
            return ColumnType(kind=ColumnKind.UNSUPPORTED, native=declaration)
        return ColumnType(kind=ColumnKind.DECIMAL, precision=precision, scale=scale, native=declaration)
    kind = _kind_of(text)
    if kind is None:
        return None
    fraction = 6 if kind in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ, ColumnKind.TIME) else None
    return ColumnType(kind=kind, fraction=fraction, native=declaration)


def _kind_of(text: str) -> ColumnKind | None:
    name = text.split("(", 1)[0].strip()
    if name in ("BOOLEAN", "BOOL"):
        return ColumnKind.BOOLEAN
    if name == "DATE":
        return ColumnKind.DATE
    if name == "TIME":
        return ColumnKind.TIME
    if name in ("TIMESTAMPTZ", "DATETIMETZ") or (name.startswith("TIMESTAMP") and "WITH TIME ZONE" in text):
        return ColumnKind.TIMESTAMP_TZ
    if name.startswith(("TIMESTAMP", "DATETIME")):
        return ColumnKind.TIMESTAMP
    for words, kind in _AFFINITIES:
        if any(word in name for word in words):
            return kind
    return None


_AFFINITIES: Final = (
    (("INT",), ColumnKind.INT64),
    (("CHAR", "CLOB", "TEXT", "JSON", "STRING", "UUID"), ColumnKind.STRING),
    (("BLOB", "BINARY"), ColumnKind.BINARY),
    (("REAL", "FLOA", "DOUB"), ColumnKind.FLOAT64),
)
"""SQLite's own affinity order, plus the words it would call NUMERIC although their values are text."""


def observed_type(classes: frozenset[str]) -> ColumnType:
    """The type of an undeclared column from the storage classes of all its values (NULL aside)."""
    kinds = {
        frozenset[str](): ColumnKind.STRING,
        frozenset({"integer"}): ColumnKind.INT64,
        frozenset({"real"}): ColumnKind.FLOAT64,
        frozenset({"text"}): ColumnKind.STRING,
        frozenset({"blob"}): ColumnKind.BINARY,
    }
    kind = kinds.get(classes, ColumnKind.UNSUPPORTED)
    native = "undeclared" if kind is not ColumnKind.UNSUPPORTED else "undeclared, mixed " + "/".join(sorted(classes))
    return ColumnType(kind=kind, native=native)


def sentinel(kind: ColumnKind) -> str:
    """A literal whose storage class fixes the driver's inferred type for the whole stream."""
    return _SENTINELS.get(kind, "''")


def reading_expression(column: Column, quoted: str) -> str:
    """Reads the value as its storage class, or stops the query. No IN lists: they cost a b-tree probe per value.

    An integer needs no check of ours: the driver stops at any other class in a column it took for integers, and a first
    batch that made it take something else shows in its schema (`widened`).
    """
    match column.type.kind:
        case ColumnKind.DECIMAL:
            return _decimal_text(column.type.scale or 0, quoted)
        case ColumnKind.BOOLEAN:
            return f"CASE WHEN {misfit_condition(column, quoted)} THEN {_STOP} ELSE {quoted} END"
        case ColumnKind.INT64:
            return quoted
        case kind:
            fits = f"WHEN '{_STORAGE_CLASS[kind]}' THEN {quoted} WHEN 'null' THEN NULL"
            return f"CASE typeof({quoted}) {fits} ELSE {_STOP} END"


def _decimal_text(scale: int, quoted: str) -> str:
    """SQLite keeps most decimals as doubles. Fifteen digits survive that, but the engine prints more from some size
    on; there the decimal of the declared scale is taken, if it is this very double."""
    plain, rounded = f"CAST({quoted} AS TEXT)", f"printf('%.{scale}f', {quoted})"
    long_from, long_to = f"1e{13 - scale}", f"1e{15 - scale}"
    same = f"abs({quoted}) < {long_to} AND CAST({rounded} AS REAL) = {quoted}"
    real = f"CASE WHEN {same} THEN {rounded} ELSE {plain} END"
    checked = f"CASE typeof({quoted}) WHEN 'blob' THEN {_STOP} WHEN 'real' THEN {real} ELSE {plain} END"
    return f"CASE WHEN {quoted} > -{long_from} AND {quoted} < {long_from} THEN {plain} ELSE {checked} END"


def widened(schema: TableSchema, driver: Mapping[str, str]) -> Column | None:
    """The first integer column for which the driver inferred another type; `driver` maps names to Arrow type names."""
    return next((c for c in schema.columns if c.type.kind is ColumnKind.INT64 and driver[c.name] != "int64"), None)


def misfit_condition(column: Column, quoted: str) -> str:
    """True for a value that breaks the declaration by its storage class."""
    match column.type.kind:
        case ColumnKind.DECIMAL:
            return f"typeof({quoted}) = 'blob'"
        case ColumnKind.BOOLEAN:
            return f"({quoted} IS NOT NULL AND (typeof({quoted}) <> 'integer' OR ({quoted} <> 0 AND {quoted} <> 1)))"
        case kind:
            return f"(typeof({quoted}) <> '{_STORAGE_CLASS[kind]}' AND {quoted} IS NOT NULL)"


def comparable(column: Column, quoted: str) -> str:
    """A text form of times that orders and compares like the instant: `YYYY-MM-DD hh:mm:ss.ffffff`."""
    if column.type.kind is not ColumnKind.TIMESTAMP:
        return quoted
    return (
        f"CASE WHEN length({quoted}) = 10 THEN {quoted} || ' 00:00:00.000000' "
        f"WHEN instr({quoted}, '.') > 0 THEN substr(replace({quoted}, 'T', ' ') || '000000', 1, 26) "
        f"ELSE replace({quoted}, 'T', ' ') || '.000000' END"
    )
