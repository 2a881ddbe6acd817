"""Every staged sink counts the same rows that break a rule, as a reckoning in Python does.

Contract: GATE-26, GATE-27, GATE-28, GATE-31.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pytest

from dpone_core.connectors._sql.column_rules import MOST_PASSES, SqlStagedRules
from dpone_core.declared import clickhouse, mssql
from dpone_core.errors import ConnectorError
from dpone_core.model.column_rules import (
    AcceptedValuesRule,
    ColumnRule,
    Expectation,
    FreshnessRule,
    NotNullRule,
    RuleMeasure,
    RuleScope,
    RuleValue,
    StatementRule,
    UniqueRule,
)
from dpone_core.model.load_config import PartitionBy, PartitionGranularity, PhysicalDesign, TableName
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import NO_COLUMNS, Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.rules import AskedRule
from dpone_core.ports.sink import StagedHandle
from dpone_core.ports.statements import StatementScript
from dpone_core.testing.builders import stage_request
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.mssql_servers import mssql_server
from tests.connectors.sessions import duckdb_sink, embedded_clickhouse, files_sink, mssql_sink, postgres_sink
from tests.live.servers import scratch_postgres

ENGINES: Final = ("duckdb", "postgres", "clickhouse", "mssql")
needs_an_engine = pytest.mark.parametrize("sink", ENGINES, indirect=True, scope="module")
"""Not for files, whose rows are judged by DuckDB without staging and without statements."""
SCHEMA: Final = TableSchema(
    columns=(
        Column(name="id", type=ColumnType(kind=ColumnKind.INT64), nullable=False),
        Column(name="word", type=ColumnType(kind=ColumnKind.STRING)),
        Column(name="n", type=ColumnType(kind=ColumnKind.INT32)),
        Column(name="amount", type=ColumnType(kind=ColumnKind.DECIMAL, precision=18, scale=4)),
        Column(name="day", type=ColumnType(kind=ColumnKind.DATE)),
        Column(name="at", type=ColumnType(kind=ColumnKind.TIMESTAMP_TZ, fraction=6)),
        Column(name="wall", type=ColumnType(kind=ColumnKind.TIMESTAMP, fraction=6)),
        Column(name="flag", type=ColumnType(kind=ColumnKind.BOOLEAN)),
        Column(name="ratio", type=ColumnType(kind=ColumnKind.FLOAT64)),
        Column(name="part one", type=ColumnType(kind=ColumnKind.UUID)),
    )
)
ARROW: Final = pa.schema(
    [
        *(("id", pa.int64()), ("word", pa.string()), ("n", pa.int32()), ("amount", pa.decimal128(18, 4))),
        *(("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("wall", pa.timestamp("us")), ("flag", pa.bool_())),
        *(("ratio", pa.float64()), ("part one", pa.uuid())),
    ]
)
WORDS: Final = ("new", "NEW", "new ", "n\u00e9w", "ne\u0301w", "it's", "a\\b", "", None)
NEWEST: Final = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
ROWS: Final = [
    {
        "id": number,
        "word": WORDS[number % len(WORDS)],
        "n": None if number % 7 == 0 else number % 5 - 2,
        "amount": None if number % 11 == 0 else Decimal(number % 6) / 4,
        "day": None if number % 13 == 0 else date(2026, 1, 1) + timedelta(days=number % 9),
        "at": None if number % 4 == 0 else NEWEST - timedelta(hours=number % 10),
        "wall": None if number % 4 == 0 else (NEWEST - timedelta(hours=number % 10)).replace(tzinfo=None),
        "flag": None if number % 6 == 0 else number % 2 == 0,
        "ratio": (None, 0.5, 1.0, float("nan"))[number % 4],
        "part one": None if number % 10 == 0 else UUID(int=number % 3),
    }
    for number in range(1, 200)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The rows above, staged once in one sink."""

    sink: OpenSink
    handle: StagedHandle

    def judge(self, *rules: ColumnRule, reference: datetime | None = None) -> list[RuleMeasure]:
        asked = [
            AskedRule(gate_id=f"g{number}", rule=rule, reference=reference, token_values={"ds": "2026-01-05"})
            for number, rule in enumerate(rules)
        ]
        assert self.sink.ports.rules is not None
        found = self.sink.ports.rules.judge(self.handle, asked)
        assert set(found) == {each.gate_id for each in asked}
        return [found[each.gate_id] for each in asked]


