"""Acceptance metrics of a selection or a table in one aggregate query: rows, NULLs and exact distinct values (NULL is
not one).

An engine whose hash tables do not spill to disk counts distinct values in separate queries: all columns together up to
`LARGE_TABLE_ROWS` rows, above that one column per query, so that one hash table at a time is in memory. They see one
state of the table where the engine has transactions (`snapshot`); on ClickHouse, which has none, each query sees the
rows of its own moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, TableSchema
from dpone_core.ports.metrics import MetricRequest

LARGE_TABLE_ROWS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDialect:
    """How one engine counts rows, and the NULLs and distinct values of a column. With `distincts_apart`, distinct
    values are counted in separate queries, inside a block that `full_memory` opens."""

    rows: str
    nulls: Callable[[Column], str]
    distincts: Callable[[Column], str]
    distincts_apart: bool = False
    full_memory: Callable[[], AbstractContextManager[None]] = nullcontext


def measure(
    request: MetricRequest,
    schema: TableSchema,
    counts: CountDialect,
    first_row: Callable[[str], Sequence[Any]],
    *,
    place: str = "source",
) -> Mapping[str, object]:
    """The answer of a metric probe. `first_row` runs a select list over the measured rows and returns the first row;
    `schema` are their columns. Raises ConnectorError `metric_column_unknown` for a column that is not in `schema`."""
    nulls = [counts.nulls(_column(schema, name, place)) for name in request.null_counts]
    distincts = [counts.distincts(_column(schema, name, place)) for name in request.distinct_counts]
    row = [*first_row(", ".join([counts.rows, *nulls, *([] if counts.distincts_apart else distincts)]))]
    if counts.distincts_apart and distincts:
        together = [", ".join(distincts)] if int(row[0]) <= LARGE_TABLE_ROWS else distincts
        with counts.full_memory():
            row += [value for each in together for value in first_row(each)]
    split = 1 + len(request.null_counts)
    answer: dict[str, object] = {
        "null_counts": dict(zip(request.null_counts, row[1:split], strict=True)),
        "distinct_counts": dict(zip(request.distinct_counts, row[split:], strict=True)),
    }
    if request.row_count:
        answer["row_count"] = row[0]
    return answer


def _column(schema: TableSchema, name: str, place: str) -> Column:
    column = schema.find(name)
    if column is None:
        raise ConnectorError(f"column {name!r} is not in the {place}", code="metric_column_unknown")
    return column


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
        with dialect.snapshot():
            return measure(
                request,
                schema,
                dialect.counts,
                lambda selected: dialect.rows(f"SELECT {selected} FROM {dialect.qualify(table)}")[0],
                place="table",
            )
