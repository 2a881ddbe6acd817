"""Checks and shifts cursor values in the text form that ports.source.CursorWindow defines."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Final

from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import ColumnKind

_INTEGERS: Final = frozenset(kind for kind in ColumnKind if kind.value.startswith(("int", "uint")))
_DATED: Final = frozenset({ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})


def is_cursor_value(text: str, kind: ColumnKind) -> bool:
    """Whether `text` is a cursor value of this column kind: integers and decimals as `str()` prints them, dates and
    times in ISO 8601, text as it is.
    """
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
    """Raises ConnectorError, code cursor_lookback_unsupported, when the cursor column is neither a date nor a
    timestamp.
    """
    if kind not in _DATED:
        raise ConnectorError(
            f"lookback needs a date or timestamp as cursor, and column {column!r} is {kind}",
            code="cursor_lookback_unsupported",
            fix="remove lookback, or choose a date or timestamp column as cursor",
        )


def subtract_lookback(text: str, kind: ColumnKind, lookback: timedelta) -> str | None:
    """The value `lookback` before `text`, a date rounded down. None when that lies before the first date of the
    calendar.
    """
    try:
        if kind is ColumnKind.DATE:
            midnight = datetime.combine(date.fromisoformat(text), datetime.min.time())
            return (midnight - lookback).date().isoformat()
        return (datetime.fromisoformat(text) - lookback).isoformat()
    except OverflowError:
        return None
