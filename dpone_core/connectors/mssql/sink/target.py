"""Describes a SQL Server target, checks it before a load, and lists tables that interrupted loads have left."""

from __future__ import annotations

from typing import Final

from dpone_core.connectors._sql.artifacts import find_artifacts
from dpone_core.connectors._sql.layout import stored_columns
from dpone_core.connectors._sql.schema_rules import check_payload, refuse_layout, refuse_width
from dpone_core.connectors.mssql.text import quote_name
from dpone_core.declared.mssql import MAX_COLUMNS
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import STAGING
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.sink import Leftover, StageRequest

from .catalog import artifact_of, attachments_of, national_literal, qualify, resolve, table_names, target_table
from .database import Database
from .lineage import UTF8_COLLATION
from .types import LAYOUT, require_storable

_ASSUMPTION: Final = "finaliser_assumption_failed"
_MISMATCH: Final = "physical_design_mismatch"


class MssqlTarget:
    """TargetPort of one database; preflight only looks, transactions need no scratch objects."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe_target(self, table: TableName) -> TableSchema | None:
        target = target_table(self._database.rows, resolve(table))
        return None if target is None else target.schema

    def preflight(self, request: StageRequest) -> None:
        check_payload(request)
        refuse_width(request, "SQL Server", MAX_COLUMNS)
        require_storable(request.schema)
        table = resolve(request.target)
        refuse_layout(
            request,
            "SQL Server",
            fix="leave it out; rows that are copied into a partitioned table of yours find their partition",
        )
        self._require_rights(request, table)
        if request.lineage.row_id_columns:
            self._require_utf8()
        target = target_table(self._database.rows, table)
        if target is None:
            return
        if not target.is_table:
            raise ConnectorError(
                "the target must be a table; it is another object", code=_MISMATCH, fix="name the table behind it"
            )
        self._require(
            f"HAS_PERMS_BY_NAME({national_literal(qualify(table))}, 'OBJECT', 'ALTER')",
            "the login may not alter the target, whose extended property holds the load marker",
            f"grant ALTER on {qualify(table)} to it",
        )
        stored_columns(LAYOUT, request, target, attachments_of(self._database.rows, target))

    def leftovers(self, table: TableName, staging_schema: str | None) -> tuple[Leftover, ...]:
        target = resolve(table)
        schema = staging_schema or target.schema or ""
        return find_artifacts(target, schema, table_names(self._database, schema))

    def _require_rights(self, request: StageRequest, table: TableName) -> None:
        """`finaliser_assumption_failed` in a read-only database, or where the login lacks rights."""
        if self._answer("CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60))") == "READ_ONLY":
            raise ConnectorError("the database is read only", code=_ASSUMPTION, fix="load into the primary")
        self._require(
            "HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'CREATE TABLE')",
            "the login may not create tables",
            "grant CREATE TABLE to it",
        )
        for schema in dict.fromkeys((table.schema or "", artifact_of(request.ref, STAGING).schema or "")):
            if self._database.rows("SELECT 1 AS one FROM sys.schemas WHERE name = ?", (schema,)):
                self._require(
                    f"HAS_PERMS_BY_NAME({national_literal(quote_name(schema))}, 'SCHEMA', 'ALTER')",
                    f"the login may not create tables in schema {schema!r}",
                    f"grant ALTER on schema {quote_name(schema)} to it",
                )
            else:
                self._require(
                    "HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'CREATE SCHEMA')",
                    f"schema {schema!r} is absent and the login may not create it",
                    "create it, or grant CREATE SCHEMA to the login",
                )

    def _require(self, expression: str, message: str, fix: str) -> None:
        if self._answer(expression) != 1:
            raise ConnectorError(message, code=_ASSUMPTION, fix=fix)

    def _require_utf8(self) -> None:
        if self._answer(f"CAST(COLLATIONPROPERTY('{UTF8_COLLATION}', 'CodePage') AS int)") is None:
            raise ConnectorError(
                "a row id needs the UTF-8 collations of SQL Server 2019",
                code=_ASSUMPTION,
                fix="choose a lineage preset without row_id",
            )

    def _answer(self, expression: str) -> object:
        return self._database.rows(f"SELECT {expression} AS answer")[0][0]