def opened(name: str, stack: ExitStack, root: Path) -> OpenSink:
    match name:
        case "duckdb":
            return stack.enter_context(duckdb_sink(root))
        case "postgres":
            return stack.enter_context(postgres_sink(stack.enter_context(scratch_postgres())))
        case "clickhouse":
            return stack.enter_context(embedded_clickhouse(root))
        case "files":
            return stack.enter_context(files_sink(root))
        case _:
            return stack.enter_context(mssql_sink(stack.enter_context(mssql_server()).uri))


@pytest.fixture(scope="module", params=(*ENGINES, "files"))
def sink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with ExitStack() as stack:
        yield opened(request.param, stack, tmp_path_factory.mktemp("rules"))


def put(
    sink: OpenSink,
    rows: Sequence[dict[str, Any]],
    *,
    table: TableName | None = None,
    load: str = "L1",
    strategy: StrategyMode = StrategyMode.FULL_REFRESH,
    added: TableSchema = NO_COLUMNS,
    schema: TableSchema = SCHEMA,
    **more: Any,
) -> Staged:
    if sink.descriptor is mssql.DESCRIPTOR:  # its floats have no NaN
        rows = [{**row, "ratio": 2.0 if row["ratio"] != row["ratio"] else row["ratio"]} for row in rows]
    request = replace(
        stage_request(table or fresh_table(), load, schema=schema, strategy=strategy, **more), added=added
    )
    batches = pa.Table.from_pylist(list(rows), schema=ARROW).to_batches(max_chunksize=64)
    if sink.ports.legacy is not None:
        request = replace(request, physical_design=PhysicalDesign(file_format="parquet"))
        written = sink.ports.legacy.load(request, iter(batches)).written_rows
        whole = StagedHandle(request=request, table=request.target, payload_schema=schema, staged_rows=written)
        return Staged(sink=sink, handle=whole)
    assert sink.ports.staged is not None
    return Staged(sink=sink, handle=sink.ports.staged.stage(request, iter(batches)))


@pytest.fixture(scope="module", name="staged")
def staged_rows(sink: OpenSink) -> Staged:
    return put(sink, ROWS)


def failing(*columns: str) -> int:
    return sum(any(row[name] is None for name in columns) for row in ROWS)


@pytest.mark.parametrize("columns", [("id",), ("word",), ("n", "amount"), ("part one", "flag", "day")])
def test_nulls_are_counted_by_rows(staged: Staged, columns: tuple[str, ...]) -> None:
    assert staged.judge(NotNullRule(columns=columns)) == [
        RuleMeasure(evaluated_rows=len(ROWS), failed_rows=failing(*columns))
    ]


@pytest.mark.parametrize(
    "columns", [("id",), ("word",), ("n",), ("n", "word"), ("amount", "day"), ("at",), ("flag",), ("part one", "n")]
)
def test_repeated_keys_are_counted_by_rows_and_by_keys_and_null_is_a_value(
    staged: Staged, columns: tuple[str, ...]
) -> None:
    keys = Counter(tuple(row[name] for name in columns) for row in ROWS)
    repeated = [number for number in keys.values() if number > 1]
    assert staged.judge(UniqueRule(columns=columns)) == [
        RuleMeasure(evaluated_rows=len(ROWS), failed_rows=sum(repeated), distinct_failed_keys=len(repeated))
    ]


