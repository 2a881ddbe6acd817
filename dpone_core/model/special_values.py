"""Values that a source's own types hold and no exact form exists for, and what a manifest declares them to become.

Without a rule such a value is refused by its column. A rule converts and counts; it never applies to another value.
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
    """`zero_date` has no part but zeros; `partial_date` has a month or a day of zero and is not the zero date."""

    INFINITY = "infinity"
    NEGATIVE_INFINITY = "-infinity"
    NAN = "nan"
    ZERO_DATE = "zero_date"
    PARTIAL_DATE = "partial_date"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialValueRule:
    """One column's policy for one special value. `becomes` is NULL (None) or a value of the column as text: an ISO
    8601 date or moment, or a number."""

    column: str
    value: SpecialValue
    becomes: str | None

    def as_json(self) -> dict[str, object]:
        return {"column": self.column, "value": self.value.value, "becomes": self.becomes}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedValues:
    """How many values a rule converted among the rows of an attempt; None while they are not all counted."""

    rule: SpecialValueRule
    count: int | None

    def as_json(self) -> dict[str, object]:
        return {**self.rule.as_json(), "converted": self.count}


def uncounted(rules: Sequence[SpecialValueRule]) -> tuple[ConvertedValues, ...]:
    return tuple(ConvertedValues(rule=rule, count=None) for rule in rules)


def total(rules: Sequence[SpecialValueRule], parts: Iterable[Sequence[ConvertedValues]]) -> tuple[ConvertedValues, ...]:
    """The sum of several parts' counts, each of the same rules; None for a rule that a part has not counted."""
    counts: list[int | None] = [0] * len(rules)
    for part in parts:
        found: list[int | None] = [each.count for each in part] if len(part) == len(rules) else [None] * len(rules)
        counts = [
            None if so_far is None or more is None else so_far + more
            for so_far, more in zip(counts, found, strict=True)
        ]
    return tuple(ConvertedValues(rule=rule, count=count) for rule, count in zip(rules, counts, strict=True))


def counts_by_name(converted: Sequence[ConvertedValues]) -> dict[str, int | None]:
    """What a checkpoint keeps of them: `column:value` -> count."""
    return {_name_of(each.rule): each.count for each in converted}


def counted_in(stored: object, rules: Sequence[SpecialValueRule]) -> tuple[ConvertedValues, ...] | None:
    """The counts of these rules as `counts_by_name` wrote them; None unless every one of them stands there."""
    kept = stored if isinstance(stored, Mapping) else {}
    found = [kept.get(_name_of(rule)) for rule in rules]
    if any(type(count) is not int or count < 0 for count in found):
        return None
    return tuple(ConvertedValues(rule=rule, count=count) for rule, count in zip(rules, found, strict=True))


def _name_of(rule: SpecialValueRule) -> str:
    return f"{rule.column}:{rule.value}"


def flag_name(ordinal: int) -> str:
    """The hidden column of a stream that says of each row whether the rule of this ordinal converted its value."""
    return f"{FRAMEWORK_PREFIX}converted_{ordinal}"


def with_flags(schema: TableSchema, rules: Sequence[SpecialValueRule]) -> TableSchema:
    """What a stream carries: the described columns, then one flag for each rule. `schema` itself without rules."""
    if not rules:
        return schema
    flags = (
        Column(name=flag_name(ordinal), type=ColumnType(kind=ColumnKind.BOOLEAN), nullable=False)
        for ordinal in range(len(rules))
    )
    return TableSchema(columns=(*schema.columns, *flags))


def is_value_of(text: str, type_: ColumnType) -> bool:
    """Whether `text` is exactly a value of a date, moment, decimal or float type. A moment may be a date alone,
    which is its midnight; an instant states its offset."""
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
    """A moment as a wall clock of UTC, without a zone and with its microseconds."""
    head, point, tail = text.partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    moment = datetime.fromisoformat(f"{head}{point}{digits[:_MICROSECOND_DIGITS]}{tail[len(digits) :]}")
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _is_moment(text: str, type_: ColumnType) -> bool:
    """Digits of the fraction that the type has no place for must be zero."""
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
