"""Values of a source for which the target has no exact form, and what a manifest declares them to become.

Without a rule such a value stops the load with an error that names its column. A rule converts that one value and
counts the conversions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from dpone_core.model.table_schema import FRAMEWORK_PREFIX, Column, ColumnKind, ColumnType, TableSchema

_MICROSECOND_DIGITS: Final = 6


class SpecialValue(StrEnum):
    """Values a rule can name. `zero_date` is 0000-00-00; `partial_date` has a month or a day of zero and is not the
    zero date.
    """

    INFINITY = "infinity"
    NEGATIVE_INFINITY = "-infinity"
    NAN = "nan"
    ZERO_DATE = "zero_date"
    PARTIAL_DATE = "partial_date"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialValueRule:
    """What one special value of one column becomes. `becomes` is None for NULL, or a value of the column as text: an
    ISO 8601 date or time, or a number.
    """

    column: str
    value: SpecialValue
    becomes: str | None

    def as_json(self) -> dict[str, object]:
        """The rule as plans and evidence show it."""
        return {"column": self.column, "value": self.value.value, "becomes": self.becomes}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedValues:
    """How many values a rule converted in one attempt; `count` is None until all of its rows are counted."""

    rule: SpecialValueRule
    count: int | None

    def as_json(self) -> dict[str, object]:
        """The rule and its count as evidence shows them."""
        return {**self.rule.as_json(), "converted": self.count}


def unknown_counts(rules: Sequence[SpecialValueRule]) -> tuple[ConvertedValues, ...]:
    """One entry per rule, each with an unknown count."""
    return tuple(ConvertedValues(rule=rule, count=None) for rule in rules)


def sum_counts(
    rules: Sequence[SpecialValueRule], parts: Iterable[Sequence[ConvertedValues]]
) -> tuple[ConvertedValues, ...]:
    """Adds up the counts of several parts of one load. A count is None when any part has not counted that rule."""
    counts: list[int | None] = [0] * len(rules)
    for part in parts:
        found: list[int | None] = [each.count for each in part] if len(part) == len(rules) else [None] * len(rules)
        counts = [
            None if so_far is None or more is None else so_far + more
            for so_far, more in zip(counts, found, strict=True)
        ]
    return tuple(ConvertedValues(rule=rule, count=count) for rule, count in zip(rules, counts, strict=True))


def counts_by_name(converted: Sequence[ConvertedValues]) -> dict[str, int | None]:
    """Counts by `column:value`, the form a checkpoint stores."""
    return {_name_of(each.rule): each.count for each in converted}


def read_counts(stored: object, rules: Sequence[SpecialValueRule]) -> tuple[ConvertedValues, ...] | None:
    """Reads the counts that `counts_by_name` wrote. Returns None unless each rule has a non-negative integer."""
    kept = stored if isinstance(stored, Mapping) else {}
    found = [kept.get(_name_of(rule)) for rule in rules]
    if any(type(count) is not int or count < 0 for count in found):
        return None
    return tuple(ConvertedValues(rule=rule, count=count) for rule, count in zip(rules, found, strict=True))


def _name_of(rule: SpecialValueRule) -> str:
    return f"{rule.column}:{rule.value}"


def flag_name(ordinal: int) -> str:
    """Name of the hidden stream column that is true where rule number `ordinal` converted the row's value."""
    return f"{FRAMEWORK_PREFIX}converted_{ordinal}"


def with_flags(schema: TableSchema, rules: Sequence[SpecialValueRule]) -> TableSchema:
    """Schema of a stream: the described columns, then one flag column for each rule."""
    if not rules:
        return schema
    flags = (
        Column(name=flag_name(ordinal), type=ColumnType(kind=ColumnKind.BOOLEAN), nullable=False)
        for ordinal in range(len(rules))
    )
    return TableSchema(columns=(*schema.columns, *flags))


def is_value_of(text: str, type_: ColumnType) -> bool:
    """Whether `text` is exactly one value of a date, timestamp, decimal or float type.

    A date alone counts as a timestamp at midnight; a value of `timestamp_tz` must state its offset.
    """
    try:
        match type_.kind:
            case ColumnKind.DATE:
                return date.fromisoformat(text).isoformat() == text
            case ColumnKind.TIMESTAMP | ColumnKind.TIMESTAMP_TZ:
                return _is_moment(text, type_)
            case ColumnKind.DECIMAL:
                return _is_decimal(text, type_)
            case ColumnKind.FLOAT64:
                return Decimal(text) == Decimal(float(text))
            case ColumnKind.FLOAT32:
                return Decimal(text) == Decimal(struct.unpack("f", struct.pack("f", float(text)))[0])
    except (ValueError, ArithmeticError):
        pass
    return False


def instant_of(text: str) -> datetime:
    """Parses an ISO 8601 time as a wall clock in UTC without a zone, to the microsecond. Raises ValueError."""
    head, point, tail = text.partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    moment = datetime.fromisoformat(f"{head}{point}{digits[:_MICROSECOND_DIGITS]}{tail[len(digits) :]}")
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _is_moment(text: str, type_: ColumnType) -> bool:
    """Whether the type can hold the time: digits of the fraction beyond its own must be zero."""
    instant_of(text)
    tail = text.partition(".")[2]
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))].rstrip("0")
    zoned = "T" in text.replace(" ", "T") and (text.endswith("Z") or text[-6] in "+-")
    return len(digits) <= (type_.fraction or 0) and zoned == (type_.kind is ColumnKind.TIMESTAMP_TZ)


def _is_decimal(text: str, type_: ColumnType) -> bool:
    if not Decimal(text).is_finite():
        return False
    whole, _, tail = text.lstrip("-").partition(".")
    scale = type_.scale or 0
    return len(whole.lstrip("0")) <= (type_.precision or 0) - scale and len(tail.rstrip("0")) <= scale