ACCEPTED: Final[dict[str, tuple[str, tuple[RuleValue, ...], tuple[object, ...]]]] = {
    "text by code point": ("word", ("new", "n\u00e9w"), ("new", "n\u00e9w")),
    "quotes and backslashes": ("word", ("it's", "a\\b"), ("it's", "a\\b")),
    "empty text": ("word", ("",), ("",)),
    "integers": ("n", (-2, 0, 1), (-2, 0, 1)),
    "decimals as text and as numbers": ("amount", ("0.2500", 1, 0.5), (Decimal("0.25"), Decimal(1), Decimal("0.5"))),
    "dates": ("day", ("2026-01-01", "2026-01-09"), (date(2026, 1, 1), date(2026, 1, 9))),
    "instants in any zone": ("at", ("2026-03-01T14:00:00.5+02:00",), (NEWEST,)),
    "wall clocks": ("wall", ("2026-03-01 12:00:00.500000",), (NEWEST.replace(tzinfo=None),)),
    "booleans": ("flag", (True,), (True,)),
    "uuids": ("part one", (str(UUID(int=1)).upper(), str(UUID(int=2))), (UUID(int=1), UUID(int=2))),
}


@pytest.mark.parametrize("allow_null", [True, False])
@pytest.mark.parametrize("case", ACCEPTED.values(), ids=ACCEPTED)
def test_other_values_are_counted_and_null_where_it_is_not_allowed(
    staged: Staged, case: tuple[str, tuple[RuleValue, ...], tuple[object, ...]], allow_null: bool
) -> None:
    column, values, accepted = case
    kept = (*accepted, None) if allow_null else accepted
    wrong = sum(row[column] not in kept for row in ROWS)
    rule = AcceptedValuesRule(column=column, values=values, allow_null=allow_null)
    assert 0 < wrong < len(ROWS)
    assert staged.judge(rule) == [RuleMeasure(evaluated_rows=len(ROWS), failed_rows=wrong)]


def test_nan_is_no_accepted_value(staged: Staged) -> None:
    wrong = sum(row["ratio"] not in (0.5, 1.0) for row in ROWS)
    assert staged.judge(AcceptedValuesRule(column="ratio", values=(0.5, 1))) == [
        RuleMeasure(evaluated_rows=len(ROWS), failed_rows=wrong)
    ]


@pytest.mark.parametrize(
    ("column", "after", "age"),
    [
        ("at", timedelta(hours=1), 3600),
        ("wall", timedelta(hours=1), 3600),
        ("at", timedelta(seconds=-30), 0),
        ("day", timedelta(), (date(2026, 3, 1) - date(2026, 1, 9)).days * 86_400 + 43_200),
    ],
)
def test_the_age_of_the_newest_value_is_counted_in_seconds(
    staged: Staged, column: str, after: timedelta, age: int
) -> None:
    reference = NEWEST.replace(microsecond=0) + after
    assert staged.judge(FreshnessRule(column=column, max_age_seconds=1), reference=reference) == [
        RuleMeasure(evaluated_rows=len(ROWS), newest_age_seconds=age)
    ]


def test_no_rows_break_no_rule_and_are_not_fresh(sink: OpenSink) -> None:
    empty = put(sink, [])
    rules = (
        NotNullRule(columns=("id",)),
        UniqueRule(columns=("id",)),
        AcceptedValuesRule(column="n", values=(1,)),
        FreshnessRule(column="at", max_age_seconds=1),
    )
    assert empty.judge(*rules, reference=NEWEST) == [
        RuleMeasure(evaluated_rows=0, failed_rows=0),
        RuleMeasure(evaluated_rows=0, failed_rows=0, distinct_failed_keys=0),
        RuleMeasure(evaluated_rows=0, failed_rows=0),
        RuleMeasure(evaluated_rows=0),
    ]


def test_rows_whose_moments_are_all_null_are_not_fresh(sink: OpenSink) -> None:
    rows = [{**row, "at": None} for row in ROWS]
    assert put(sink, rows).judge(FreshnessRule(column="at", max_age_seconds=1), reference=NEWEST) == [
        RuleMeasure(evaluated_rows=len(ROWS))
    ]


