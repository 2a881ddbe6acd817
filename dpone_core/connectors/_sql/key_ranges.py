"""Key ranges on engines that bind values by name: the condition of one range, and the text form of a key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from uuid import UUID

from dpone_core.connectors._sql.extract import NamedSelection, window_bound
from dpone_core.errors import ConnectorError
from dpone_core.model.partition import KeyRange
from dpone_core.model.table_schema import Column, ColumnKind

_MICROSECONDS = 6


def select_range(
    chosen: NamedSelection, key: Column, bounds: KeyRange, *, quoted: str, ordered: str, bound: Callable[[str], str]
) -> NamedSelection:
    """The rows of `chosen` in one range of the key. `ordered` is the SQL expression whose order is the key's order;
    `bound` renders a parameter's name as a value to compare with it."""
    if bounds.is_null_partition:
        return chosen.narrow((f"{quoted} IS NULL",), {})
    conditions: list[str] = []
    parameters: dict[str, str] = {}
    ends = (
        ("dpone_from", ">=", bounds.lower),
        ("dpone_to", "<=" if bounds.include_upper else "<", bounds.upper),
    )
    for name, operator, end in ends:
        if end is not None:
            conditions.append(f"{ordered} {operator} {bound(name)}")
            parameters[name] = _require_uuid(key, end)
    return chosen.narrow(conditions, parameters)


def key_text(key: Column, text: str) -> str:
    """A key as `KeyRange` writes it, from the text that the engine gives; equal keys have equal texts. Raises
    ConnectorError `source_value_out_of_range` for a value without such a text, for example an infinite date."""
    try:
        return _canonical(key, text)
    except (ValueError, InvalidOperation) as error:
        raise ConnectorError(
            f"column {key.name!r}: its least or greatest value has no exact text as {key.type}, so it cannot"
            " be a bound of a range",
            code="source_value_out_of_range",
            fix="correct the row, or filter it in a query",
        ) from error


def _canonical(key: Column, text: str) -> str:
    match key.type.kind:
        case ColumnKind.DECIMAL:
            return _decimal_text(text, key.type.scale or 0)
        case ColumnKind.DATE:
            return date.fromisoformat(text).isoformat()
        case ColumnKind.TIMESTAMP:
            return _moment_text(text)
        case ColumnKind.TIMESTAMP_TZ:
            return f"{_moment_text(text.removesuffix('+00:00').removesuffix('+00'))}+00:00"
        case ColumnKind.UUID:
            return str(UUID(text))
        case ColumnKind.STRING:
            return text
        case _:
            return str(int(text))


def _decimal_text(text: str, scale: int) -> str:
    if not Decimal(text).is_finite():
        raise ValueError("no finite decimal")
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(scale, '0')}" if scale else whole


def _moment_text(text: str) -> str:
    """ISO 8601 with six digits of a second, or more where the value has more."""
    if datetime.fromisoformat(text).tzinfo is not None:
        raise ValueError("not in UTC")
    whole, _, fraction = text.replace(" ", "T").partition(".")
    return f"{whole}.{fraction.rstrip('0').ljust(_MICROSECONDS, '0')}"


def _require_uuid(key: Column, bound: str) -> str:
    if key.type.kind is not ColumnKind.UUID:
        return window_bound(key, bound)
    try:
        return str(UUID(bound))
    except ValueError as error:
        raise ConnectorError(
            f"column {key.name!r}: a bound of the range is not a uuid", code="source_value_out_of_range"
        ) from error
