"""Describes a PostgreSQL target, checks it before a load, and lists tables that interrupted loads have left."""

from __future__ import annotations

from typing import Final

from dpone_core.connectors._sql.artifacts import find_artifacts
from dpone_core.connectors._sql.layout import stored_columns
from dpone_core.connectors._sql.schema_rules import check_payload, refuse_layout, refuse_width
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.database import Database
from dpone_core.declared.postgres import MAX_COLUMNS
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import STAGING
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.sink import Leftover, StageRequest

from .catalog import artifact_of, attachments_of, resolve, table_names, target_table
from .types import LAYOUT, stored_schema

_RIGHTS_SQL: Final = """
SELECT CASE WHEN n.oid IS NULL
    THEN pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
    ELSE pg_catalog.has_schema_privilege(n.oid, 'CREATE') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') END
FROM (SELECT $1::text AS name) AS asked LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = asked.name
"""
_ASSUMPTION: Final = "finaliser_assumption_failed"
_MISMATCH: Final = "physical_design_mismatch"


class PostgresTarget:
    """TargetPort of one database; preflight only looks, transactions need no scratch objects."""

    def __init__(self, database: Database, *, lock_timeout_seconds: float) -> None:
        self._database = database
        self._lock_timeout_seconds = lock_timeout_seconds

    def describe_target(self, table: TableName) -> TableSchema | None:
        target = target_table(self._database.rows, resolve(table))
        return None if target is None else target.schema

    def preflight(self, request: StageRequest) -> None:
        check_payload(request)
        refuse_width(request, "PostgreSQL", MAX_COLUMNS)
        stored_schema(request.schema)
        table = resolve(request.target)
        refuse_layout(
            request,
            "PostgreSQL",
            fix="leave it out; rows that are copied into a partitioned table of yours find their partition",
        )
        self._require_rights(request, table)
        target = target_table(self._database.rows, table)
        if target is None:
            return
        if not target.is_table:
            raise ConnectorError("the target must be a table; it is a view or a foreign table", code=_MISMATCH)
        if not target.is_owned:
            raise ConnectorError(
                "the role of the connection does not own the target, whose comment holds the load marker",
                code=_ASSUMPTION,
                fix="make the role a member of the owner, or load with the owner",
            )
        stored_columns(LAYOUT, request, target, attachments_of(self._database.rows, target))

    def leftovers(self, table: TableName, staging_schema: str | None) -> tuple[Leftover, ...]:
        target = resolve(table)
        schema = staging_schema or target.schema or ""
        return find_artifacts(target, schema, table_names(self._database, schema))

    def _require_rights(self, request: StageRequest, table: TableName) -> None:
        """`finaliser_assumption_failed` on a read-only server, or without the right to create tables."""
        if self._database.rows("SELECT current_setting('transaction_read_only')")[0][0] == "on":
            raise ConnectorError("the server or the role is read only", code=_ASSUMPTION, fix="load into the primary")
        for schema in dict.fromkeys((table.schema, artifact_of(request.ref, STAGING).schema)):
            if self._database.rows(_RIGHTS_SQL, (schema,))[0][0] is not True:
                raise ConnectorError(
                    f"the role of the connection may not create tables in schema {schema!r}",
                    code=_ASSUMPTION,
                    fix=f"grant USAGE and CREATE on schema {quote_ansi(schema or '')} to it, or let it create schemas",
                )
