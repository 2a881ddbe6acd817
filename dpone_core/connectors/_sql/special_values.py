"""Declared special values in generated SQL: checks the rules against a schema and builds the subquery that converts the
values.

Windows, ranges, metrics and rows all read this subquery, so that every part of a load sees the converted values only.
Each rule adds a flag column, computed from the same row as the converted value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpone_core.errors import ConnectorError
from dpone_core.model.special_values import SpecialValue, SpecialValueRule, flag_name, is_value_of
from dpone_core.model.table_schema import Column, ColumnKind, TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialValueSql:
    """One engine's SQL. `condition` is true for the special value, or None where the column's type has no such value;
    `literal` renders a checked replacement in the column's own type."""

    quote: Callable[[str], str]
    condition: Callable[[Column, SpecialValue], str | None]
    literal: Callable[[Column, str], str]

    def describe(self, schema: TableSchema, rules: Sequence[SpecialValueRule]) -> TableSchema:
        """`schema` after the rules have been applied. Raises ConnectorError `special_values_refused`, naming the
        column."""
        for rule in rules:
            self._check(schema.find(rule.column), rule)
        emptied = {rule.column for rule in rules if rule.becomes is None}
        return TableSchema(columns=tuple(replace(c, nullable=True) if c.name in emptied else c for c in schema.columns))

    def relation(self, base: str, schema: TableSchema, rules: Sequence[SpecialValueRule]) -> str:
        """The SQL after FROM: a converting subquery, or `base` itself when there are no rules."""
        if not rules:
            return base
        values = [self._conversion(column, rules) for column in schema.columns]
        flags = [
            f"({self._condition(schema, rule)}) IS TRUE AS {self.quote(flag_name(ordinal))}"
            for ordinal, rule in enumerate(rules)
        ]
        return f"(SELECT {', '.join([*values, *flags])} FROM {base} AS dpone_stored)"

    def _check(self, column: Column | None, rule: SpecialValueRule) -> None:
        if column is None:
            raise _refusal(rule, "is not a column of the source", "name a column of the table or query")
        if column.type.kind is ColumnKind.UNSUPPORTED:
            return
        if self.condition(column, rule.value) is None:
            raise _refusal(rule, f"is {column.type}, which has no '{rule.value}' to convert", "remove it from the rule")
        if rule.becomes is not None and not is_value_of(rule.becomes, column.type):
            raise _refusal(
                rule,
                f"is replaced by something that is not a {column.type}",
                "write null, or a value of the column's type",
            )

    def _conversion(self, column: Column, rules: Sequence[SpecialValueRule]) -> str:
        quoted = self.quote(column.name)
        cases = [
            f"WHEN {self.condition(column, rule.value)} THEN "
            + ("NULL" if rule.becomes is None else self.literal(column, rule.becomes))
            for rule in rules
            if rule.column == column.name
        ]
        return f"CASE {' '.join(cases)} ELSE {quoted} END AS {quoted}" if cases else quoted

    def _condition(self, schema: TableSchema, rule: SpecialValueRule) -> str:
        column = schema.find(rule.column)
        condition = None if column is None else self.condition(column, rule.value)
        if condition is None:
            raise _refusal(rule, f"has no '{rule.value}' to convert", "describe the source with its rules first")
        return condition


def _refusal(rule: SpecialValueRule, why: str, fix: str) -> ConnectorError:
    return ConnectorError(f"special_values: column {rule.column!r} {why}", code="special_values_refused", fix=fix)
