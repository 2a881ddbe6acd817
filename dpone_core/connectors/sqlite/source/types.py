"""Declared SQLite types -> ours, and the SQL that says what a value is.

A declared type is a promise that every value must keep; `reading` says how that is checked. Decimals and times are
parsed strictly, so a scale that does not fit stops too. Without a usable declaration the storage classes of the whole
result decide, if they agree (INTEGER, REAL or both, TEXT, BLOB).
"""

from __future__ import annotations

import re
from typing import Final

from dpone_core.model.table_schema import Column, ColumnKind, ColumnType

_DECIMAL: Final = re.compile(r"(?:DECIMAL|NUMERIC|DEC|NUMBER)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_MAX_PRECISION: Final = 38
UNDECLARED: Final = "undeclared"

STORAGE_CLASS: Final = {
    ColumnKind.INT64: "integer",
    ColumnKind.FLOAT64: "real",
    ColumnKind.STRING: "text",
    ColumnKind.BINARY: "blob",
    ColumnKind.DATE: "text",
    ColumnKind.TIME: "text",
    ColumnKind.TIMESTAMP: "text",
    ColumnKind.TIMESTAMP_TZ: "text",
}


def declared_type(declaration: str) -> ColumnType | None:
    """The column type of a declared type; None when the declaration fixes none (absent, or NUMERIC without digits)."""
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
    native = UNDECLARED if kind is not ColumnKind.UNSUPPORTED else f"{UNDECLARED}, mixed " + "/".join(sorted(classes))
    return ColumnType(kind=kind, native=native)


def misfit_condition(column: Column, quoted: str) -> str:
    """True for a value that breaks the declaration by its storage class."""
    match column.type.kind:
        case ColumnKind.DECIMAL:
            return f"typeof({quoted}) = 'blob'"
        case ColumnKind.BOOLEAN:
            return f"({quoted} IS NOT NULL AND (typeof({quoted}) <> 'integer' OR ({quoted} <> 0 AND {quoted} <> 1)))"
        case kind:
            return f"(typeof({quoted}) <> '{STORAGE_CLASS[kind]}' AND {quoted} IS NOT NULL)"


def comparison_expression(column: Column, quoted: str) -> str:
    """The SQL whose values order and compare like the column; a time as `YYYY-MM-DD hh:mm:ss.ffffff`."""
    if column.type.kind is not ColumnKind.TIMESTAMP:
        return quoted
    return (
        f"CASE WHEN length({quoted}) = 10 THEN {quoted} || ' 00:00:00.000000' "
        f"WHEN instr({quoted}, '.') > 0 THEN substr(replace({quoted}, 'T', ' ') || '000000', 1, 26) "
        f"ELSE replace({quoted}, 'T', ' ') || '.000000' END"
    )
