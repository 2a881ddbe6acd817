"""Rules about columns as aggregate queries over one table: all conditions of rows in one statement, each key in one.

A statement holds a bounded number of conditions and of literals. Keys are grouped in the engine, where NULL equals
NULL: a server spills to disk, an engine in this process is asked in passes over a part of the keys each, so that its
memory stays bounded. What is compared is exact: text by its bytes, whatever the collation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from typing import Any, Final

from dpone_core.connectors._sql.publication import partition_ansi, same_key_ansi
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
from dpone_core.model.load_config import PartitionBy, TableName
from dpone_core.model.sql import SqlText, name_staged
from dpone_core.model.table_schema import Column, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.rules import AskedRule
from dpone_core.ports.sink import StagedHandle, StageRequest
from dpone_core.ports.statements import StatementScalarPort, StatementScript

STATEMENT_SECONDS: Final = 600.0
"""How long the statement of a gate may take."""
CONDITIONS_PER_STATEMENT: Final = 200
LITERALS_PER_STATEMENT: Final = 2000
ROWS_PER_PASS: Final = 5_000_000
MOST_PASSES: Final = 64
_CODE: Final = "rule_not_judged"
_ROWS: Final = "__dpone__rows"
_NEW: Final = "__dpone__new"
_RULE: Final = "__dpone__rule_"
_PART: Final = "__dpone__part"
"""Names that no column of a load has: an alias hides a column of its name from GROUP BY on ClickHouse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDialect:
    """How one engine judges.

    `exact` is the expression whose equality is that of the values, `literal` the text of a value of the column's type
    in the form of `exact`, `newest` the greatest moment of a column as whole seconds since 1970 in UTC, rounded down.
    Inside the block that `snapshot` opens all queries see one state. `bucket` is the expression that puts equal keys
    into the same one of a number of parts, None for an engine that spills. `stays` is the condition that a row of the
    table `target` is not replaced by the staged rows that lie in the given table; it runs inside `full_memory`.
    `statements` runs the statements of users where the engine runs any, and `only_statement` gives the text of one
    without what ends it.
    """

    schema_of: Callable[[TableName], TableSchema | None]
    qualify: Callable[[TableName], str]
    quote: Callable[[str], str]
    rows: Callable[[str], Sequence[Sequence[Any]]]
    exact: Callable[[Column], str]
    literal: Callable[[Column, str], str]
    newest: Callable[[Column], str]
    count: str = "count(*)"
    count_of: Callable[[str], str] = "count(CASE WHEN {} THEN 1 END)".format
    snapshot: Callable[[], AbstractContextManager[object]] = nullcontext
    bucket: Callable[[str, int], str] | None = None
    stays: Callable[[StageRequest, str], str]
    statements: StatementScalarPort | None = None
    only_statement: Callable[[str], Sequence[str]] = lambda text: (text,)
    full_memory: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True, slots=True)
