"""Acceptance metrics of a ClickHouse selection. Distinct values are exact and counted one column at a time, so that one
hash table is in memory."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors._sql.probe import CountDialect, measure
from dpone_core.connectors._sql.text import quote_backtick
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .reader import ClickHouseSource

COUNTS = CountDialect(
    rows="count()",
    nulls=lambda column: f"countIf(isNull({quote_backtick(column.name)}))",
    distincts=lambda column: f"uniqExact({quote_backtick(column.name)})",
    distincts_apart=True,
)


class ClickHouseSourceProbe:
    """Measures acceptance metrics of one ClickHouse source (a MetricProbe)."""

    def __init__(self, source: ClickHouseSource) -> None:
        self._source = source

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError(
                "metrics of a source need an extract request, and the request has none", code="source_request_invalid"
            )
        schema = self._source.describe(request.extract)
        chosen = self._source.selection(request.extract, schema)
        return measure(
            request,
            schema,
            COUNTS,
            lambda selected: self._source.rows(f"SELECT {selected} {chosen.text}", chosen.parameters)[0],
        )
