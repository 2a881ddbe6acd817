"""Rules about the rows of a load: what a gate demands of them, and what a sink has counted of them.

Values are compared exactly: text by code point, numbers by value. Contract: GATE-26.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dpone_core.model.outcome import count_or_none
from dpone_core.model.special_values import is_value_of
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import ColumnKind, ColumnType, TableSchema

RuleValue = str | int | float | bool
INTEGER_BOUNDS: Final = {
    kind: (0, 2**bits - 1) if kind.value.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for kind in ColumnKind
    if kind.value.startswith(("int", "uint"))
    for bits in (int(kind.value.lstrip("uint")),)
}
"""Least and greatest value of each kind of integer."""


class RuleScope(StrEnum):
    """Over which rows keys must be unique: those of the load, or the table as it would be after publishing."""

    LOAD = "load"
    TARGET = "target"


class Expectation(StrEnum):
    """How a statement says that no row breaks its rule: its one number is zero, or it returns no row."""

    ZERO = "zero"
    ZERO_ROWS = "zero_rows"


class FreshnessReference(StrEnum):
    """From which moment the age of the newest row is counted: the end of the run's interval, or the run's instant."""

    INTERVAL_END = "interval_end"
    NOW = "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotNullRule:
    """A row fails when one of the columns is NULL in it."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueRule:
    """A row fails when another one has the same values in all the columns; NULL is a value and equals itself."""

    columns: tuple[str, ...]
    within: RuleScope = RuleScope.LOAD


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedValuesRule:
    """A row fails when the column holds none of the values, or NULL unless it is allowed."""

    column: str
    values: tuple[RuleValue, ...]
    allow_null: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessRule:
    """The newest value of the column is at most so many seconds older than the reference. No row is never fresh."""

    column: str
    max_age_seconds: int
    reference: FreshnessReference = FreshnessReference.INTERVAL_END


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRule:
    """One SELECT over the staged rows counts or returns those that break the rule."""

    sql: SqlText
    expect: Expectation = Expectation.ZERO


ColumnRule = NotNullRule | UniqueRule | AcceptedValuesRule | FreshnessRule | StatementRule


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMeasure:
    """What the sink counted for one rule, never a value of a row. Anything that is no count becomes None.

    `evaluated_rows` are the rows that the rule was applied to, `failed_rows` those that break it,
    `distinct_failed_keys` the keys that occur more than once, `newest_age_seconds` how much older than the reference
    the newest value is (0 for one that is younger).
    """

    evaluated_rows: int | None
    failed_rows: int | None = None
    distinct_failed_keys: int | None = None
    newest_age_seconds: int | None = None

    def __post_init__(self) -> None:
        for name in ("evaluated_rows", "failed_rows", "distinct_failed_keys", "newest_age_seconds"):
            object.__setattr__(self, name, count_or_none(getattr(self, name)))


def canonical_rule(rule: ColumnRule | None) -> dict[str, object]:
    """The keys that a rule adds to the fingerprint of its policy; a gate without a rule adds none. A statement adds its
    hash elsewhere, and here only an expectation that is not the default one.
    """
    match rule:
        case StatementRule():
            return {} if rule.expect is Expectation.ZERO else {"expect": rule.expect.value}
        case NotNullRule():
            return {"columns": list(rule.columns)}
        case UniqueRule():
            return {"columns": list(rule.columns), "within": rule.within.value}
        case AcceptedValuesRule():
            values = [[type(value).__name__, str(value)] for value in rule.values]
            return {"columns": [rule.column], "values": values, "allow_null": rule.allow_null}
        case FreshnessRule():
            return {
                "columns": [rule.column],
                "max_age_seconds": rule.max_age_seconds,
                "reference": rule.reference.value,
            }
        case None:
            return {}


_DATED: Final = frozenset({ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})
_FLOATS: Final = frozenset({ColumnKind.FLOAT32, ColumnKind.FLOAT64})
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_UNCOUNTABLE: Final = frozenset({ColumnKind.BINARY, ColumnKind.UNSUPPORTED})


def text_of_value(value: RuleValue, column_type: ColumnType) -> str | None:
    """The text of a value as a literal of the column's type; None for one that the type cannot hold exactly."""
    kind = column_type.kind
    if isinstance(value, bool):
        return str(value).lower() if kind is ColumnKind.BOOLEAN else None
    text = str(value)
    if kind is ColumnKind.STRING:
        return text if isinstance(value, str) else None
    if kind in INTEGER_BOUNDS:
        low, high = INTEGER_BOUNDS[kind]
        return text if isinstance(value, int) and low <= value <= high else None
    if kind is ColumnKind.UUID:
        return _uuid_text(text) if isinstance(value, str) else None
    if kind in _DATED and not isinstance(value, str):
        return None
    return text if is_value_of(text, column_type) else None


def misfit_of(rule: ColumnRule, schema: TableSchema) -> tuple[str, str] | None:
    """Name of a column that the rule cannot judge, and why; None when it can judge all of them."""
    for name in columns_of(rule):
        column = schema.find(name)
        if column is None:
            return name, "is not a column of this load"
        kind = column.type.kind
        if isinstance(rule, FreshnessRule) and kind not in _DATED:
            return name, f"is {column.type}, which has no age; freshness needs a date or timestamp"
        if isinstance(rule, UniqueRule) and kind in _FLOATS:
            return name, f"is {column.type}, and NaN equals nothing; it cannot be a key"
        if isinstance(rule, AcceptedValuesRule):
            if kind in _UNCOUNTABLE or kind is ColumnKind.TIME:
                return name, f"is {column.type}, whose values cannot be listed"
            if any(text_of_value(value, column.type) is None for value in rule.values):
                return name, f"is {column.type}, and one of the values is none"
    return None


def columns_of(rule: ColumnRule) -> tuple[str, ...]:
    """The columns that a rule looks at; () for a statement, which only its engine reads."""
    if isinstance(rule, StatementRule):
        return ()
    return rule.columns if isinstance(rule, NotNullRule | UniqueRule) else (rule.column,)


def _uuid_text(text: str) -> str | None:
    return text.lower() if _UUID.fullmatch(text) else None
