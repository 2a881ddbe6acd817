"""Converts key values to integers and back, so that key ranges can be computed by arithmetic. Pure.

Text is ordered by code point, a UUID as a number of 128 bits, times by microseconds. A bound with finer digits is
rounded down for the arithmetic and keeps its own text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from dpone_core.errors import ETLExecutionError
from dpone_core.model.load_config import PartitionGranularity
from dpone_core.model.partition import KeyBounds
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType

INTEGER_KINDS: Final = frozenset(
    {
        ColumnKind.INT8,
        ColumnKind.INT16,
        ColumnKind.INT32,
        ColumnKind.INT64,
        ColumnKind.UINT8,
        ColumnKind.UINT16,
        ColumnKind.UINT32,
        ColumnKind.UINT64,
    }
)
_TIMES: Final = frozenset({ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})
KEY_KINDS: Final = INTEGER_KINDS | _TIMES | {ColumnKind.DECIMAL, ColumnKind.DATE, ColumnKind.STRING, ColumnKind.UUID}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TEXT_DIGITS: Final = 4
_MAX_EXPONENT: Final = 100


class PartitionKeyError(ETLExecutionError):
    """The key cannot be split into ranges; nothing was read or changed. The message names no value."""

    code = "partition_key_unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A conversion in both directions: `number` takes a key's text and may round down, `text` is exact."""

    number: Callable[[str], int]
    text: Callable[[int], str]


def scale_of(key: Column, bounds: KeyBounds) -> Scale:
    """The conversion for this key column. Raises PartitionKeyError for a type without ranges."""
    kind = key.type.kind
    if kind in INTEGER_KINDS:
        return Scale(number=int, text=str)
    if kind in _TIMES:
        return _time_scale(kind is ColumnKind.TIMESTAMP_TZ)
    match kind:
        case ColumnKind.DECIMAL:
            return _decimal_scale(key.type)
        case ColumnKind.DATE:
            return Scale(number=_date_number, text=lambda number: date.fromordinal(number).isoformat())
        case ColumnKind.UUID:
            return Scale(number=_uuid_number, text=_uuid_text)
        case ColumnKind.STRING:
            return _text_scale(bounds.lower or "", bounds.upper or "")
        case _:
            raise PartitionKeyError(
                f"partitioning column '{key.name}' has type {key.type}, which cannot be split into ranges",
                fix="choose an integer, decimal, date, timestamp, uuid or text column",
            )


def partition_start(key: Column, granularity: PartitionGranularity) -> Callable[[int], int]:
    """Returns a function that takes a number of the key's scale and gives the number at which its day, month, year
    (UTC) or value begins.

    Raises PartitionKeyError for a type without days, and for text, because only the target decides which texts form one
    partition.
    """
    kind = key.type.kind
    if kind is ColumnKind.STRING:
        raise PartitionKeyError(
            f"partitioning column '{key.name}' is text, and a range of text may divide a target partition",
            fix="remove source.options.partitioning, or partition the target by a number, date or timestamp",
        )
    if granularity is PartitionGranularity.VALUE:
        return lambda number: number
    if kind is ColumnKind.DATE:
        return lambda number: _day_of(date.fromordinal(number), granularity).toordinal()
    if kind not in _TIMES:
        raise PartitionKeyError(
            f"the target is partitioned by {granularity}, and partitioning column '{key.name}' has type {key.type}",
            fix="partition the target by value, or by a date or timestamp column",
        )
    return lambda number: _midnight(_day_of((_EPOCH + number * _MICROSECOND).date(), granularity))


def _day_of(day: date, granularity: PartitionGranularity) -> date:
    """The first day of the month or year of `day`, or `day` itself."""
    match granularity:
        case PartitionGranularity.YEAR:
            return day.replace(month=1, day=1)
        case PartitionGranularity.MONTH:
            return day.replace(day=1)
        case _:
            return day


def _midnight(day: date) -> int:
    return (datetime(day.year, day.month, day.day, tzinfo=UTC) - _EPOCH) // _MICROSECOND


def _decimal_scale(key: ColumnType) -> Scale:
    scale = key.scale or 0

    def number(text: str) -> int:
        value = Decimal(text)
        if not value.is_finite():
            raise ValueError("not a finite decimal")
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)  # finite
        if abs(exponent) > _MAX_EXPONENT:
            raise ValueError("no value of a decimal column")
        granularity = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
        shift = scale + exponent
        power = int(10 ** abs(shift))
        return granularity * power if shift >= 0 else granularity // power

    def text(value: int) -> str:
        digits = str(abs(value)).rjust(scale + 1, "0")
        shown = digits if scale == 0 else f"{digits[:-scale]}.{digits[-scale:]}"
        return f"-{shown}" if value < 0 else shown

    return Scale(number=number, text=text)


def _time_scale(zoned: bool) -> Scale:
    """Microseconds; a finer bound rounds down and keeps its own text."""

    def number(text: str) -> int:
        moment = datetime.fromisoformat(text)
        if (moment.tzinfo is not None) is not zoned:
            raise ValueError("a wall clock and an instant do not compare")
        return ((moment.astimezone(UTC) if zoned else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND

    def text(value: int) -> str:
        moment = _EPOCH + value * _MICROSECOND
        return (moment if zoned else moment.replace(tzinfo=None)).isoformat(timespec="microseconds")

    return Scale(number=number, text=text)


def _date_number(text: str) -> int:
    """Only `YYYY-MM-DD`, whose order as text is the order of days."""
    day = date.fromisoformat(text)
    if day.isoformat() != text:
        raise ValueError("not a canonical date")
    return day.toordinal()


def _uuid_number(text: str) -> int:
    number = int(text.replace("-", ""), 16)
    if _uuid_text(number) != text:
        raise ValueError("not a canonical uuid")
    return number


def _uuid_text(number: int) -> str:
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _text_scale(lower: str, upper: str) -> Scale:
    """Reads the first characters after the common prefix as digits; 0 stands for the end of the text.

    Range edges use characters of the bounds' own alphabet, so that an engine that can store the bounds can store an
    edge; surrogates and NUL never appear.
    """
    prefix = _common_prefix(lower, upper)
    base = 0x80 if (lower[len(prefix) :] + upper[len(prefix) :]).isascii() else 0x110000

    def number(text: str) -> int:
        rest = text[len(prefix) :]
        if not text.startswith(prefix):
            raise ValueError("outside the span of the bounds")
        value = 0
        for position in range(_TEXT_DIGITS):
            value = value * (base + 1) + (ord(rest[position]) + 1 if position < len(rest) else 0)
        return value

    def text(value: int) -> str:
        digits = []
        for _ in range(_TEXT_DIGITS):
            value, digit = divmod(value, base + 1)
            digits.append(digit)
        characters = ""
        for digit in reversed(digits):
            if digit == 0:
                break
            characters += _nearest_storable_character(digit - 1, base)
        return prefix + characters

    return Scale(number=number, text=text)


def _nearest_storable_character(code: int, base: int) -> str:
    """The character with this code, or the nearest one that every engine can store."""
    if base == 0x80:
        return chr(min(max(code, 0x20), 0x7E))
    return chr(0xD7FF if 0xD800 <= code <= 0xDFFF else max(code, 0x20))


def _common_prefix(lower: str, upper: str) -> str:
    length = 0
    for left, right in zip(lower, upper, strict=False):
        if left != right:
            break
        length += 1
    return lower[:length]
