"""Compares keys exactly: text by its bytes, whatever the collation does with case and blanks (MSSQL-15)."""

from __future__ import annotations

from collections.abc import Sequence

from dpone_core.connectors.mssql.text import quote_name
from dpone_core.model.table_schema import Column, ColumnKind


def key_list(columns: Sequence[Column], qualifier: str = "") -> str:
    return ", ".join(exact_expression(column, qualifier) for column in columns)


def same_key(columns: Sequence[Column], left: str, right: str) -> str:
    """Whether two rows have the same key: a comparison that an index can serve, and for text the bytes."""
    parts: list[str] = []
    for column in columns:
        name = quote_name(column.name)
        parts.append(f"{left}.{name} = {right}.{name}")
        if column.type.kind is ColumnKind.STRING:
            parts.append(f"{exact_expression(column, left)} = {exact_expression(column, right)}")
    return " AND ".join(parts)


def exact_expression(column: Column, qualifier: str = "") -> str:
    name = f"{qualifier}.{quote_name(column.name)}" if qualifier else quote_name(column.name)
    if column.type.kind is ColumnKind.STRING:
        return f"CAST(CAST({name} AS nvarchar(max)) AS varbinary(max))"
    return name
