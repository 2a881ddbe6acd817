"""Staging of key ranges on SQL Server: found again by name, and put together by one copying transaction.

Wire-tested against a TDS double; the same suite runs against a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import STAGING
from dpone_core.ports.sink import StagedHandle, StageRequest

from .catalog import artifact_of, attached, count_of, qualified, resolve, target_table
from .database import Database
from .layout import stored_columns
from .staging import ensure_schema, shaped_columns

_REFUSED: Final = "staging_refused"


class MssqlRangeStaging:
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
        """Defined as one reader's staging is once it is filled: it may become the target."""
        whole, ask = artifact_of(request.ref, STAGING), self._database.rows
        target = target_table(ask, resolve(request.target))
        stored = stored_columns(request, target, attached(ask, target) if target is not None else ())
        columns = shaped_columns(request, stored)
        definitions, names = ", ".join(columns.values()), ", ".join(columns)
        with self._database.transaction(
            code=_REFUSED, message="SQL Server did not put the staged ranges together"
        ) as run:
            run(f"DROP TABLE IF EXISTS {qualified(whole)}", ())
            run(f"CREATE TABLE {qualified(whole)} ({definitions})", ())
            for part in parts:
                run(f"INSERT INTO {qualified(whole)} ({names}) SELECT {names} FROM {qualified(part.table)}", ())
            found = count_of(run, whole)
            if found != sum(part.staged_rows for part in parts):
                raise ConnectorError("the staged ranges hold another number of rows", code="staged_row_count_mismatch")
        return StagedHandle(request=request, table=whole, payload_schema=request.schema, staged_rows=found)
