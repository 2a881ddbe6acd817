"""DuckDB's special values: infinite dates and moments, NaN and infinities of floats. Its decimals have none."""

from __future__ import annotations

from typing import Final

from dpone_core.connectors._sql.special_values import SpecialValueSql
from dpone_core.connectors._sql.text import literal_ansi, quote_ansi
from dpone_core.model.special_values import SpecialValue
from dpone_core.model.table_schema import Column, ColumnKind

_DATED: Final = frozenset({ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})
_FLOATS: Final = frozenset({ColumnKind.FLOAT32, ColumnKind.FLOAT64})
_HOLDERS: Final = {
    SpecialValue.INFINITY: _DATED | _FLOATS,
    SpecialValue.NEGATIVE_INFINITY: _DATED | _FLOATS,
    SpecialValue.NAN: _FLOATS,
}


def _condition(column: Column, value: SpecialValue) -> str | None:
    if column.type.kind not in _HOLDERS.get(value, ()):
        return None
    return f"{quote_ansi(column.name)} = {_literal(column, value.value)}"


def _literal(column: Column, text: str) -> str:
    return f"CAST({literal_ansi(text)} AS {column.type.native})"


SPECIAL_VALUES: Final = SpecialValueSql(quote=quote_ansi, condition=_condition, literal=_literal)
