"""Cursor values as text, by the rules of ports.source.CursorWindow: whether a text is one, and one earlier."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Final

from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import ColumnKind

_INTEGERS: Final = frozenset(kind for kind in ColumnKind if kind.value.startswith(("int", "uint")))
_DATED: Final = frozenset({ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})


def is_cursor_value(text: str, kind: ColumnKind) -> bool:
    """Integers and decimals as `str()` gives them, dates and times in ISO 8601, text as it is."""
    try:
        if kind in _INTEGERS:
            return str(int(text)) == text
        match kind:
            case ColumnKind.DECIMAL:
                return Decimal(text).is_finite()
            case ColumnKind.DATE:
                return date.fromisoformat(text).isoformat() == text
            case ColumnKind.TIMESTAMP:
                return datetime.fromisoformat(text).tzinfo is None
            case ColumnKind.TIMESTAMP_TZ:
                return datetime.fromisoformat(text).tzinfo is not None
            case _:
                return kind is ColumnKind.STRING
    except (ValueError, InvalidOperation):
        return False


def refuse_undated_lookback(column: str, kind: ColumnKind) -> None:
    """A duration can be taken from dates and times only."""
    if kind not in _DATED:
        raise ConnectorError(
            f"lookback is a duration and cursor column {column!r} is {kind}",
            code="cursor_lookback_unsupported",
            fix="remove lookback, or choose a date or timestamp column as cursor",
        )


def earlier(text: str, kind: ColumnKind, lookback: timedelta) -> str | None:
    """The value `lookback` before `text`, a date rounded down; None = before the first one there is."""
    try:
        if kind is ColumnKind.DATE:
            midnight = datetime.combine(date.fromisoformat(text), datetime.min.time())
            return (midnight - lookback).date().isoformat()
        return (datetime.fromisoformat(text) - lookback).isoformat()
    except OverflowError:
        return None
