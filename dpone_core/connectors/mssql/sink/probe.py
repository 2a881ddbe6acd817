"""Acceptance metrics of a SQL Server table, in one aggregate query."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.connectors._sql.extract import counted
from dpone_core.connectors.mssql.catalog import table_columns
from dpone_core.connectors.mssql.source.probe import counts_of
from dpone_core.errors import ConnectorError
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.metrics import MetricRequest

from .catalog import qualified, resolve
from .database import Database


class MssqlSinkProbe:
    """Distinct counts leave NULL out and tell text apart by its bytes, as on the source side (MSSQL-16)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        if request.table is None:
            raise ConnectorError("a sink probe needs a table", code="source_request_invalid")
        table = resolve(request.table)
        columns = table_columns(self._database.rows, table)
        if not columns:
            raise ConnectorError("the table to be measured does not exist", code="target_not_found")
        counts = counts_of(request, TableSchema(columns=columns))
        return counted(request, self._database.rows(f"SELECT {counts} FROM {qualified(table)}")[0])
