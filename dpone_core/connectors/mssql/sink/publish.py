"""THE commit boundary on SQL Server: one transaction, whose own marker says whether it happened, also to a second call.

Every publication of a target takes one application lock first, which ends with its transaction: whoever asks later, on
another session, waits for it and then knows. The marker is an extended property of the target.
"""

from __future__ import annotations

import hashlib
from typing import Final

from dpone_core.connectors._sql.keys import refuse_ambiguous_target
from dpone_core.connectors.mssql.text import quoted_name
from dpone_core.errors import CommitOutcomeUnknownError, ConnectionLostError, ConnectorError
from dpone_core.model.artifacts import SHADOW, load_marker
from dpone_core.model.load_config import PartitionBy, PartitionGranularity, TableName
from dpone_core.model.table_schema import Column, ColumnKind, is_framework_column
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult, StagedHandle

from .catalog import (
    MARKER,
    UPDATED,
    TargetTable,
    artifact_of,
    attached,
    count_of,
    national,
    property_statement,
    qualified,
    resolve,
    target_table,
)
from .database import Ask, Database
from .keys import exact, key_list, same_key
from .layout import may_swap, refuse_different

_REFUSED: Final = "SQL Server refused to publish; the target is as it was"
_WRITERS_WAIT: Final = " WITH (TABLOCK, HOLDLOCK)"


def lock_name(target: TableName) -> str:
    return "dpone_" + hashlib.sha256(f"{target.schema}|{target.name}".encode()).hexdigest()


def lock_publications(ask: Ask, target: TableName, milliseconds: int) -> None:
    """Held until the transaction ends; the procedure tells of a timeout by its return value alone."""
    granted = ask(
        f"DECLARE @granted int; EXEC @granted = sp_getapplock @Resource = {national(lock_name(target))},"
        f" @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = {milliseconds};"
        " SELECT @granted AS granted",
        (),
    )
    if int(granted[0][0]) < 0:
        raise ConnectorError(
            "a publication of the same target did not end in time; the target is as it was",
            code="finaliser_refused",
            fix="run again when it has ended",
        )


def settled_marker(database: Database, target: TableName) -> str | None:
    """The target's marker once no publication of it runs any more; None when there is no target."""
    with database.transaction(
        code="sink_query_failed", message="the target could not be asked for its load marker"
    ) as ask:
        lock_publications(ask, target, database.lock_timeout_milliseconds)
        found = target_table(ask, target)
    return None if found is None else found.marker


