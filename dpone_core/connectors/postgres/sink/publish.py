"""THE commit boundary on PostgreSQL: one transaction, whose own marker says whether it happened, also to a second call.

Every publication of a target takes one advisory lock first, which ends with its transaction: whoever asks later, on
another session, waits for it and then knows. Readers see the old rows or the new rows. Other writers wait.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, Final

import psycopg

from dpone_core.connectors._sql.keys import refuse_ambiguous_target
from dpone_core.connectors._sql.text import literal_ansi, quote_ansi
from dpone_core.connectors.postgres.catalog import Ask, qualified
from dpone_core.connectors.postgres.database import Database
from dpone_core.errors import CommitOutcomeUnknownError, ConnectionLostError, ConnectorError
from dpone_core.model.artifacts import comment_with_marker, load_marker
from dpone_core.model.load_config import PartitionBy, PartitionGranularity, TableName
from dpone_core.model.table_schema import is_framework_column
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult, StagedHandle

from .catalog import TargetTable, attached, count_of, resolve, target_table
from .layout import may_swap, refuse_different

_UPDATED: Final = re.compile(r"\[dpone updated (\d+)\]")
_REFUSED: Final = "PostgreSQL refused to publish; the target is as it was"
Cursor = psycopg.RawCursor[tuple[Any, ...]]


def publication_lock(target: TableName) -> int:
    """The advisory lock of a target: 64 bits of its name, signed as PostgreSQL wants them."""
    digest = hashlib.sha256(f"dpone|{target.schema}|{target.name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def settled_comment(database: Database, target: TableName, lock_timeout_seconds: float) -> str | None:
    """The target's comment once no publication of it runs any more; None when there is no target."""
    with database.transaction(
        code="sink_query_failed",
        message="the target could not be asked for its load marker",
        lock_timeout_seconds=lock_timeout_seconds,
    ) as cursor:
        cursor.execute(b"SELECT pg_catalog.pg_advisory_xact_lock($1)", (publication_lock(target),))
        found = target_table(database.within(cursor), target)
    return None if found is None else found.comment


