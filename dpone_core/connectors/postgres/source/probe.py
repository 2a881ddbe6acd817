"""Acceptance metrics of a PostgreSQL selection, in one aggregate query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpone_core.connectors._sql.extract import count_expressions, counted
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.database import Database
from dpone_core.connectors.postgres.types import comparable
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.metrics import MetricRequest

from .reader import PostgresSource
from .selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresMetricProbe:
    """NULL is no distinct value. Types that are read by their text are counted by it."""

    database: Database
    source: PostgresSource

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError("a source probe needs an extract request", code="source_request_invalid")
        schema, chosen = self.source.select(request.extract)
        return measured(self.database, request, schema, chosen)


def measured(
    database: Database, request: MetricRequest, schema: TableSchema, chosen: Selection
) -> Mapping[str, object]:
    """Counts of `chosen`, whose columns are `schema`; ConnectorError `metric_column_unknown` for any other column."""
    counts = count_expressions(
        request,
        schema,
        rows="count(*)",
        nulls=lambda column: f"count(*) - count({quote_ansi(column.name)})",
        distincts=lambda column: f"count(DISTINCT {comparable(column, quote_ansi(column.name))})",
    )
    with database.snapshot(chosen.settings) as cursor:
        row = cursor.execute(f"SELECT {', '.join(counts)} {chosen.text}".encode()).fetchone()
    return counted(request, row or ())
