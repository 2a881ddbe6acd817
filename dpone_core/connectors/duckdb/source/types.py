"""How DuckDB's types are read, both those that dpone writes and those that only a source has.

HUGEINT and UHUGEINT are read as decimal(38,0), ENUM and JSON as text. INTERVAL, BIT, BIGNUM, TIME WITH TIME ZONE,
lists, arrays, STRUCT, MAP and UNION have no exact flat form and are `unsupported`. Infinite dates and times and
24:00:00 exist in DuckDB only: such a value stops the read with an error that names its column.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.duckdb.types import column_of
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType

HUGE_TYPES: Final = frozenset({"HUGEINT", "UHUGEINT"})
_DAY_MICROSECONDS: Final = 86_400_000_000
_ENDLESS_DAYS: Final = 2**31 - 1
_ENDLESS_TICKS: Final = 2**63 - 1
_TEMPORAL: Final = frozenset({ColumnKind.DATE, ColumnKind.TIME, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})
CURSOR_KINDS: Final = frozenset(
    {kind for kind in ColumnKind if kind.value.startswith(("int", "uint"))}
    | {ColumnKind.DECIMAL, ColumnKind.STRING, ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ}
)


def source_column(name: str, text: str, *, nullable: bool) -> Column:
    """A column of a table or query result, from DuckDB's name of its type."""
    if text in HUGE_TYPES:
        huge = ColumnType(kind=ColumnKind.DECIMAL, precision=38, scale=0, native=text)
        return Column(name=name, type=huge, nullable=nullable)
    if text == "JSON" or text.startswith("ENUM("):
        return Column(name=name, type=ColumnType(kind=ColumnKind.STRING, native=text), nullable=nullable)
    return column_of(name, text, nullable=nullable)


def reading_expression(column: Column) -> str:
    """The SQL in the select list for a column. A HUGEINT of more than 38 digits stops the query."""
    quoted = quote_ansi(column.name)
    if column.type.native in HUGE_TYPES:
        return f"CAST({quoted} AS DECIMAL(38,0))"
    if column.type.kind is ColumnKind.UUID:
        return f"unhex(replace({quoted}::VARCHAR, '-', ''))"
    if column.type.kind is ColumnKind.STRING:
        return f"{quoted}::VARCHAR"
    return quoted


def misfit_condition(column: Column) -> str | None:
    """SQL that is true for a value at which `reading_expression` stops; None where no value does."""
    if column.type.native not in HUGE_TYPES:
        return None
    quoted = quote_ansi(column.name)
    return f"TRY_CAST({quoted} AS DECIMAL(38,0)) IS NULL AND {quoted} IS NOT NULL"


def refuse_infinite(column: Column, values: pa.Array) -> None:
    """Raises ConnectorError `source_value_out_of_range` for an infinite date or time, or for the time 24:00:00."""
    if column.type.kind not in _TEMPORAL:
        return
    ticks = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    bounds = pc.min_max(ticks)
    if not bounds["min"].is_valid:
        return
    lowest, highest = bounds["min"].as_py(), bounds["max"].as_py()
    if column.type.kind is ColumnKind.TIME:
        refused = highest >= _DAY_MICROSECONDS
    else:
        endless = _ENDLESS_DAYS if column.type.kind is ColumnKind.DATE else _ENDLESS_TICKS
        refused = highest >= endless or lowest <= -endless
    if refused:
        raise ConnectorError(
            f"column {column.name!r}: an infinite value, or the end of a day, has no exact {column.type}",
            code="source_value_out_of_range",
            fix="declare what it becomes in source.options.special_values, or replace it in options.query",
        )
