"""Rules about columns as aggregate queries over one table: all conditions of rows in one statement, each key in one.

A statement holds a bounded number of conditions and of literals. Keys are grouped in the engine, which spills; NULL
equals NULL there. What is compared is exact: text by its bytes, whatever the collation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from typing import Any, Final

from dpone_core.errors import ConnectorError
from dpone_core.model.column_rules import (
    AcceptedValuesRule,
    Expectation,
    FreshnessRule,
    NotNullRule,
    RuleMeasure,
    RuleScope,
    RuleValue,
    StatementRule,
    UniqueRule,
    text_of_value,
)
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText, name_staged
from dpone_core.model.table_schema import Column, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.rules import AskedRule
from dpone_core.ports.sink import StagedHandle
from dpone_core.ports.statements import StatementScalarPort, StatementScript

STATEMENT_SECONDS: Final = 600.0
"""How long the statement of a gate may take."""
CONDITIONS_PER_STATEMENT: Final = 200
LITERALS_PER_STATEMENT: Final = 2000
_CODE: Final = "rule_not_judged"
_ROWS: Final = "__dpone__rows"
_NEW: Final = "__dpone__new"
_RULE: Final = "__dpone__rule_"
"""Names that no column of a load has: an alias hides a column of its name from GROUP BY on ClickHouse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDialect:
    """How one engine judges. `exact` is the expression whose equality is that of the values, `literal` the text of a
    value of the column's type in the form of `exact`, `newest` the greatest moment of a column as whole seconds since
    1970 in UTC, rounded down. Inside the block that `snapshot` opens all queries see one state. `statements` runs the
    statements of users, `only_statement` gives the text of one without what ends it."""

    schema_of: Callable[[TableName], TableSchema | None]
    qualify: Callable[[TableName], str]
    quote: Callable[[str], str]
    rows: Callable[[str], Sequence[Sequence[Any]]]
    exact: Callable[[Column], str]
    literal: Callable[[Column, str], str]
    newest: Callable[[Column], str]
    statements: StatementScalarPort
    only_statement: Callable[[str], Sequence[str]]
    count: str = "count(*)"
    count_of: Callable[[str], str] = "count(CASE WHEN {} THEN 1 END)".format
    snapshot: Callable[[], AbstractContextManager[object]] = nullcontext