class SqlStagedRules:
    """StagedRulesPort of any engine that answers aggregate queries. `rows_per_pass` is how many rows one pass over a
    part of the keys groups, about."""

    dialect: RuleDialect
    rows_per_pass: int = ROWS_PER_PASS

    def judge(self, handle: StagedHandle, asked: Sequence[AskedRule]) -> Mapping[str, RuleMeasure]:
        schema, staged = self.dialect.schema_of(handle.table), self.dialect.qualify(handle.table)
        if schema is None:
            raise ConnectorError("the staged rows are no longer there", code=_CODE)
        columns = [each for each in asked if not isinstance(each.rule, UniqueRule | StatementRule)]
        with self.dialect.snapshot():
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
                (text,) = self.dialect.only_statement(sql.text)
                sql = SqlText(text=f"SELECT {self.dialect.count} FROM (\n{text}\n) AS dpone_failed")
            script = StatementScript(
                sql=sql, read_only=True, answer_seconds=STATEMENT_SECONDS, token_values=asked.token_values
            )
            if self.dialect.statements is None:
                raise ConnectorError("the sink runs no statements", code=_CODE)
            answer = self.dialect.statements.answer(script)
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
        dialect, rows = self.dialect, 0
        found: dict[str, RuleMeasure] = {}
        for part in _parts(asked) if asked else [[]]:
            selected = [f"{self._expression(schema, each)} AS {_RULE}{number}" for number, each in enumerate(part)]
            (row,) = dialect.rows(f"SELECT {', '.join([dialect.count, *selected])} FROM {staged}")
            rows = int(row[0])
            for each, value in zip(part, row[1:], strict=True):
                found[each.gate_id] = _measure(each, rows, value)
        return rows, found

    def _expression(self, schema: TableSchema, asked: AskedRule) -> str:
        dialect = self.dialect
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
        """Repeated keys of the staged rows; within the target together with the rows that stay in it, which are none
        before the first load, and NULL in a column that this load adds."""
        dialect, request = self.dialect, handle.request
        keys = ", ".join(dialect.exact(_column(schema, name)) for name in rule.columns)
        among, grouped = dialect.qualify(handle.table), rows
        new, both = dialect.count, ""
        replaces_all = rule.within is RuleScope.LOAD or request.strategy is StrategyMode.FULL_REFRESH
        held = None if replaces_all else dialect.schema_of(request.target)
        if held is not None:
            target = dialect.qualify(request.target)
            names = [dialect.quote(name) for name in rule.columns]
            theirs = [dialect.quote(name) if held.find(name) else "NULL" for name in rule.columns]
            appends = request.strategy is StrategyMode.INCREMENTAL_APPEND
            kept = "" if appends else f" AS target WHERE {dialect.stays(request, among)}"
            grouped += int(dialect.rows(f"SELECT {dialect.count} FROM {target}")[0][0]) if dialect.bucket else 0
            among = (
                f"(SELECT {', '.join(names)}, 1 AS {_NEW} FROM {among} UNION ALL"
                f" SELECT {', '.join(theirs)}, 0 AS {_NEW} FROM {target}{kept}) AS b"
            )
            new, both = f"sum({_NEW})", f" AND sum({_NEW}) > 0"
        distinct = failed = 0
        with dialect.full_memory() if held is not None else nullcontext():
            for part in self._parts_of(keys, grouped):
                counted = f"SELECT {new} AS {_ROWS} FROM {among}{part} GROUP BY {keys} HAVING {dialect.count} > 1{both}"
                ((more, found),) = dialect.rows(f"SELECT {dialect.count}, sum({_ROWS}) FROM ({counted}) AS d")
                distinct, failed = distinct + int(more), failed + int(found or 0)
        return RuleMeasure(evaluated_rows=rows, failed_rows=failed, distinct_failed_keys=distinct)

    def _parts_of(self, keys: str, rows: int) -> Iterator[str]:
        """The WHERE of each pass: every key is in one of them, equal ones in the same."""
        passes = min(MOST_PASSES, -(-rows // self.rows_per_pass))
        if self.dialect.bucket is None or passes <= 1:
            yield ""
            return
        for number in range(passes):
            yield f" WHERE {self.dialect.bucket(keys, passes)} = {number}"


def stays_ansi(
    request: StageRequest,
    staged: str,
    *,
    same_key: Callable[[Sequence[Column], str, str], str] = same_key_ansi,
    partition: Callable[[PartitionBy, str], str] = partition_ansi,
    same: Callable[[str, str], str] = "{} IS NOT DISTINCT FROM {}".format,
) -> str:
    """The condition that the load leaves a row of `target` where it is: a merge those whose key it has not staged, a
    replacement those whose partition it has not staged, NULL being a partition too."""
    if request.strategy is StrategyMode.INCREMENTAL_MERGE:
        keys = [_column(request.schema, name) for name in request.unique_key]
        return f"NOT EXISTS (SELECT 1 AS one FROM {staged} AS staged WHERE {same_key(keys, 'target', 'staged')})"
    by = request.physical_design.partition_by
    if by is None:
        raise ConnectorError("partition_replace needs physical_design.partition_by, which is missing", code=_CODE)
    replaced = f"SELECT DISTINCT {partition(by, 'staged')} AS {_PART} FROM {staged} AS staged"
    is_replaced = same(f"replaced.{_PART}", partition(by, "target"))
    return f"NOT EXISTS (SELECT 1 AS one FROM ({replaced}) AS replaced WHERE {is_replaced})"


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
