"""Reads the columns of a table from the SQL Server catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from dpone_core.connectors.mssql.types import UNBOUNDED, column_type
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column

_COLUMNS: Final = (
    "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION,"
    " IS_NULLABLE FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION"
)


def table_columns(
    ask: Callable[[str, Sequence[object]], list[tuple[Any, ...]]], table: TableName
) -> tuple[Column, ...]:
    """In physical order; () when there is no such table. The schema of `table` must be spelled out."""
    return tuple(
        Column(
            name=str(name),
            type=column_type(_native(str(kind), length, precision, scale, fraction)),
            nullable=nullable == "YES",
        )
        for name, kind, length, precision, scale, fraction, nullable in ask(_COLUMNS, (table.schema, table.name))
    )


def _native(kind: str, length: int | None, precision: int | None, scale: int | None, fraction: int | None) -> str:
    """The type as T-SQL writes it, from one row of INFORMATION_SCHEMA."""
    name = kind.lower()
    if name in ("decimal", "numeric"):
        return f"{name}({precision},{scale})"
    if name in ("time", "datetime2", "datetimeoffset"):
        return f"{name}({fraction})"
    if length is None or name in ("text", "ntext", "image", "xml"):
        return name
    return f"{name}(max)" if length == UNBOUNDED else f"{name}({length})"
