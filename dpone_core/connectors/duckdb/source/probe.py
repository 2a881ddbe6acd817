"""Acceptance metrics of a DuckDB selection, in one aggregate query."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors._sql.extract import count_expressions, counted
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .reader import DuckDbSource, selection


class DuckDbSourceProbe:
    """Distinct counts leave NULL out."""

    def __init__(self, source: DuckDbSource) -> None:
        self._source = source

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError("a source probe needs an extract request", code="source_request_invalid")
        schema = self._source.describe(request.extract)
        chosen = selection(request.extract, schema)
        counts = count_expressions(
            request,
            schema,
            rows="count(*)",
            nulls=lambda column: f"count(*) - count({quote_ansi(column.name)})",
            distincts=lambda column: f"count(DISTINCT {quote_ansi(column.name)})",
        )
        return counted(request, self._source.rows(f"SELECT {', '.join(counts)} {chosen.text}", chosen.parameters)[0])