class Publication:
    """Publishes one staged load once; called again for a load that is already published it changes nothing.

    All that is told of a publication is counted before its COMMIT: nothing that fails behind it could deny it.
    """

    def __init__(self, database: Database, handle: StagedHandle, *, lock_timeout_seconds: float) -> None:
        self._database = database
        self._handle = handle
        self._staged = handle.table
        self._target = resolve(handle.request.target)
        self._marker = load_marker(handle.request.identity)
        self._lock_timeout_seconds = lock_timeout_seconds
        self._updated = 0
        self._total: int | None = None
        self._was_published = False

    def run(self) -> FinalizeResult:
        try:
            with self._database.transaction(
                code="finaliser_refused", message=_REFUSED, lock_timeout_seconds=self._lock_timeout_seconds
            ) as cursor:
                finaliser = self._publish(cursor)
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

    def _publish(self, cursor: Cursor) -> str:
        ask = self._database.within(cursor)
        cursor.execute(b"SELECT pg_catalog.pg_advisory_xact_lock($1)", (publication_lock(self._target),))
        target = target_table(ask, self._target)
        if target is not None:
            cursor.execute(f"LOCK TABLE {qualified(self._target)} IN SHARE ROW EXCLUSIVE MODE".encode())
            target = target_table(ask, self._target)
        if target is not None and self._marker in target.comment:
            self._was_published = True
            self._updated = self._noted_updates(ask)
            self._total = count_of(ask, self._target)
            return "already_published"
        finaliser = self._change(cursor, target)
        grows = target is not None and self._handle.request.strategy is not StrategyMode.FULL_REFRESH
        self._total = count_of(ask, self._target) if grows else self._handle.staged_rows
        comment = comment_with_marker(target.comment if target is not None else "", self._marker)
        cursor.execute(f"COMMENT ON TABLE {qualified(self._target)} IS {literal_ansi(comment)}".encode())
        return finaliser

    def _change(self, cursor: Cursor, target: TargetTable | None) -> str:
        request = self._handle.request
        ask = self._database.within(cursor)
        attachments = attached(ask, target) if target is not None else ()
        if target is None or may_swap(request, target, attachments):
            return self._swap(cursor, target)
        match request.strategy:
            case StrategyMode.FULL_REFRESH:
                refuse_different(request, target, attachments)
                cursor.execute(f"DELETE FROM {qualified(self._target)}".encode())
                self._insert(cursor)
                return "replace_in_transaction"
            case StrategyMode.INCREMENTAL_APPEND:
                self._insert(cursor)
                return "insert_in_transaction"
            case StrategyMode.INCREMENTAL_MERGE:
                self._merge(cursor, target)
                return "merge_in_transaction"
            case StrategyMode.PARTITION_REPLACE:
                self._replace_partitions(cursor)
                return "replace_partitions_in_transaction"

    def _swap(self, cursor: Cursor, target: TargetTable | None) -> str:
        staged = target_table(self._database.within(cursor), self._staged)
        if staged is None:
            raise ConnectorError("the staging table of this load is gone", code="finaliser_refused")
        if not staged.is_logged or self._handle.request.strategy is not StrategyMode.FULL_REFRESH:
            # a crash empties it; and a range may have been staged anew by a process that was given up
            self._require_staged_rows(count_of(self._database.within(cursor), self._staged))
        if not staged.is_logged:
            cursor.execute(f"ALTER TABLE {qualified(self._staged)} SET LOGGED".encode())
        if target is not None:
            cursor.execute(f"DROP TABLE {qualified(self._target)}".encode())
        moved = self._staged
        if self._staged.schema != self._target.schema:
            self._require_schema(cursor)
            cursor.execute(
                f"ALTER TABLE {qualified(moved)} SET SCHEMA {quote_ansi(self._target.schema or '')}".encode()
            )
            moved = TableName(schema=self._target.schema, name=moved.name)
        cursor.execute(f"ALTER TABLE {qualified(moved)} RENAME TO {quote_ansi(self._target.name)}".encode())
        return "swap_in_transaction"

    def _require_schema(self, cursor: Cursor) -> None:
        known = cursor.execute(b"SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", (self._target.schema,))
        if known.fetchone() is None:
            cursor.execute(f"CREATE SCHEMA {quote_ansi(self._target.schema or '')}".encode())

    def _merge(self, cursor: Cursor, target: TargetTable) -> None:
        request = self._handle.request
        names = self._staged_names(cursor)
        keys = [quote_ansi(key) for key in request.unique_key]
        same = " AND ".join(f"target.{key} = staged.{key}" for key in keys)
        grouped = (
            f"SELECT count(*) AS held FROM {qualified(self._target)} AS target"
            f" JOIN {qualified(self._staged)} AS staged ON {same} GROUP BY {', '.join(f'staged.{key}' for key in keys)}"
        )
        cursor.execute(f"ANALYZE {qualified(self._staged)}".encode())
        ask = self._database.within(cursor)
        rows, distinct = ask(f"SELECT coalesce(sum(held), 0)::int8, count(*) FROM ({grouped}) AS matched", ())[0]
        refuse_ambiguous_target(request, staged_matches=int(distinct), target_matches=int(rows))
        changed = [name for name in names if name not in request.unique_key and name not in request.target_only]
        settings = [f"{quote_ansi(name)} = staged.{quote_ansi(name)}" for name in changed]
        settings += [f"{quote_ansi(name)} = NULL" for name in _unloaded_lineage(target, names)]
        if settings and distinct:
            cursor.execute(
                f"UPDATE {qualified(self._target)} AS target SET {', '.join(settings)}"
                f" FROM {qualified(self._staged)} AS staged WHERE {same}".encode()
            )
        self._updated = int(distinct)
        self._insert(
            cursor,
            f" AS staged WHERE NOT EXISTS (SELECT 1 FROM {qualified(self._target)} AS target WHERE {same})",
        )
        cursor.execute(f"COMMENT ON TABLE {qualified(self._staged)} IS '[dpone updated {self._updated}]'".encode())

    def _replace_partitions(self, cursor: Cursor) -> None:
        partition = self._handle.request.physical_design.partition_by
        if partition is None:
            raise ConnectorError("partition_replace needs a partition key", code="physical_design_mismatch")
        cursor.execute(
            f"DELETE FROM {qualified(self._target)} AS target USING"
            f" (SELECT DISTINCT {_partition(partition, 'staged')} AS part FROM {qualified(self._staged)} AS staged)"
            f" AS replaced WHERE {_partition(partition, 'target')} IS NOT DISTINCT FROM replaced.part".encode()
        )
        self._insert(cursor)

    def _insert(self, cursor: Cursor, which: str = "") -> None:
        """A trigger that keeps rows out, or staging that a crash has emptied, ends the transaction."""
        names = ", ".join(map(quote_ansi, self._staged_names(cursor)))
        selected = f"SELECT {names} FROM {qualified(self._staged)}{which}"
        cursor.execute(f"INSERT INTO {qualified(self._target)} ({names}) {selected}".encode())
        self._require_staged_rows(cursor.rowcount + self._updated)

    def _require_staged_rows(self, found: int) -> None:
        if found != self._handle.staged_rows:
            raise ConnectorError(
                f"{self._handle.staged_rows} rows are staged and {found} would be published; the target is as it was",
                code="finaliser_refused",
                fix="run again; look for triggers on the target that keep rows out",
            )

    def _staged_names(self, cursor: Cursor) -> tuple[str, ...]:
        staged = target_table(self._database.within(cursor), self._staged)
        if staged is None:
            raise ConnectorError("the staging table of this load is gone", code="finaliser_refused")
        return staged.schema.names

    def _noted_updates(self, ask: Ask) -> int:
        staged = target_table(ask, self._staged)
        noted = _UPDATED.search(staged.comment) if staged is not None else None
        return int(noted.group(1)) if noted is not None else 0

    def _settle(self, error: ConnectorError) -> None:
        """Returns when the transaction is in the target; raises `finaliser_refused` when it certainly is not."""
        try:
            comment = settled_comment(self._database, self._target, self._lock_timeout_seconds)
            if comment is not None and self._marker in comment:
                self._recount()
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

    def _recount(self) -> None:
        """Of a publication that an earlier call had committed: this one was cut before it had counted anything."""
        if self._total is None:
            self._updated = self._noted_updates(self._database.rows)
            self._total = count_of(self._database.rows, self._target)


def _unloaded_lineage(target: TargetTable, staged: Iterable[str]) -> list[str]:
    """Technical columns that this load does not write: what they say of an updated row is of another load."""
    known = set(staged)
    return [name for name in target.schema.names if is_framework_column(name) and name not in known]


def _partition(partition: PartitionBy, table: str) -> str:
    """What rows of one partition have in common; instants are taken in UTC, the session's time zone."""
    column = f"{table}.{quote_ansi(partition.column)}"
    if partition.granularity is PartitionGranularity.VALUE:
        return column
    return f"date_trunc({literal_ansi(partition.granularity.value)}, {column})"
