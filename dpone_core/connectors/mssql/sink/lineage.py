"""The lineage columns as T-SQL literals, and the row id in T-SQL."""

from __future__ import annotations

from typing import Final

from dpone_core.connectors._sql.row_id import CONTROL_ESCAPES
from dpone_core.connectors.mssql.text import quote_name
from dpone_core.model.table_schema import Column, ColumnKind

from .catalog import national_literal
from .types import lineage_type

UTF8_COLLATION: Final = "Latin1_General_100_BIN2_UTF8"
"""Of SQL Server 2019: what makes HASHBYTES see UTF-8."""
_EXACT: Final = "Latin1_General_100_BIN2"


def constant_expression(name: str, text: str) -> str:
    declared = lineage_type(name)
    return (
        f"CAST({national_literal(text)} AS {declared})"
        if declared.startswith("datetimeoffset")
        else national_literal(text)
    )


class MssqlRowId:
    """RowIdDialect of SQL Server; every piece is text in UTF-16, hashed as UTF-8."""

    def literal(self, text: str) -> str:
        return national_literal(text)

    def concat(self, parts: tuple[str, ...]) -> str:
        return f"CONCAT(CAST(N'' AS nvarchar(max)), {', '.join(parts)})"

    def plain_text(self, column: Column) -> str:
        quoted = quote_name(column.name)
        match column.type.kind:
            case ColumnKind.STRING:
                return quoted
            case ColumnKind.BOOLEAN:
                return f"CASE {quoted} WHEN 1 THEN N'true' WHEN 0 THEN N'false' END"
            case ColumnKind.DATE:
                return f"CONVERT(nvarchar(10), {quoted}, 23)"
            case ColumnKind.TIMESTAMP:
                return _clock(f"CAST({quoted} AS datetime2(6))")
            case ColumnKind.TIMESTAMP_TZ:
                wall = _clock(f"CAST(SWITCHOFFSET({quoted}, '+00:00') AS datetime2(6))")
                return f"CONCAT({wall}, N'+00:00')"
            case ColumnKind.UUID:
                return f"LOWER(CONVERT(nvarchar(36), {quoted}))"
            case _:
                return f"CAST({quoted} AS nvarchar(60))"

    def json_string(self, expression: str) -> str:
        escaped = f"{expression} COLLATE {_EXACT}"
        for plain, code in (("\\", "\\\\"), ('"', '\\"')):
            escaped = f"REPLACE({escaped}, {national_literal(plain)}, {national_literal(code)})"
        for control, code in CONTROL_ESCAPES:
            escaped = f"REPLACE({escaped}, NCHAR({ord(control)}), {national_literal(code)})"
        return f"CONCAT(N'\"', {escaped}, N'\"')"

    def or_null_text(self, column: Column, expression: str) -> str:
        return f"CASE WHEN {quote_name(column.name)} IS NULL THEN N'null' ELSE {expression} END"

    def sha256_hex(self, expression: str) -> str:
        utf8 = f"CAST({expression} COLLATE {UTF8_COLLATION} AS varchar(max))"
        return f"LOWER(CONVERT(nvarchar(64), HASHBYTES('SHA2_256', {utf8}), 2))"


def _clock(moment: str) -> str:
    """The SQL text of a moment as Python writes it: without a fraction of zero."""
    return f"REPLACE(CONVERT(nvarchar(27), {moment}, 121), N'.000000', N'')"