class SqlStagedRules:
    """StagedRulesPort of any engine that answers aggregate queries."""

    def __init__(self, dialect: RuleDialect) -> None:
        self._dialect = dialect

    def judge(self, handle: StagedHandle, asked: Sequence[AskedRule]) -> Mapping[str, RuleMeasure]:
        schema, staged = self._dialect.schema_of(handle.table), self._dialect.qualify(handle.table)
        if schema is None:
            raise ConnectorError("the staged rows are no longer there", code=_CODE)
        columns = [each for each in asked if not isinstance(each.rule, UniqueRule | StatementRule)]
        with self._dialect.snapshot():
            rows, found = self._judge_rows(schema, staged, columns)
            for each in asked:
                if isinstance(each.rule, UniqueRule):
                    found[each.gate_id] = self._judge_key(handle, schema, each.rule, rows)
        for each in asked:
            if isinstance(each.rule, StatementRule):
                found[each.gate_id] = self._judge_statement(each, each.rule, staged, rows)
        return found

    def _judge_statement(self, asked: AskedRule, rule: StatementRule, staged: str, rows: int) -> RuleMeasure:
        """What the statement counts; a text that ends early, or an answer that is no count, is refused."""
        try:
            sql = name_staged(rule.sql, staged)
            if rule.expect is Expectation.ZERO_ROWS:
                (text,) = self._dialect.only_statement(sql.text)
                sql = SqlText(text=f"SELECT {self._dialect.count} FROM (\n{text}\n) AS dpone_failed")
            script = StatementScript(
                sql=sql, read_only=True, answer_seconds=STATEMENT_SECONDS, token_values=asked.token_values
            )
            answer = self._dialect.statements.answer(script)
            ((value,),) = answer.rows
        except (ValueError, ConnectorError) as error:
            raise _not_judged(asked) from error
        failed = int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
        if isinstance(failed, bool) or not isinstance(failed, int) or failed < 0:
            raise _not_judged(asked)
        return RuleMeasure(evaluated_rows=rows, failed_rows=failed)

    def _judge_rows(
        self, schema: TableSchema, staged: str, asked: Sequence[AskedRule]
    ) -> tuple[int, dict[str, RuleMeasure]]:
        """The rows in staging, and the measure of each rule that looks at one row at a time."""
        dialect, rows = self._dialect, 0
        found: dict[str, RuleMeasure] = {}
        for part in _parts(asked) if asked else [[]]:
            selected = [f"{self._expression(schema, each)} AS {_RULE}{number}" for number, each in enumerate(part)]
            (row,) = dialect.rows(f"SELECT {', '.join([dialect.count, *selected])} FROM {staged}")
            rows = int(row[0])
            for each, value in zip(part, row[1:], strict=True):
                found[each.gate_id] = _measure(each, rows, value)
        return rows, found

    def _expression(self, schema: TableSchema, asked: AskedRule) -> str:
        dialect = self._dialect
        match asked.rule:
            case NotNullRule(columns=columns):
                nulls = [f"{dialect.quote(_column(schema, name).name)} IS NULL" for name in columns]
                return dialect.count_of(" OR ".join(nulls))
            case AcceptedValuesRule() as rule:
                column = _column(schema, rule.column)
                literals = ", ".join(dialect.literal(column, _text(column, value)) for value in rule.values)
                quoted = dialect.quote(column.name)
                others = f"({quoted} IS NOT NULL AND {dialect.exact(column)} NOT IN ({literals}))"
                return dialect.count_of(others if rule.allow_null else f"{quoted} IS NULL OR {others}")
            case FreshnessRule() as rule:
                return dialect.newest(_column(schema, rule.column))
            case _:
                raise ConnectorError("the sink does not know this rule", code=_CODE)

    def _judge_key(self, handle: StagedHandle, schema: TableSchema, rule: UniqueRule, rows: int) -> RuleMeasure:
        """Repeated keys of the staged rows, for an append within the target together with the rows that it holds: none
        before the first load, and NULL in a column that this load adds."""
        dialect = self._dialect
        keys = ", ".join(dialect.exact(_column(schema, name)) for name in rule.columns)
        staged = dialect.qualify(handle.table)
        appends = handle.request.strategy is StrategyMode.INCREMENTAL_APPEND
        held = dialect.schema_of(handle.request.target) if rule.within is RuleScope.TARGET and appends else None
        if held is None:
            counted = f"SELECT {dialect.count} AS {_ROWS} FROM {staged} GROUP BY {keys} HAVING {dialect.count} > 1"
        else:
            names = [dialect.quote(name) for name in rule.columns]
            theirs = [dialect.quote(name) if held.find(name) else "NULL" for name in rule.columns]
            both = (
                f"SELECT {', '.join(names)}, 1 AS {_NEW} FROM {staged} UNION ALL"
                f" SELECT {', '.join(theirs)}, 0 AS {_NEW} FROM {dialect.qualify(handle.request.target)}"
            )
            counted = f"SELECT sum({_NEW}) AS {_ROWS} FROM ({both}) AS b GROUP BY {keys} HAVING count(*) > 1"
            counted += f" AND sum({_NEW}) > 0"
        ((distinct, failed),) = dialect.rows(f"SELECT {dialect.count}, sum({_ROWS}) FROM ({counted}) AS d")
        return RuleMeasure(evaluated_rows=rows, failed_rows=int(failed or 0), distinct_failed_keys=int(distinct))


def _not_judged(asked: AskedRule) -> ConnectorError:
    return ConnectorError(
        f"the statement of gate {asked.gate_id!r} did not answer with one count within {STATEMENT_SECONDS:.0f} s",
        code=_CODE,
        fix="run it in the sink over a table with the columns of the load: it must be one SELECT of one number, or with"
        " expect: zero_rows one whose columns have names of their own",
    )


def _measure(asked: AskedRule, rows: int, value: Any) -> RuleMeasure:
    if not isinstance(asked.rule, FreshnessRule):
        return RuleMeasure(evaluated_rows=rows, failed_rows=int(value))
    if value is None or asked.reference is None:
        return RuleMeasure(evaluated_rows=rows)
    age = int(asked.reference.astimezone(UTC).timestamp()) - int(value)
    return RuleMeasure(evaluated_rows=rows, newest_age_seconds=max(age, 0))


def _parts(asked: Sequence[AskedRule]) -> Iterator[list[AskedRule]]:
    """The rules in groups whose statement stays bounded."""
    part: list[AskedRule] = []
    literals = 0
    for each in asked:
        more = len(each.rule.values) if isinstance(each.rule, AcceptedValuesRule) else 0
        if part and (len(part) == CONDITIONS_PER_STATEMENT or literals + more > LITERALS_PER_STATEMENT):
            yield part
            part, literals = [], 0
        part.append(each)
        literals += more
    if part:
        yield part


def _text(column: Column, value: RuleValue) -> str:
    text = text_of_value(value, column.type)
    if text is None:
        raise ConnectorError(f"column {column.name!r}: a value of its gate is no {column.type}", code=_CODE)
    return text


def _column(schema: TableSchema, name: str) -> Column:
    column = schema.find(name)
    if column is None:
        raise ConnectorError(f"column {name!r} is not a column of this load", code=_CODE)
    return column
