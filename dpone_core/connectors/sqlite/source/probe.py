"""Acceptance metrics of a SQLite selection, by aggregate queries."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors._sql.probe import CountDialect, measure
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.sqlite.database import Database
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .reader import SqliteSource
from .selection import selection
from .types import comparison_expression

COUNTS = CountDialect(
    rows="count(*)",
    nulls=lambda column: f"count(*) FILTER (WHERE {quote_ansi(column.name)} IS NULL)" if column.nullable else "0",
    distincts=lambda column: f"count(DISTINCT {comparison_expression(column, quote_ansi(column.name))})",
)
"""Times count as instants, whatever separator their text uses. A column that is NOT NULL is not scanned for NULL, which
the engine itself keeps out."""


class SqliteMetricProbe:
    """MetricProbe of one file."""

    def __init__(self, database: Database, source: SqliteSource) -> None:
        self._database = database
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
            lambda selected: self._database.rows(f"SELECT {selected} {chosen.text}", chosen.parameters)[0],
        )
