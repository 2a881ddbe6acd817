"""Describes a DuckDB target, checks it before a load, and lists tables that interrupted loads have left."""

from __future__ import annotations

from dpone_core.connectors._sql.artifacts import find_artifacts
from dpone_core.connectors._sql.layout import stored_columns
from dpone_core.connectors._sql.schema_rules import check_payload, refuse_case_twins, refuse_layout
from dpone_core.connectors.duckdb.catalog import attachments_of, is_view, schema_of, table_names, target_table
from dpone_core.connectors.duckdb.database import Database, resolve
from dpone_core.connectors.duckdb.types import LAYOUT, stored_schema
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.sink import Leftover, StageRequest


class DuckDbTarget:
    """TargetPort of one DuckDB file; preflight only looks, transactions need no scratch objects."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe_target(self, table: TableName) -> TableSchema | None:
        return schema_of(self._database.rows, resolve(table))

    def preflight(self, request: StageRequest) -> None:
        check_payload(request)
        stored_schema(request.schema)
        target = resolve(request.target)
        refuse_layout(request, "DuckDB")
        refuse_case_twins(request.schema, "DuckDB")
        if is_view(self._database.rows, target):
            raise ConnectorError("the target must be a table; it is a view", code="physical_design_mismatch")
        found = target_table(self._database.rows, target)
        if found is not None:
            stored_columns(LAYOUT, request, found, attachments_of(self._database.rows, found))

    def leftovers(self, table: TableName, staging_schema: str | None) -> tuple[Leftover, ...]:
        target = resolve(table)
        schema = staging_schema or target.schema or ""
        return find_artifacts(target, schema, table_names(self._database.rows, schema))
