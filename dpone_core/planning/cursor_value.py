"""Whether a text is a value a cursor column can be compared with, by the rules of ports.source.CursorWindow."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from dpone_core.model.table_schema import ColumnKind

_INTEGERS: Final = frozenset(kind for kind in ColumnKind if kind.value.startswith(("int", "uint")))


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
