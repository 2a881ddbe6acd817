"""Acceptance metrics of a SQLite selection, in one aggregate query."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .database import Database
from .reader import SqliteSource
from .selection import selection
from .types import comparable


class SqliteMetricProbe:
    """Distinct counts leave NULL out; times count as instants, whatever separator their text uses."""

    def __init__(self, database: Database, source: SqliteSource) -> None:
        self._database = database
        self._source = source

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.extract is None:
            raise ConnectorError("a source probe needs an extract request", code="source_request_invalid")
        schema = self._source.describe(request.extract)
        chosen = selection(request.extract, schema)
        for name in (*request.null_counts, *request.distinct_counts):
            if schema.find(name) is None:
                raise ConnectorError(f"column {name!r} is not in the source", code="metric_column_unknown")
        columns = {column.name: column for column in schema.columns}
        parts = ["count(*)"]
        parts += [f"count(*) - count({quote_ansi(name)})" for name in request.null_counts]
        parts += [f"count(DISTINCT {comparable(columns[name], quote_ansi(name))})" for name in request.distinct_counts]
        row = self._database.rows(f"SELECT {', '.join(parts)} {chosen.text}", chosen.parameters)[0]
        nulls = row[1 : 1 + len(request.null_counts)]
        distincts = row[1 + len(request.null_counts) :]
        answer: dict[str, object] = {
            "null_counts": dict(zip(request.null_counts, nulls, strict=True)),
            "distinct_counts": dict(zip(request.distinct_counts, distincts, strict=True)),
        }
        if request.row_count:
            answer["row_count"] = row[0]
        return answer
