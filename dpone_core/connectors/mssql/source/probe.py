"""Acceptance metrics of a SQL Server selection, by aggregate queries."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors._sql.probe import measure
from dpone_core.connectors.mssql.session import Session
from dpone_core.connectors.mssql.types import COUNTS
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .reader import MssqlSource
from .selection import selection


class MssqlMetricProbe:
    """MetricProbe of one database."""

    def __init__(self, session: Session, source: MssqlSource) -> None:
        self._session = session
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
            lambda selected: self._session.rows(chosen.query(selected), chosen.parameters)[0],
        )
