"""Acceptance metrics of a MySQL selection, in one aggregate query."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors._sql.extract import count_expressions, counted
from dpone_core.connectors.mysql.session import Session
from dpone_core.connectors.mysql.text import quoted_name
from dpone_core.connectors.mysql.types import comparable
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .reader import MySqlSource
from .selection import selection


class MySqlMetricProbe:
    """Distinct counts leave NULL out and tell text apart by its code points, whatever the collation."""

    def __init__(self, session: Session, source: MySqlSource) -> None:
        self._session = session
        self._source = source

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError("a source probe needs an extract request", code="source_request_invalid")
        schema = self._source.describe(request.extract)
        parts = count_expressions(
            request,
            schema,
            rows="COUNT(*)",
            nulls=lambda column: f"COUNT(*) - COUNT({quoted_name(column.name)})",
            distincts=lambda column: f"COUNT(DISTINCT {comparable(column)})",
        )
        chosen = selection(request.extract, schema, self._session.address.database)
        return counted(request, self._session.rows(f"SELECT {', '.join(parts)} {chosen}")[0])
