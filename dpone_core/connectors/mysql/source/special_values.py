"""MySQL's special values: the zero date, and dates whose month or day is zero. Both are recognised by their text.

In some SQL modes a comparison with '0000-00-00' is an error or a warning; text compares the same in all of them.
"""

from __future__ import annotations

from typing import Final

from dpone_core.connectors._sql.special_values import SpecialValueSql
from dpone_core.connectors.mysql.text import quote_name, text_literal
from dpone_core.model.special_values import SpecialValue, instant_of
from dpone_core.model.table_schema import Column, ColumnKind

_HOLDERS: Final = {
    SpecialValue.ZERO_DATE: frozenset({ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ}),
    SpecialValue.PARTIAL_DATE: frozenset({ColumnKind.DATE, ColumnKind.TIMESTAMP}),
}
"""A TIMESTAMP is zero or a moment since 1970."""


def _condition(column: Column, value: SpecialValue) -> str | None:
    if column.type.kind not in _HOLDERS.get(value, ()):
        return None
    text = f"CAST({quote_name(column.name)} AS CHAR)"
    zero = f"{text} = {text_literal(_zero(column))}"
    if value is SpecialValue.ZERO_DATE:
        return zero
    month, day = (f"SUBSTRING({text}, {position}, 2) = {text_literal('00')}" for position in (6, 9))
    return f"({month} OR {day}) AND NOT ({zero})"


def _zero(column: Column) -> str:
    if column.type.kind is ColumnKind.DATE:
        return "0000-00-00"
    fraction = column.type.fraction or 0
    return "0000-00-00 00:00:00" + ("." + "0" * fraction if fraction else "")


def _literal(column: Column, text: str) -> str:
    if column.type.kind is ColumnKind.DATE:
        return f"CAST({text_literal(text)} AS DATE)"
    wall = instant_of(text).isoformat(sep=" ", timespec="microseconds")
    return f"CAST({text_literal(wall)} AS DATETIME({column.type.fraction or 0}))"


SPECIAL_VALUES: Final = SpecialValueSql(quote=quote_name, condition=_condition, literal=_literal)
