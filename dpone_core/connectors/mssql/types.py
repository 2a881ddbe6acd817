"""SQL Server types -> ours, and the T-SQL that reads each kind exactly by every reader.

Dates with a time travel as text that the server writes (style 121) and Arrow parses: drivers bend them (a
datetimeoffset is unknown to pyodbc, its seventh digit is lost in Python, year 9999 does not fit nanoseconds).
Contract: MSSQL-01, MSSQL-03, MSSQL-04, MSSQL-05, MSSQL-07.
"""

from __future__ import annotations

import re
from typing import Final

from dpone_core.connectors._sql.probe import CountDialect
from dpone_core.connectors.mssql.text import quote_name
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType

UNBOUNDED: Final = -1
_NATIVE: Final = re.compile(r"^([a-z0-9_ ]+?)\s*(?:\(\s*(\d+|max)\s*(?:,\s*(\d+)\s*)?\))?$")
_PLAIN: Final = {
    "bit": ColumnKind.BOOLEAN,
    "tinyint": ColumnKind.UINT8,
    "smallint": ColumnKind.INT16,
    "int": ColumnKind.INT32,
    "bigint": ColumnKind.INT64,
    "real": ColumnKind.FLOAT32,
    "float": ColumnKind.FLOAT64,
    "date": ColumnKind.DATE,
    "uniqueidentifier": ColumnKind.UUID,
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar", "sysname", "text", "ntext", "xml"), ColumnKind.STRING),
    **dict.fromkeys(("binary", "varbinary", "image", "rowversion", "timestamp"), ColumnKind.BINARY),
}
_TEMPORAL: Final = {
    "time": ColumnKind.TIME,
    "datetime2": ColumnKind.TIMESTAMP,
    "datetimeoffset": ColumnKind.TIMESTAMP_TZ,
}
_MONEY: Final = {"money": 19, "smallmoney": 10}
_FIXED_FRACTION: Final = {"datetime": 3, "smalldatetime": 0}
_LONG_TEXT: Final = frozenset({"text", "ntext", "xml"})
_ROWVERSION: Final = frozenset({"rowversion", "timestamp"})
_DEFAULT_FRACTION: Final = 7
TEXTUAL_KINDS: Final = frozenset({ColumnKind.TIME, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})


def parts_of(native: str) -> tuple[str, int | None, int | None]:
    """The name, first and second number of a type as SQL Server writes it; -1 stands for max."""
    found = _NATIVE.match(native.lower().strip())
    if found is None:
        return native.lower(), None, None
    name, first, second = found.groups()
    size = None if first is None else UNBOUNDED if first == "max" else int(first)
    return name, size, None if second is None else int(second)


def column_type(native: str) -> ColumnType:
    """Our type of `decimal(18,4)`, `nvarchar(max)` ..; `unsupported` for CLR types, sql_variant and the unknown."""
    name, first, second = parts_of(native)
    if name in ("decimal", "numeric"):
        return ColumnType(kind=ColumnKind.DECIMAL, precision=first or 18, scale=second or 0, native=native)
    if name in _MONEY:
        return ColumnType(kind=ColumnKind.DECIMAL, precision=_MONEY[name], scale=4, native=native)
    if name in _FIXED_FRACTION:
        return ColumnType(kind=ColumnKind.TIMESTAMP, fraction=_FIXED_FRACTION[name], native=native)
    if name in _TEMPORAL:
        fraction = _DEFAULT_FRACTION if first is None else first
        return ColumnType(kind=_TEMPORAL[name], fraction=fraction, native=native)
    if name == "float" and first is not None and first <= 24:
        return ColumnType(kind=ColumnKind.FLOAT32, native=native)
    return ColumnType(kind=_PLAIN.get(name, ColumnKind.UNSUPPORTED), native=native)


def is_unbounded(column: Column) -> bool:
    """Whether values have no maximum length that the driver could know."""
    name, first, _ = parts_of(column.type.native)
    return first == UNBOUNDED or name in _LONG_TEXT or name == "image"


def reading_expression(column: Column) -> str:
    """The value in the form that every reader carries exactly."""
    quoted = quote_name(column.name)
    name, _, _ = parts_of(column.type.native)
    kind = column.type.kind
    if kind in TEXTUAL_KINDS:
        return _as_text(column, quoted)
    if name in _MONEY:
        return f"CAST({quoted} AS decimal({_MONEY[name]},4))"
    if kind is ColumnKind.UUID:
        return f"CONVERT(binary(16), REPLACE(CONVERT(char(36), {quoted}), '-', ''), 2)"
    if name in _ROWVERSION:
        return f"CAST({quoted} AS binary(8))"
    if name == "image":
        return f"CAST({quoted} AS varbinary(max))"
    if kind is ColumnKind.STRING and is_unbounded(column):
        return f"CAST({quoted} AS nvarchar(max))"
    return quoted


def _as_text(column: Column, quoted: str) -> str:
    kind, fraction = column.type.kind, column.type.fraction or 0
    if kind is ColumnKind.TIME:
        return f"CONVERT(varchar(16), {quoted}, 121)"
    if kind is ColumnKind.TIMESTAMP_TZ:
        wall = f"CAST(SWITCHOFFSET({quoted}, '+00:00') AS datetime2({fraction}))"
        return f"CONVERT(varchar(27), {wall}, 121) + 'Z'"
    if parts_of(column.type.native)[0] in _FIXED_FRACTION:
        return f"CONVERT(varchar(27), CAST({quoted} AS datetime2({fraction})), 121)"
    return f"CONVERT(varchar(27), {quoted}, 121)"


def length_expression(column: Column) -> str:
    """SQL expression for the length of an unbounded value: UTF-16 code units of text, bytes of binary."""
    quoted = quote_name(column.name)
    if column.type.kind is ColumnKind.STRING:
        return f"DATALENGTH(CAST({quoted} AS nvarchar(max))) / 2"
    return f"DATALENGTH(CAST({quoted} AS varbinary(max)))"


def comparison_expression(column: Column) -> str:
    """The SQL whose distinct values are counted: text by its bytes, so that case, accents and trailing blanks count
    (MSSQL-16); other kinds as the engine compares them."""
    quoted = quote_name(column.name)
    if column.type.kind is ColumnKind.STRING:
        return f"CAST(CAST({quoted} AS nvarchar(max)) AS varbinary(max))"
    return quoted


COUNTS: Final = CountDialect(
    rows="COUNT_BIG(*)",
    nulls=lambda column: f"COUNT_BIG(*) - COUNT_BIG({quote_name(column.name)})",
    distincts=lambda column: f"COUNT_BIG(DISTINCT {comparison_expression(column)})",
)
"""Distinct text is told apart by its bytes, whatever the collation."""
