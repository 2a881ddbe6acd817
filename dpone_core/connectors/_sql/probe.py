"""Acceptance metrics of a selection or a table by aggregate queries: rows, NULLs and exact distinct values (NULL is not
one).

A statement counts a bounded number of columns: engines limit a select list, and the cost of distinct values grows with
the square of their number. An engine whose hash tables do not spill to disk counts distinct values in queries of their
own, few columns together while the rows are few, and above `LARGE_TABLE_ROWS` rows one column per query, so that one
hash table at a time is in memory. Several statements see one state of the table where the engine has transactions
(`snapshot`); on ClickHouse, which has none, and of a source outside of one, each sees the rows of its own moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, TableSchema
from dpone_core.ports.metrics import MetricRequest

LARGE_TABLE_ROWS: Final = 1_000_000
NULLS_PER_STATEMENT: Final = 500
DISTINCTS_PER_STATEMENT: Final = 25
_CELLS_PER_STATEMENT: Final = 4_000_000
"""Values of all columns whose distinct ones are counted together by an engine that keeps them in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDialect:
    """How one engine counts rows, and the NULLs and distinct values of a column. With `distincts_apart`, distinct
    values are counted in separate queries, inside a block that `full_memory` opens. `distinct_value` is what a SELECT
    DISTINCT of an engine that spills only those to disk selects."""

    rows: str
    nulls: Callable[[Column], str]
    distincts: Callable[[Column], str]
    distincts_apart: bool = False
    distinct_value: Callable[[Column], str] | None = None
    full_memory: Callable[[], AbstractContextManager[None]] = nullcontext


def measure(
    request: MetricRequest,
    schema: TableSchema,
    counts: CountDialect,
    first_row: Callable[[str], Sequence[Any]],
    *,
    place: str = "source",
    count_selected: Callable[[str], int] | None = None,
) -> Mapping[str, object]:
    """The answer of a metric probe. `first_row` runs a select list over the measured rows and returns the first row;
    `count_selected` counts the values, without NULL, of a select list with the one column `v`; `schema` are the
    measured columns. Raises ConnectorError `metric_column_unknown` for a column that is not in `schema`."""
    nulls = [counts.nulls(column) for column in _columns(schema, request.null_counts, place)]
    columns = _columns(schema, request.distinct_counts, place)
    distincts = [counts.distincts(column) for column in columns]
    first = [] if counts.distincts_apart else distincts[:DISTINCTS_PER_STATEMENT]
    row = [*first_row(", ".join([counts.rows, *nulls[:NULLS_PER_STATEMENT], *first]))]
    found_nulls = row[1 : 1 + min(len(nulls), NULLS_PER_STATEMENT)]
    found_distincts = row[1 + len(found_nulls) :]
    for part in _parts(nulls[NULLS_PER_STATEMENT:], NULLS_PER_STATEMENT):
        found_nulls += first_row(", ".join(part))
    if counts.distincts_apart and distincts:
        with counts.full_memory():
            found_distincts += _count_apart(columns, counts, int(row[0]), first_row, count_selected)
    for part in _parts(distincts[len(found_distincts) :], DISTINCTS_PER_STATEMENT):
        found_distincts += first_row(", ".join(part))
    answer: dict[str, object] = {
        "null_counts": dict(zip(request.null_counts, found_nulls, strict=True)),
        "distinct_counts": dict(zip(request.distinct_counts, found_distincts, strict=True)),
    }
    if request.row_count:
        answer["row_count"] = row[0]
    return answer


def _count_apart(
    columns: Sequence[Column],
    counts: CountDialect,
    rows: int,
    first_row: Callable[[str], Sequence[Any]],
    count_selected: Callable[[str], int] | None,
) -> list[Any]:
    """Distinct values for an engine that holds them in memory: together while they are few."""
    if rows <= LARGE_TABLE_ROWS:
        together = max(min(DISTINCTS_PER_STATEMENT, _CELLS_PER_STATEMENT // max(rows, 1)), 1)
        parts = _parts([counts.distincts(column) for column in columns], together)
        return [value for part in parts for value in first_row(", ".join(part))]
    if counts.distinct_value is None or count_selected is None:
        return [first_row(counts.distincts(column))[0] for column in columns]
    return [count_selected(f"DISTINCT {counts.distinct_value(column)} AS v") for column in columns]


def _parts(expressions: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(expressions), most):
        yield expressions[start : start + most]


def _columns(schema: TableSchema, names: Sequence[str], place: str) -> list[Column]:
    known = {column.name: column for column in schema.columns}
    for name in names:
        if name not in known:
            raise ConnectorError(f"column {name!r} is not in the {place}", code="metric_column_unknown")
    return [known[name] for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkProbeDialect:
    """How one engine finds a table and counts in it; `rows` runs a small query. Inside the block that `snapshot` opens
    all of them see one state of the table."""

    resolve: Callable[[TableName], TableName]
    schema_of: Callable[[TableName], TableSchema | None]
    qualify: Callable[[TableName], str]
    rows: Callable[[str], Sequence[Sequence[Any]]]
    counts: CountDialect
    snapshot: Callable[[], AbstractContextManager[object]] = nullcontext


class SqlSinkProbe:
    """MetricProbe of staged and published tables, on any engine that answers aggregate queries."""

    def __init__(self, dialect: SinkProbeDialect) -> None:
        self._dialect = dialect

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.table is None:
            raise ConnectorError(
                "metrics of a sink need a table, and the request names none", code="source_request_invalid"
            )
        dialect = self._dialect
        table = dialect.resolve(request.table)
        schema = dialect.schema_of(table)
        if schema is None:
            raise ConnectorError("the table to be measured does not exist", code="target_not_found")
        counting, from_ = "SELECT count(v) FROM", f"FROM {dialect.qualify(table)}"
        with dialect.snapshot():
            return measure(
                request,
                schema,
                dialect.counts,
                lambda selected: dialect.rows(f"SELECT {selected} {from_}")[0],
                place="table",
                count_selected=lambda selected: int(dialect.rows(f"{counting} (SELECT {selected} {from_}) AS c")[0][0]),
            )
