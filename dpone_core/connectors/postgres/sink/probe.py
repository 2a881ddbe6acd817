"""Acceptance metrics of a PostgreSQL table, in one aggregate query."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors.postgres.catalog import qualified, relation_schema
from dpone_core.connectors.postgres.database import Database
from dpone_core.connectors.postgres.source.probe import measured
from dpone_core.connectors.postgres.source.selection import Selection
from dpone_core.errors import ConnectorError
from dpone_core.ports.metrics import MetricRequest

from .catalog import resolve


class PostgresSinkProbe:
    """NULL is no distinct value. Types that are read by their text are counted by it, as on the source side."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.table is None:
            raise ConnectorError("a sink probe needs a table", code="source_request_invalid")
        table = resolve(request.table)
        schema = relation_schema(self._database, table)
        if schema is None:
            raise ConnectorError("the table to be measured does not exist", code="target_not_found")
        return measured(self._database, request, schema, Selection(text=f"FROM {qualified(table)}"))
