"""Acceptance metrics of a PostgreSQL selection, by aggregate queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dpone_core.connectors._sql.probe import CountDialect, measure
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.database import Database
from dpone_core.connectors.postgres.types import comparison_expression
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .reader import PostgresSource

COUNTS: Final = CountDialect(
    rows="count(*)",
    nulls=lambda column: f"count(*) - count({quote_ansi(column.name)})",
    distincts=lambda column: f"count(DISTINCT {comparison_expression(column, quote_ansi(column.name))})",
)
"""Types that are read by their text are counted by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresMetricProbe:
    """MetricProbe of one database."""

    database: Database
    source: PostgresSource

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError(
                "metrics of a source need an extract request, and the request has none", code="source_request_invalid"
            )
        schema, chosen = self.source.select(request.extract)
        with self.database.snapshot(chosen.settings, visible_rows=chosen.visible_rows) as cursor:
            return measure(
                request,
                schema,
                COUNTS,
                lambda selected: cursor.execute(f"SELECT {selected} {chosen.text}".encode()).fetchone() or (),
            )
