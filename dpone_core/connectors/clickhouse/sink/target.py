"""Describes a ClickHouse target, checks it before a load, and lists tables that interrupted loads have left."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from dpone_core.connectors._sql.artifacts import find_artifacts
from dpone_core.connectors._sql.schema_rules import check_payload
from dpone_core.connectors.clickhouse.catalog import artifact_of, schema_of, table_names
from dpone_core.connectors.clickhouse.cluster import cluster_refusal
from dpone_core.connectors.clickhouse.ddl import Ddl
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.errors import ConnectionLostError, ConnectorError
from dpone_core.model.artifacts import SCRATCH
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import Leftover, StageRequest

from .layout import create_as_requested, layout_of, refuse_other_design

_ASSUMPTION: Final = "finaliser_assumption_failed"
_DESIGN: Final = "EXCHANGE TABLES or the requested table design does not work on this server"
_LONGEST_NAME: Final = "getMaxTableNameLengthForDatabase"
_SHADOWED = frozenset({StrategyMode.INCREMENTAL_APPEND, StrategyMode.INCREMENTAL_MERGE, StrategyMode.PARTITION_REPLACE})


class ClickHouseTarget:
    """TargetPort. Preflight creates (or clones, as the finaliser will), exchanges and drops two scratch tables in the
    database for staging tables."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def describe_target(self, table: TableName) -> TableSchema | None:
        return schema_of(self._session, self._session.resolve(table))

    def preflight(self, request: StageRequest) -> None:
        check_payload(request)
        target = self._session.resolve(request.target)
        first = artifact_of(self._session, request.ref, SCRATCH)
        second = TableName(schema=first.schema, name=f"{first.name[:-1]}{'1' if first.name.endswith('0') else '0'}")
        if layout_of(self._session, request, target, first).target is None:
            self._refuse_long_name(target)
        ddl = Ddl(request.physical_design.cluster)
        try:
            for statement in (
                ddl.create_database(first.schema or ""),
                ddl.drop(first),
                create_as_requested(request, first),
                ddl.drop(second),
                ddl.clone(second, first) if request.strategy in _SHADOWED else ddl.create_like(second, first),
                ddl.exchange(first, second),
            ):
                self._try(statement, request.physical_design.cluster)
            refuse_other_design(self._session, request, target, first)
        except BaseException:
            with suppress(ConnectorError):  # the first error says what is wrong
                self._drop(ddl, first, second)
            raise
        self._drop(ddl, first, second)

    def _try(self, statement: str, cluster: str | None) -> None:
        try:
            self._session.command(statement, code=_ASSUMPTION, message=_DESIGN)
        except ConnectionLostError:
            raise
        except ConnectorError as error:
            raise (cluster_refusal(self._session, cluster, code=_ASSUMPTION) or error) from error

    def leftovers(self, table: TableName, staging_schema: str | None) -> tuple[Leftover, ...]:
        target = self._session.resolve(table)
        schema = staging_schema or target.schema or ""
        return find_artifacts(target, schema, table_names(self._session, schema))

    def _refuse_long_name(self, target: TableName) -> None:
        """Raises ConnectorError `finaliser_assumption_failed` for a name that is too long. The staging table has a
        shorter name, so ClickHouse would refuse the target only after all rows are staged (CH-25)."""
        known = "SELECT count() FROM system.functions WHERE name = {name:String}"
        if self._session.rows(known, {"name": _LONGEST_NAME}) == [[0]]:
            return  # an older server, whose file system decides
        asked = f"SELECT {_LONGEST_NAME}({{database:String}})"
        longest = int(self._session.rows(asked, {"database": target.schema or ""})[0][0])
        if _length_in_files(target.name) > longest:
            raise ConnectorError(
                f"the name of the target is too long: a table of database {target.schema!r} has at most {longest}"
                " characters, and every one but letters, digits and _ of ASCII counts three times a byte",
                code="finaliser_assumption_failed",
                fix="choose a shorter name for the table or its database",
            )

    def _drop(self, ddl: Ddl, *tables: TableName) -> None:
        for table in tables:
            self._session.command(
                ddl.drop(table), code="finaliser_assumption_failed", message="a scratch table was not dropped"
            )


def _length_in_files(name: str) -> int:
    """The length of a table's file name: a character that is no letter, digit or _ becomes %XX."""
    return sum(1 if byte < 128 and (chr(byte).isalnum() or chr(byte) == "_") else 3 for byte in name.encode())
