"""Acceptance metrics of a ClickHouse selection: counts and nulls in one aggregate query, distincts exactly.

Up to LARGE_TABLE_ROWS the distinct counts share a query; above, each gets one of its own, so that one hash set at a
time is in memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors._sql.extract import count_expressions, counted
from dpone_core.connectors._sql.sink_probe import LARGE_TABLE_ROWS
from dpone_core.connectors._sql.text import quote_backtick
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .reader import ClickHouseSource


class ClickHouseSourceProbe:
    """NULL is no distinct value."""

    def __init__(self, source: ClickHouseSource) -> None:
        self._source = source

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError("a source probe needs an extract request", code="source_request_invalid")
        schema = self._source.describe(request.extract)
        chosen = self._source.selection(request.extract, schema)
        expressions = count_expressions(
            request,
            schema,
            rows="count()",
            nulls=lambda column: nulls(column.name),
            distincts=lambda column: distincts(column.name),
        )
        asked = len(request.distinct_counts)
        first = expressions[: len(expressions) - asked]
        row = [*self._source.rows(f"SELECT {', '.join(first)} {chosen.text}", chosen.parameters)[0]]
        rest = expressions[len(first) :]
        groups = [rest] if row[0] <= LARGE_TABLE_ROWS else [(one,) for one in rest]
        for group in groups if rest else []:
            row += self._source.rows(f"SELECT {', '.join(group)} {chosen.text}", chosen.parameters)[0]
        return counted(request, row)


def nulls(name: str) -> str:
    return f"countIf(isNull({quote_backtick(name)}))"


def distincts(name: str) -> str:
    return f"uniqExact({quote_backtick(name)})"
