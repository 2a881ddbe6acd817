"""Acceptance metrics of a DuckDB selection, by aggregate queries."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors._sql.probe import CountDialect, measure
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .reader import DuckDbSource, selection

COUNTS = CountDialect(
    rows="count(*)",
    nulls=lambda column: f"count(*) - count({quote_ansi(column.name)})",
    distincts=lambda column: f"count(DISTINCT {quote_ansi(column.name)})",
    distincts_apart=True,
    distinct_value=lambda column: quote_ansi(column.name),
)
"""DuckDB spills the hash table of a SELECT DISTINCT to disk, and neither spills nor counts that of count(DISTINCT)."""


class DuckDbSourceProbe:
    """MetricProbe of one DuckDB source."""

    def __init__(self, source: DuckDbSource) -> None:
        self._source = source

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError(
                "metrics of a source need an extract request, and the request has none", code="source_request_invalid"
            )
        schema = self._source.describe(request.extract)
        chosen = selection(request.extract, schema)
        return measure(
            request,
            schema,
            COUNTS,
            lambda selected: self._source.rows(f"SELECT {selected} {chosen.text}", chosen.parameters)[0],
            count_selected=lambda selected: int(
                self._source.rows(f"SELECT count(v) FROM (SELECT {selected} {chosen.text})", chosen.parameters)[0][0]
            ),
        )
