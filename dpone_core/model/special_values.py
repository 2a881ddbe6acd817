"""Values that a source's own types hold and no exact form exists for, and what a manifest declares them to become.

Without a rule such a value is refused by its column. A rule converts and counts; it never applies to another value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dpone_core.model.table_schema import FRAMEWORK_PREFIX, Column, ColumnKind, ColumnType, TableSchema


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
