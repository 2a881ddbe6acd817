"""Acceptance metrics of a staged or published DuckDB table."""

from __future__ import annotations

from functools import partial

from dpone_core.connectors._sql.sink_probe import SinkProbeDialect, SqlSinkProbe
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.duckdb.catalog import schema_of
from dpone_core.connectors.duckdb.database import Database, qualified, resolve


class DuckDbMetricProbe(SqlSinkProbe):
    def __init__(self, database: Database) -> None:
        super().__init__(
            SinkProbeDialect(
                resolve=resolve,
                schema_of=partial(schema_of, database),
                qualified=qualified,
                rows=database.rows,
                count="count(*)",
                nulls=lambda name: f"count(*) - count({quote_ansi(name)})",
                distincts=lambda name: f"count(DISTINCT {quote_ansi(name)})",
                full_memory=database.full_memory,
            )
        )
