"""Acceptance metrics of a MySQL selection, by aggregate queries."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors._sql.probe import CountDialect, measure
from dpone_core.connectors.mysql.session import Session
from dpone_core.connectors.mysql.text import quote_name
from dpone_core.connectors.mysql.types import comparison_expression
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .reader import MySqlSource
from .selection import selection

COUNTS = CountDialect(
    rows="COUNT(*)",
    nulls=lambda column: f"COUNT(*) - COUNT({quote_name(column.name)})",
    distincts=lambda column: f"COUNT(DISTINCT {comparison_expression(column)})",
)
"""Distinct text is told apart by its code points, whatever the collation."""


class MySqlMetricProbe:
    """MetricProbe of one database."""

    def __init__(self, session: Session, source: MySqlSource) -> None:
        self._session = session
        self._source = source

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError(
                "metrics of a source need an extract request, and the request has none", code="source_request_invalid"
            )
        schema = self._source.describe(request.extract)
        chosen = selection(request.extract, schema, self._session.address.database)
        return measure(request, schema, COUNTS, lambda selected: self._session.rows(f"SELECT {selected} {chosen}")[0])