@needs_an_engine
def test_an_append_is_judged_with_the_rows_that_the_target_holds(sink: OpenSink) -> None:
    """Rows 1 and 2 are in the target; the load brings 2 twice, 3 once and 4 twice."""
    table, append = fresh_table(), StrategyMode.INCREMENTAL_APPEND
    assert sink.ports.staged is not None
    first = put(sink, ROWS[:2], table=table, strategy=append)
    assert first.judge(UniqueRule(columns=("id",), within=RuleScope.TARGET)) == [
        RuleMeasure(evaluated_rows=2, failed_rows=0, distinct_failed_keys=0)
    ], "there is no target yet"
    sink.ports.staged.finalize(first.handle)
    sink.ports.staged.cleanup(first.handle.ref)
    numbers = (1, 1, 2, 3, 3)
    second = put(sink, [ROWS[number] for number in numbers], table=table, load="L2", strategy=append)
    whole, own = UniqueRule(columns=("id",), within=RuleScope.TARGET), UniqueRule(columns=("id",))
    assert second.judge(whole, own) == [
        RuleMeasure(evaluated_rows=5, failed_rows=4, distinct_failed_keys=2),
        RuleMeasure(evaluated_rows=5, failed_rows=4, distinct_failed_keys=2),
    ]
    third = put(sink, [ROWS[0], ROWS[5]], table=table, load="L3", strategy=append)
    assert third.judge(whole, own) == [
        RuleMeasure(evaluated_rows=2, failed_rows=1, distinct_failed_keys=1),
        RuleMeasure(evaluated_rows=2, failed_rows=0, distinct_failed_keys=0),
    ]


WHOLE_N: Final = UniqueRule(columns=("n",), within=RuleScope.TARGET)


def published(staged: Staged) -> None:
    ports = staged.sink.ports
    assert ports.staged is not None
    ports.staged.finalize(staged.handle)
    ports.staged.cleanup(staged.handle.ref)


@needs_an_engine
@pytest.mark.parametrize("key", [("id",), ("id", "word")])
def test_a_merge_is_judged_with_the_rows_that_it_does_not_update(sink: OpenSink, key: tuple[str, ...]) -> None:
    """Held: n of 1 is 10, of 2 is 20, of 3 is NULL. The merge gives 2 another n, and adds 4."""
    table, merge = fresh_table(), {"strategy": StrategyMode.INCREMENTAL_MERGE, "unique_key": key}
    row = {**ROWS[0], "word": "a"}
    held = put(sink, [{**row, "id": 1, "n": 10}, {**row, "id": 2, "n": 20}, {**row, "id": 3, "n": None}], table=table)
    published(held)
    for load, changed, added, repeated in (
        ("L2", 20, 30, 0),  # each of its own
        ("L3", 10, 20, 1),  # 2 takes the n of 1; what 2 had is free for 4
        ("L4", None, 10, 2),  # NULL is a value, and 3 has it
        ("L5", 30, 30, 2),  # repeated in the load itself
    ):
        staged = put(
            sink, [{**row, "id": 2, "n": changed}, {**row, "id": 4, "n": added}], table=table, load=load, **merge
        )
        (measure,) = staged.judge(WHOLE_N)
        assert (measure.evaluated_rows, measure.failed_rows) == (2, repeated), load
        assert staged.sink.ports.staged is not None
    staged.sink.ports.staged.cleanup(staged.handle.ref)


