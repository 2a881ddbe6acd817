"""Acceptance metrics of a staged or published table: rows and NULLs in one aggregate query, distinct values exactly.

Up to LARGE_TABLE_ROWS the distinct counts share one more query; above, each gets a query of its own, so that one hash
set at a time is in memory. NULL is no distinct value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.metrics import MetricRequest

LARGE_TABLE_ROWS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkProbeDialect:
    """How one engine finds a table and counts in it; `nulls` and `distincts` take a column's name.

    Distinct counts run inside a block that `roomy` opens, for an engine whose memory is bounded more tightly elsewhere.
    """

    resolve: Callable[[TableName], TableName]
    schema_of: Callable[[TableName], TableSchema | None]
    qualified: Callable[[TableName], str]
    rows: Callable[[str], Sequence[Sequence[Any]]]
    count: str
    nulls: Callable[[str], str]
    distincts: Callable[[str], str]
    full_memory: Callable[[], AbstractContextManager[None]] = nullcontext


class SqlSinkProbe:
    """SinkProbe over any engine that answers aggregate queries."""

    def __init__(self, dialect: SinkProbeDialect) -> None:
        self._dialect = dialect

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.table is None:
            raise ConnectorError("a sink probe needs a table", code="source_request_invalid")
        dialect = self._dialect
        table = dialect.resolve(request.table)
        known = dialect.schema_of(table)
        if known is None:
            raise ConnectorError("the table to be measured does not exist", code="target_not_found")
        for name in (*request.null_counts, *request.distinct_counts):
            if known.find(name) is None:
                raise ConnectorError(f"column {name!r} is not in the table", code="metric_column_unknown")
        source = dialect.qualified(table)
        nulls = [dialect.nulls(name) for name in request.null_counts]
        row = dialect.rows(f"SELECT {', '.join([dialect.count, *nulls])} FROM {source}")[0]
        answer: dict[str, object] = {
            "null_counts": dict(zip(request.null_counts, row[1:], strict=True)),
            "distinct_counts": self._distincts(source, request.distinct_counts, rows=int(row[0])),
        }
        if request.row_count:
            answer["row_count"] = row[0]
        return answer

    def _distincts(self, source: str, names: tuple[str, ...], *, rows: int) -> dict[str, int]:
        counts = [self._dialect.distincts(name) for name in names]
        together = [", ".join(counts)] if counts and rows <= LARGE_TABLE_ROWS else counts
        with self._dialect.full_memory():
            found = [value for each in together for value in self._dialect.rows(f"SELECT {each} FROM {source}")[0]]
        return dict(zip(names, found, strict=True))
