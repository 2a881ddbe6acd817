"""Staging of key ranges: one table per range, found again by its name, and copied into one table by a single
transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic

from dpone_core.connectors._sql.publication import PublicationDialect, Table
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import STAGING
from dpone_core.ports.sink import StagedHandle, StageRequest

_REFUSED: Final = "staging_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeStaging(Generic[Table]):
    """What defines the staging table of all ranges: the request, the target now and what is attached to it, and the
    staging table of one range, which has the same columns."""

    request: StageRequest
    target: Table | None
    attachments: tuple[str, ...]
    part: StagedHandle
    part_table: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDialect(Generic[Table]):
    """How one engine creates a schema unless it exists, and the table for all ranges. `definition` returns the SQL
    after CREATE; the table has the final form of a staging table that one reader has filled."""

    publication: PublicationDialect[Table]
    ensure_schema: Callable[[str], None]
    definition: Callable[[str, WholeStaging[Table]], str]


class SqlRangeStaging(Generic[Table]):
    """RangeStagingPort of one database."""

    def __init__(self, dialect: RangeDialect[Table]) -> None:
        self._dialect = dialect
        self._catalog = dialect.publication.catalog
        self._transactions = dialect.publication.transactions

    def prepare(self, request: StageRequest) -> None:
        schemas = (self._catalog.artifact_of(request.ref, STAGING).schema, self._catalog.resolve(request.target).schema)
        for schema in dict.fromkeys(schemas):
            self._dialect.ensure_schema(schema or "")

    def find(self, request: StageRequest) -> StagedHandle | None:
        table = self._catalog.artifact_of(request.ref, STAGING)
        if self._catalog.find(self._transactions.rows, table) is None:
            return None
        rows = self._catalog.count(self._transactions.rows, table)
        return StagedHandle(request=request, table=table, payload_schema=request.schema, staged_rows=rows)

    def assemble(self, request: StageRequest, parts: Sequence[StagedHandle]) -> StagedHandle:
        spelled = self._dialect.publication.statements
        whole = self._catalog.artifact_of(request.ref, STAGING)
        table = spelled.qualify(whole)
        staging = self._whole(request, parts[0])
        names = ", ".join(map(spelled.quote, staging.part_table.schema.names))
        with self._transactions.begin(
            code=_REFUSED, message=f"{self._dialect.publication.engine} did not put the staged ranges together"
        ) as ask:
            ask(f"DROP TABLE IF EXISTS {table}", ())
            ask(f"CREATE {self._dialect.definition(table, staging)}", ())
            for part in parts:
                ask(f"INSERT INTO {table} ({names}) SELECT {names} FROM {spelled.qualify(part.table)}", ())
            counted_rows = self._catalog.count(ask, whole)
            if counted_rows != sum(part.staged_rows for part in parts):
                raise ConnectorError(
                    "the rows copied from the staged ranges are not as many as the ranges hold",
                    code="staged_row_count_mismatch",
                )
        return StagedHandle(request=request, table=whole, payload_schema=request.schema, staged_rows=counted_rows)

    def _whole(self, request: StageRequest, part: StagedHandle) -> WholeStaging[Table]:
        ask = self._transactions.rows
        part_table = self._catalog.find(ask, part.table)
        if part_table is None:
            raise ConnectorError("the staging table of a range does not exist any more", code=_REFUSED)
        target = self._catalog.find(ask, self._catalog.resolve(request.target))
        attachments = self._catalog.attachments(ask, target) if target is not None else ()
        return WholeStaging(request=request, target=target, attachments=attachments, part=part, part_table=part_table)
