"""Staging of key ranges on PostgreSQL: found again by name, and put together by one copying transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dpone_core.connectors.postgres.catalog import qualified
from dpone_core.connectors.postgres.database import Database
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import STAGING
from dpone_core.ports.sink import StagedHandle, StageRequest

from .catalog import artifact_of, attached, count_of, resolve, target_table
from .layout import may_swap
from .staging import ensure_schema

_REFUSED: Final = "staging_refused"


class PostgresRangeStaging:
    """RangeStagingPort of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def prepare(self, request: StageRequest) -> None:
        for schema in dict.fromkeys((artifact_of(request.ref, STAGING).schema, resolve(request.target).schema)):
            ensure_schema(self._database, schema or "")

    def find(self, request: StageRequest) -> StagedHandle | None:
        table = artifact_of(request.ref, STAGING)
        if target_table(self._database.rows, table) is None:
            return None
        rows = count_of(self._database.rows, table)
        return StagedHandle(request=request, table=table, payload_schema=request.schema, staged_rows=rows)

    def assemble(self, request: StageRequest, parts: Sequence[StagedHandle]) -> StagedHandle:
        """Logged as staging of one reader is: when it may become the target."""
        whole = artifact_of(request.ref, STAGING)
        target = target_table(self._database.rows, resolve(request.target))
        logged = may_swap(request, target, attached(self._database.rows, target) if target is not None else ())
        with self._database.transaction(
            code=_REFUSED, message="PostgreSQL did not put the staged ranges together"
        ) as cursor:
            ask = self._database.within(cursor)
            cursor.execute(f"DROP TABLE IF EXISTS {qualified(whole)}".encode())
            cursor.execute(
                f"CREATE {'' if logged else 'UNLOGGED '}TABLE {qualified(whole)}"
                f" (LIKE {qualified(parts[0].table)})".encode()
            )
            for part in parts:
                cursor.execute(f"INSERT INTO {qualified(whole)} SELECT * FROM {qualified(part.table)}".encode())
            found = count_of(ask, whole)
            if found != sum(part.staged_rows for part in parts):
                raise ConnectorError("the staged ranges hold another number of rows", code="staged_row_count_mismatch")
        return StagedHandle(request=request, table=whole, payload_schema=request.schema, staged_rows=found)
