"""Acceptance metrics of a SQL Server selection, in one aggregate query."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors._sql.extract import count_expressions, counted
from dpone_core.connectors.mssql.session import Session
from dpone_core.connectors.mssql.text import quoted_name
from dpone_core.connectors.mssql.types import comparable
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.metrics import MetricRequest

from .reader import MssqlSource
from .selection import selection


class MssqlMetricProbe:
    """Distinct counts leave NULL out and tell text apart by its bytes, whatever the collation (MSSQL-16)."""

    def __init__(self, session: Session, source: MssqlSource) -> None:
        self._session = session
        self._source = source

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError("a source probe needs an extract request", code="source_request_invalid")
        schema = self._source.describe(request.extract)
        chosen = selection(request.extract, schema)
        return counted(request, self._session.rows(chosen.query(counts_of(request, schema)), chosen.parameters)[0])


def counts_of(request: MetricRequest, schema: TableSchema) -> str:
    """The select list of the one aggregate query."""
    return ", ".join(
        count_expressions(
            request,
            schema,
            rows="COUNT_BIG(*)",
            nulls=lambda column: f"COUNT_BIG(*) - COUNT_BIG({quoted_name(column.name)})",
            distincts=lambda column: f"COUNT_BIG(DISTINCT {comparable(column)})",
        )
    )