@needs_an_engine
@pytest.mark.parametrize("granularity", [PartitionGranularity.VALUE, PartitionGranularity.MONTH])
def test_a_replacement_is_judged_with_the_partitions_that_stay(
    sink: OpenSink, granularity: PartitionGranularity
) -> None:
    table = fresh_table()
    design = {
        "strategy": StrategyMode.PARTITION_REPLACE,
        "partition_by": PartitionBy(column="day", granularity=granularity),
    }
    filled = TableSchema(columns=tuple(replace(each, nullable=each.name != "day") for each in SCHEMA.columns))
    schema = filled if sink.descriptor is clickhouse.DESCRIPTOR else SCHEMA
    january, march = date(2026, 1, 31), date(2026, 3, 31)
    empty = {} if sink.descriptor is clickhouse.DESCRIPTOR else {9: None}
    rows = [
        {**ROWS[0], "id": number, "n": number, "day": day}
        for number, day in {1: january, 2: january, 3: march, **empty}.items()
    ]
    published(put(sink, rows, table=table, schema=schema, **design))
    new = [{**ROWS[0], "id": 3 + n, "n": n, "day": january} for n in (1, 2, 3)]
    (measure,) = put(sink, new, table=table, load="L2", schema=schema, **design).judge(WHOLE_N)
    assert (measure.failed_rows, measure.distinct_failed_keys) == (1, 1), "3 stays in March, 1 and 2 go with January"
    if empty:
        nothing = [{**ROWS[0], "id": 6, "n": 9, "day": None}, {**ROWS[0], "id": 7, "n": 2, "day": None}]
        (measure,) = put(sink, nothing, table=table, load="L3", **design).judge(WHOLE_N)
        assert measure.failed_rows == 1, "NULL is a partition of its own, and 9 goes with it"


@needs_an_engine
def test_rows_of_the_target_are_null_in_a_column_that_the_append_adds(sink: OpenSink) -> None:
    table, append = fresh_table(), StrategyMode.INCREMENTAL_APPEND
    assert sink.ports.staged is not None
    narrow = TableSchema(columns=SCHEMA.columns[:2])
    before = pa.Table.from_pylist(ROWS[:3], schema=ARROW).select(["id", "word"])
    request = stage_request(table, schema=narrow, strategy=append)
    held = sink.ports.staged.stage(request, iter(before.to_batches()))
    sink.ports.staged.finalize(held)
    sink.ports.staged.cleanup(held.ref)
    rows = [{**row, "n": number} for row, number in zip(ROWS, (None, 1, 2), strict=False)]
    wider = TableSchema(columns=SCHEMA.columns[2:])
    added = put(sink, rows, table=table, load="L2", strategy=append, added=wider)
    assert added.judge(UniqueRule(columns=("n",), within=RuleScope.TARGET)) == [
        RuleMeasure(evaluated_rows=3, failed_rows=1, distinct_failed_keys=1)
    ]


def test_many_rules_take_several_statements_of_bounded_size(staged: Staged) -> None:
    long = AcceptedValuesRule(column="n", values=tuple(range(-500, 500)), allow_null=True)
    rules = [NotNullRule(columns=("n",))] * 250 + [long] * 5
    assert [measure.failed_rows for measure in staged.judge(*rules)] == [failing("n")] * 250 + [0] * 5


@needs_an_engine
@pytest.mark.parametrize(("rows_per_pass", "most"), [(20, 10), (1, MOST_PASSES)])
@pytest.mark.parametrize(
    "columns", [("word",), ("n", "flag"), ("part one", "amount"), ("id",), ("day", "word", "at")], ids="-".join
)
def test_keys_are_counted_in_passes_of_bounded_size(
    columns: tuple[str, ...], rows_per_pass: int, most: int, staged: Staged
) -> None:
    """Equal keys meet in one pass, those with NULL too; a server needs none."""
    rules = staged.sink.ports.rules
    assert isinstance(rules, SqlStagedRules)
    asked: list[str] = []

    def rows(sql: str) -> Sequence[Sequence[Any]]:
        asked.append(sql)
        return rules.dialect.rows(sql)

    watched = replace(rules, dialect=replace(rules.dialect, rows=rows), rows_per_pass=rows_per_pass)
    found = watched.judge(staged.handle, [AskedRule(gate_id="g", rule=UniqueRule(columns=columns))])
    assert [found["g"]] == staged.judge(UniqueRule(columns=columns))
    passes = [sql for sql in asked if "GROUP BY" in sql]
    assert len(passes) == (most if rules.dialect.bucket else 1)
    assert len(list(rules._parts_of("k", 10**12))) == (MOST_PASSES if rules.dialect.bucket else 1)