class Publication:
    """Publishes one staged load once; called again for a load that is already published it changes nothing.

    All that is told of a publication is counted before its COMMIT: nothing that fails behind it could deny it.
    """

    def __init__(self, database: Database, handle: StagedHandle) -> None:
        self._database = database
        self._handle = handle
        self._request = handle.request
        self._staged = handle.table
        self._target = resolve(handle.request.target)
        self._marker = load_marker(handle.request.identity)
        self._updated = 0
        self._total: int | None = None
        self._was_published = False

    def run(self) -> FinalizeResult:
        try:
            with self._database.transaction(code="finaliser_refused", message=_REFUSED) as ask:
                finaliser = self._publish(ask)
        except ConnectionLostError as error:
            self._settle(error)
            finaliser = "settled_by_marker"
        except ConnectorError as error:
            self._refuse_denial(error)
            raise
        return FinalizeResult(
            finaliser=finaliser,
            inserted_rows=self._handle.staged_rows - self._updated,
            updated_rows=self._updated,
            total_rows=self._total or 0,
        )

    def _publish(self, ask: Ask) -> str:
        lock_publications(ask, self._target, self._database.lock_timeout_milliseconds)
        target = target_table(ask, self._target)
        if target is not None and target.marker == self._marker:
            self._was_published = True
            self._recount(ask)
            return "already_published"
        staged = target_table(ask, self._staged)
        if staged is None:
            raise ConnectorError("the staging table of this load is gone", code="finaliser_refused")
        finaliser, wanted = self._change(ask, target, staged)
        self._total = count_of(ask, self._target)
        if self._total != wanted:
            raise ConnectorError(
                f"{wanted} rows were to be in the target and {self._total} would be; the target is as it was",
                code="finaliser_refused",
                fix="run again; look for triggers on the target that keep rows out",
            )
        published = target_table(ask, self._target)
        marked = published is not None and published.marker != ""
        ask(property_statement(self._target, MARKER, self._marker, exists=marked), ())
        return finaliser

    def _change(self, ask: Ask, target: TargetTable | None, staged: TargetTable) -> tuple[str, int]:
        """What was done, and how many rows the target must hold now."""
        attachments = attached(ask, target) if target is not None else ()
        if target is None or may_swap(self._request, target, attachments):
            self._swap(ask, target)
            return "swap_in_transaction", self._handle.staged_rows
        before = count_of(ask, self._target, _WRITERS_WAIT)
        match self._request.strategy:
            case StrategyMode.FULL_REFRESH:
                refuse_different(self._request, target, attachments)
                ask(f"DELETE FROM {qualified(self._target)}", ())
                self._insert(ask, staged)
                return "replace_in_transaction", self._handle.staged_rows
            case StrategyMode.INCREMENTAL_APPEND:
                self._insert(ask, staged)
                return "insert_in_transaction", before + self._handle.staged_rows
            case StrategyMode.INCREMENTAL_MERGE:
                self._merge(ask, target, staged)
                return "merge_in_transaction", before + self._handle.staged_rows - self._updated
            case StrategyMode.PARTITION_REPLACE:
                self._delete_partitions(ask, staged)
                kept = count_of(ask, self._target)
                self._insert(ask, staged)
                return "replace_partitions_in_transaction", kept + self._handle.staged_rows

    def _swap(self, ask: Ask, target: TargetTable | None) -> None:
        if target is None:
            self._require_schema(ask)
        old = TableName(schema=self._target.schema, name=artifact_of(self._request.ref, SHADOW).name)
        if target is not None:
            ask(_rename(self._target, old.name), ())
        moved = self._staged
        if moved.schema != self._target.schema:
            ask(f"ALTER SCHEMA {quoted_name(self._target.schema or '')} TRANSFER {qualified(moved)}", ())
            moved = TableName(schema=self._target.schema, name=moved.name)
        ask(_rename(moved, self._target.name), ())
        if target is not None:
            ask(f"DROP TABLE {qualified(old)}", ())

    def _require_schema(self, ask: Ask) -> None:
        if not ask("SELECT 1 AS one FROM sys.schemas WHERE name = ?", (self._target.schema,)):
            ask(f"CREATE SCHEMA {quoted_name(self._target.schema or '')}", ())

    def _merge(self, ask: Ask, target: TargetTable, staged: TargetTable) -> None:
        request, table, source = self._request, qualified(self._target), qualified(self._staged)
        keys = [column for name in request.unique_key if (column := staged.find(name)) is not None]
        grouped = (
            f"SELECT COUNT_BIG(*) AS held FROM {table} AS target JOIN {source} AS staged"
            f" ON {same_key(keys, 'target', 'staged')} GROUP BY {key_list(keys, 'staged')}"
        )
        rows, distinct = ask(
            f"SELECT COALESCE(SUM(held), 0) AS held, COUNT_BIG(*) AS found FROM ({grouped}) AS matched", ()
        )[0]
        refuse_ambiguous_target(request, staged_matches=int(distinct), target_matches=int(rows))
        names = staged.schema.names
        changed = [name for name in names if name not in request.unique_key and name not in request.target_only]
        settings = [f"{quoted_name(name)} = staged.{quoted_name(name)}" for name in changed]
        settings += [f"{quoted_name(name)} = NULL" for name in _unloaded_lineage(target, names)]
        if settings and distinct:
            ask(
                f"UPDATE {table} SET {', '.join(settings)} FROM {source} AS staged"
                f" WHERE {same_key(keys, table, 'staged')}",
                (),
            )
        self._updated = int(distinct)
        self._insert(
            ask,
            staged,
            f" AS staged WHERE NOT EXISTS"
            f" (SELECT 1 AS one FROM {table} AS target WHERE {same_key(keys, 'target', 'staged')})",
        )
        ask(property_statement(self._staged, UPDATED, str(self._updated), exists=False), ())

    def _delete_partitions(self, ask: Ask, staged: TargetTable) -> None:
        by = self._request.physical_design.partition_by
        column = staged.find(by.column) if by is not None else None
        if by is None or column is None:
            raise ConnectorError("partition_replace needs a partition key", code="physical_design_mismatch")
        part, name, source = partition_expression(by, column), quoted_name(column.name), qualified(self._staged)
        ask(
            f"DELETE FROM {qualified(self._target)} WHERE {part} IN (SELECT {part} FROM {source})"
            f" OR ({name} IS NULL AND EXISTS (SELECT 1 AS one FROM {source} WHERE {name} IS NULL))",
            (),
        )

    def _insert(self, ask: Ask, staged: TargetTable, which: str = "") -> None:
        names = ", ".join(map(quoted_name, staged.schema.names))
        ask(f"INSERT INTO {qualified(self._target)} ({names}) SELECT {names} FROM {qualified(self._staged)}{which}", ())

    def _settle(self, error: ConnectorError) -> None:
        """Returns when the transaction is in the target; raises `finaliser_refused` when it certainly is not."""
        try:
            if settled_marker(self._database, self._target) == self._marker:
                if self._total is None:
                    self._recount(self._database.rows)
                return
        except ConnectorError:
            raise CommitOutcomeUnknownError(
                "the session was lost while it published, and the target cannot be asked"
            ) from error
        raise ConnectorError(
            "the session was lost before the commit; the target is as it was", code="finaliser_refused"
        ) from error

    def _refuse_denial(self, error: ConnectorError) -> None:
        """Of a target that an earlier call has published, no failure of this one may say that it is as it was."""
        if self._was_published:
            raise CommitOutcomeUnknownError("the target is published and its rows could not be counted") from error

    def _recount(self, ask: Ask) -> None:
        """Of a publication that an earlier call had committed."""
        staged = target_table(ask, self._staged, UPDATED)
        self._updated = int(staged.marker) if staged is not None and staged.marker else 0
        self._total = count_of(ask, self._target)


def _rename(table: TableName, name: str) -> str:
    """The new name is taken as it is written, without brackets."""
    return f"EXEC sp_rename {national(qualified(table))}, {national(name)}"


def _unloaded_lineage(target: TargetTable, staged: tuple[str, ...]) -> list[str]:
    """Technical columns that this load does not write: what they say of an updated row is of another load."""
    return [name for name in target.schema.names if is_framework_column(name) and name not in staged]


def partition_expression(by: PartitionBy, column: Column) -> str:
    """What rows of one partition have in common; instants are taken in UTC."""
    if by.granularity is PartitionGranularity.VALUE:
        return exact(column)
    name = quoted_name(column.name)
    wall = f"SWITCHOFFSET({name}, '+00:00')" if column.type.kind is ColumnKind.TIMESTAMP_TZ else name
    day = f"CAST({wall} AS date)"
    match by.granularity:
        case PartitionGranularity.DAY:
            return day
        case PartitionGranularity.MONTH:
            return f"DATEFROMPARTS(YEAR({day}), MONTH({day}), 1)"
        case PartitionGranularity.YEAR:
            return f"YEAR({day})"
