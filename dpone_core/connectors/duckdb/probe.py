"""Acceptance metrics of a DuckDB table: counts and nulls in one aggregate query, distincts exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .catalog import schema_of
from .database import Database, qualified, resolve

LARGE_TABLE_ROWS: Final = 1_000_000


class DuckDbMetricProbe:
    """NULL is no distinct value; above LARGE_TABLE_ROWS each distinct count is a query of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.table is None:
            raise ConnectorError("a sink probe needs a table", code="source_request_invalid")
        table = resolve(request.table)
        known = schema_of(self._database, table)
        if known is None:
            raise ConnectorError("the table to be measured does not exist", code="target_not_found")
        for name in (*request.null_counts, *request.distinct_counts):
            if known.find(name) is None:
                raise ConnectorError(f"column {name!r} is not in the table", code="metric_column_unknown")
        source = qualified(table)
        nulls = [f"count(*) - count({quote_ansi(name)})" for name in request.null_counts]
        row = self._database.rows(f"SELECT {', '.join(['count(*)', *nulls])} FROM {source}")[0]
        answer: dict[str, object] = {
            "null_counts": dict(zip(request.null_counts, row[1:], strict=True)),
            "distinct_counts": self._distincts(source, request.distinct_counts, rows=int(row[0])),
        }
        if request.row_count:
            answer["row_count"] = row[0]
        return answer

    def _distincts(self, source: str, names: tuple[str, ...], *, rows: int) -> dict[str, int]:
        counts = [f"count(DISTINCT {quote_ansi(name)})" for name in names]
        if not counts:
            return {}
        if rows <= LARGE_TABLE_ROWS:
            found = list(self._database.rows(f"SELECT {', '.join(counts)} FROM {source}")[0])
        else:
            found = [self._database.rows(f"SELECT {count} FROM {source}")[0][0] for count in counts]
        return dict(zip(names, found, strict=True))
