"""Acceptance metrics of a staged or published SQL Server table, counted as on the source side."""

from __future__ import annotations

from dpone_core.connectors._sql.probe import SinkProbeDialect, SqlSinkProbe
from dpone_core.connectors.mssql.catalog import table_columns
from dpone_core.connectors.mssql.types import COUNTS
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema

from .catalog import qualify, resolve
from .database import Database


def sink_probe(database: Database) -> SqlSinkProbe:
    def schema_of(table: TableName) -> TableSchema | None:
        columns = table_columns(database.rows, table)
        return TableSchema(columns=columns) if columns else None

    return SqlSinkProbe(
        SinkProbeDialect(resolve=resolve, schema_of=schema_of, qualify=qualify, rows=database.rows, counts=COUNTS)
    )
