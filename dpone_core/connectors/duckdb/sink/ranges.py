"""Staging of key ranges on DuckDB: found again by name, and put together by one copying transaction."""

from __future__ import annotations

from collections.abc import Sequence

from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.duckdb.catalog import artifact_of, comment_of, count_of, schema_of
from dpone_core.connectors.duckdb.database import Database, qualified, resolve
from dpone_core.connectors.duckdb.types import column_definition
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import STAGING
from dpone_core.ports.sink import StagedHandle, StageRequest

_REFUSED = "staging_refused"


class DuckDbRanges:
    """RangeStagingPort of one DuckDB file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def prepare(self, request: StageRequest) -> None:
        schemas = (artifact_of(request.ref, STAGING).schema, resolve(request.target).schema)
        with self._database.transaction(code=_REFUSED, message="DuckDB refused to create a schema") as cursor:
            for schema in dict.fromkeys(schemas):
                cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_ansi(schema or '')}")

    def find(self, request: StageRequest) -> StagedHandle | None:
        table = artifact_of(request.ref, STAGING)
        if comment_of(self._database, table) is None:
            return None
        rows = count_of(self._database, table)
        return StagedHandle(request=request, table=table, payload_schema=request.schema, staged_rows=rows)

    def assemble(self, request: StageRequest, parts: Sequence[StagedHandle]) -> StagedHandle:
        whole = artifact_of(request.ref, STAGING)
        schema = schema_of(self._database, parts[0].table)
        definitions = ", ".join(column_definition(column) for column in (schema.columns if schema else ()))
        with self._database.transaction(
            code=_REFUSED, message="DuckDB did not put the staged ranges together"
        ) as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {qualified(whole)}")
            cursor.execute(f"CREATE TABLE {qualified(whole)} ({definitions})")
            for part in parts:
                cursor.execute(f"INSERT INTO {qualified(whole)} SELECT * FROM {qualified(part.table)}")
            found = count_of(self._database, whole)
            if found != sum(part.staged_rows for part in parts):
                raise ConnectorError("the staged ranges hold another number of rows", code="staged_row_count_mismatch")
        return StagedHandle(request=request, table=whole, payload_schema=request.schema, staged_rows=found)