def test_a_column_that_is_not_there_is_an_error(staged: Staged) -> None:
    with pytest.raises(ConnectorError) as refused:
        staged.judge(NotNullRule(columns=("nope",)))
    assert refused.value.code == "rule_not_judged"


def statement(text: str, expect: Expectation = Expectation.ZERO) -> StatementRule:
    return StatementRule(sql=SqlText(text=text), expect=expect)


def early() -> int:
    return sum(row["day"] is not None and row["day"] < date(2026, 1, 5) for row in ROWS)


@needs_an_engine
def test_a_statement_counts_the_rows_that_break_its_rule_with_tokens_as_parameters(staged: Staged) -> None:
    many = statement("SELECT count(*) FROM {{ staged }} WHERE day < CAST({{ ds }} AS date); -- all of them")
    none = statement("SELECT count(*) FROM {{ staged }} AS s WHERE s.id < 0")
    assert staged.judge(many, none) == [
        RuleMeasure(evaluated_rows=len(ROWS), failed_rows=early()),
        RuleMeasure(evaluated_rows=len(ROWS), failed_rows=0),
    ]


@needs_an_engine
def test_a_statement_may_return_the_rows_that_break_its_rule(staged: Staged) -> None:
    rows = "SELECT id, day FROM {{ staged }} WHERE day < CAST({{ ds }} AS date); -- all of them"
    none = "SELECT id FROM {{ staged }} WHERE id < 0 -- none"
    measures = staged.judge(*(statement(text, Expectation.ZERO_ROWS) for text in (rows, none)))
    assert [measure.failed_rows for measure in measures] == [early(), 0]


UNANSWERED: Final = {
    "no row": "SELECT id FROM {{ staged }} WHERE id < 0",
    "two rows": "SELECT id FROM {{ staged }} WHERE id < 3",
    "two columns": "SELECT min(id), max(id) FROM {{ staged }}",
    "NULL": "SELECT min(n) FROM {{ staged }} WHERE n IS NULL",
    "text": "SELECT min('c4n4ry-value') FROM {{ staged }}",
    "a fraction": "SELECT max(CAST(1.5 AS decimal(9, 2))) FROM {{ staged }}",
    "less than nothing": "SELECT 0 - count(*) FROM {{ staged }}",
    "no such column": "SELECT count(nope) FROM {{ staged }}",
    "two statements": "SELECT count(*) FROM {{ staged }}; SELECT count(*) FROM {{ staged }}",
    "a change": "DELETE FROM {{ staged }}",
}


@needs_an_engine
@pytest.mark.parametrize("text", UNANSWERED.values(), ids=UNANSWERED)
def test_a_statement_that_answers_with_no_count_is_no_measure(text: str, staged: Staged) -> None:
    with pytest.raises(ConnectorError) as refused:
        staged.judge(statement(text))
    assert refused.value.code == "rule_not_judged"
    assert "g0" in refused.value.message and "c4n4ry" not in str(refused.value)
    assert staged.judge(statement("SELECT count(*) FROM {{ staged }}"))[0].failed_rows == len(ROWS)


ENDLESS: Final = {
    "duckdb": "SELECT count(*) FROM range(100000000000) AS a(x) WHERE hash(x) = 1",
    "postgres": "SELECT count(*) FROM generate_series(1, 10000000000) AS a(x)",
    "clickhouse": "SELECT count() FROM system.numbers WHERE cityHash64(number) = 1",
}


@pytest.mark.parametrize(("sink", "text"), ENDLESS.items(), indirect=["sink"], ids=ENDLESS)
def test_a_statement_that_takes_too_long_is_ended(sink: OpenSink, text: str) -> None:
    assert sink.ports.statements is not None
    began = time.monotonic()
    with pytest.raises(ConnectorError) as refused:
        sink.ports.statements.answer(StatementScript(sql=SqlText(text=text), answer_seconds=0.3))
    assert refused.value.code == "statement_failed" and time.monotonic() - began < 10
