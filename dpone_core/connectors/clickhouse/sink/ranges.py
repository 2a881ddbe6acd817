"""Staging of key ranges on ClickHouse: found again by name, and put together by hard links without copying rows."""

from __future__ import annotations

from collections.abc import Sequence

from dpone_core.connectors.clickhouse.catalog import artifact_of, count_of, facts_of, partitions_of
from dpone_core.connectors.clickhouse.ddl import Ddl
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import STAGING
from dpone_core.model.load_config import PartitionGranularity
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import StagedHandle, StageRequest

_REFUSED = "staging_refused"


class ClickHouseRanges:
    """RangeStagingPort over one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def prepare(self, request: StageRequest) -> None:
        self._refuse_local_days(request)
        ddl = Ddl(request.physical_design.cluster)
        staged, target = artifact_of(self._session, request.ref, STAGING), self._session.resolve(request.target)
        for schema in dict.fromkeys((staged.schema, target.schema)):
            self._run(ddl.create_database(schema or ""))

    def _refuse_local_days(self, request: StageRequest) -> None:
        """Raises ConnectorError `physical_design_mismatch` for a target whose partition column is in another time zone.
        Ranges end at midnight UTC; if the target's days begin at another hour, two ranges share a partition and the
        second would replace the rows of the first."""
        partition, target = request.physical_design.partition_by, self._session.resolve(request.target)
        if request.strategy is not StrategyMode.PARTITION_REPLACE or partition is None:
            return
        if partition.granularity is PartitionGranularity.VALUE:
            return
        for (text,) in self._session.rows(
            "SELECT type FROM system.columns WHERE database = {database:String} AND table = {name:String}"
            " AND name = {column:String}",
            {"database": target.schema or "", "name": target.name, "column": partition.column},
        ):
            if "DateTime" in str(text) and "'UTC'" not in str(text):
                raise ConnectorError(
                    f"partition column {partition.column!r} of the target is not kept in UTC, so ranges could divide"
                    f" one {partition.granularity}",
                    code="physical_design_mismatch",
                    fix="remove source.options.partitioning, or give the column the time zone UTC",
                )

    def find(self, request: StageRequest) -> StagedHandle | None:
        table = artifact_of(self._session, request.ref, STAGING)
        if facts_of(self._session, table) is None:
            return None
        return self._handle(request)

    def assemble(self, request: StageRequest, parts: Sequence[StagedHandle]) -> StagedHandle:
        ddl, whole = Ddl(request.physical_design.cluster), artifact_of(self._session, request.ref, STAGING)
        self._run(ddl.drop(whole), ddl.create_like(whole, parts[0].table))
        for part in parts:
            self._run(
                *(ddl.attach_partition(whole, part.table, each) for each in partitions_of(self._session, part.table))
            )
        handle = self._handle(request)
        if handle.staged_rows != sum(part.staged_rows for part in parts):
            raise ConnectorError(
                "the rows copied from the staged ranges are not as many as the ranges hold",
                code="staged_row_count_mismatch",
            )
        return handle

    def _handle(self, request: StageRequest) -> StagedHandle:
        table = artifact_of(self._session, request.ref, STAGING)
        return StagedHandle(
            request=request,
            table=table,
            payload_schema=request.schema,
            staged_rows=count_of(self._session, table),
        )

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self._session.command(statement, code=_REFUSED, message="ClickHouse did not put the staged ranges together")
