"""THE commit boundary on DuckDB: one transaction, whose own marker says whether it happened, also to a second call.

A merge updates and inserts, a partition replacement deletes and inserts; readers see the old rows or the new rows. How
many rows a merge updated is noted on staging in the same transaction, for a caller that did not hear it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import duckdb

from dpone_core.connectors._sql.keys import refuse_ambiguous_target
from dpone_core.connectors._sql.text import literal_ansi, quote_ansi
from dpone_core.connectors.duckdb.catalog import comment_of, count_of, schema_of
from dpone_core.connectors.duckdb.database import Database, qualified, resolve
from dpone_core.connectors.duckdb.types import column_definition
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.artifacts import comment_with_marker, load_marker
from dpone_core.model.load_config import PartitionBy, PartitionGranularity
from dpone_core.model.table_schema import TableSchema, is_framework_column
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult, StagedHandle

_UPDATED: Final = re.compile(r"\[dpone updated (\d+)\]")


def publish(database: Database, handle: StagedHandle) -> FinalizeResult:
    """Publishes once; called again for a load that is already published it changes nothing."""
    return _Publication(database, handle).run()


class _Publication:
    """All that is told of a publication is counted before its COMMIT: nothing that fails behind it could deny it."""

    def __init__(self, database: Database, handle: StagedHandle) -> None:
        self._database = database
        self._handle = handle
        self._staged = handle.table
        self._target = resolve(handle.request.target)
        self._marker = load_marker(handle.request.identity)
        self._updated = 0
        self._total: int | None = None

    def run(self) -> FinalizeResult:
        comment = comment_of(self._database, self._target)
        if comment is not None and self._marker in comment:
            self._recount()
            return self._result("already_published")
        try:
            with self._database.transaction(
                code="finaliser_refused", message="DuckDB refused to publish; the target is as it was"
            ) as cursor:
                finaliser = self._publish(cursor, exists=comment is not None)
                self._total = count_of(self._database, self._target)
                marked = literal_ansi(comment_with_marker(comment or "", self._marker))
                cursor.execute(f"COMMENT ON TABLE {qualified(self._target)} IS {marked}")
        except ConnectorError as error:
            self._settle(error)
            finaliser = "settled_by_marker"
        return self._result(finaliser)

    def _publish(self, cursor: duckdb.DuckDBPyConnection, *, exists: bool) -> str:
        strategy = self._handle.request.strategy
        if strategy is StrategyMode.FULL_REFRESH or not exists:
            return self._swap(cursor, exists=exists)
        match strategy:
            case StrategyMode.INCREMENTAL_APPEND:
                self._insert(cursor)
                return "insert_in_transaction"
            case StrategyMode.INCREMENTAL_MERGE:
                with self._database.full_memory():
                    self._merge(cursor)
                return "merge_in_transaction"
            case StrategyMode.PARTITION_REPLACE:
                with self._database.full_memory():
                    self._replace(cursor)
                return "replace_in_transaction"

    def _swap(self, cursor: duckdb.DuckDBPyConnection, *, exists: bool) -> str:
        staged, target = self._staged, self._target
        if exists:
            cursor.execute(f"DROP TABLE {qualified(target)}")
        if (staged.schema or "").lower() == (target.schema or "").lower():
            cursor.execute(f"ALTER TABLE {qualified(staged)} RENAME TO {quote_ansi(target.name)}")
            return "swap_in_transaction"
        definitions = ", ".join(map(column_definition, self._staged_schema().columns))
        cursor.execute(f"CREATE TABLE {qualified(target)} ({definitions})")  # no rename leads across schemas
        cursor.execute(f"INSERT INTO {qualified(target)} SELECT * FROM {qualified(staged)}")
        return "copy_in_transaction"

    def _merge(self, cursor: duckdb.DuckDBPyConnection) -> None:
        request = self._handle.request
        names = self._staged_schema().names
        same = " AND ".join(f"target.{key} = staged.{key}" for key in map(quote_ansi, request.unique_key))
        keys = ", ".join(f"target.{key}" for key in map(quote_ansi, request.unique_key))
        matched = f"FROM {qualified(self._target)} AS target JOIN {qualified(self._staged)} AS staged ON {same}"
        rows, distinct = self._database.rows(
            f"SELECT coalesce(sum(held), 0)::BIGINT, count(*) FROM (SELECT count(*) AS held {matched} GROUP BY {keys})"
        )[0]
        refuse_ambiguous_target(request, staged_matches=int(distinct), target_matches=int(rows))
        self._updated = int(distinct)
        changed = [name for name in names if name not in request.unique_key and name not in request.target_only]
        settings = [f"{quote_ansi(name)} = staged.{quote_ansi(name)}" for name in changed]
        settings += [f"{quote_ansi(name)} = NULL" for name in self._unloaded_lineage(names)]
        if settings and self._updated:
            cursor.execute(
                f"UPDATE {qualified(self._target)} AS target SET {', '.join(settings)}"
                f" FROM {qualified(self._staged)} AS staged WHERE {same}"
            )
        self._insert(
            cursor, f" AS staged WHERE NOT EXISTS (SELECT 1 FROM {qualified(self._target)} AS target WHERE {same})"
        )
        cursor.execute(f"COMMENT ON TABLE {qualified(self._staged)} IS '[dpone updated {self._updated}]'")

    def _replace(self, cursor: duckdb.DuckDBPyConnection) -> None:
        partition = self._handle.request.physical_design.partition_by
        if partition is None:
            raise ConnectorError("partition_replace needs a partition key", code="physical_design_mismatch")
        cursor.execute(
            f"DELETE FROM {qualified(self._target)} AS target USING"
            f" (SELECT DISTINCT {partition_expression(partition, 'staged')} AS part"
            f" FROM {qualified(self._staged)} AS staged) AS replaced"
            f" WHERE {partition_expression(partition, 'target')} IS NOT DISTINCT FROM replaced.part"
        )
        self._insert(cursor)

    def _insert(self, cursor: duckdb.DuckDBPyConnection, which: str = "") -> None:
        names = ", ".join(map(quote_ansi, self._staged_schema().names))
        cursor.execute(
            f"INSERT INTO {qualified(self._target)} ({names}) SELECT {names} FROM {qualified(self._staged)}{which}"
        )

    def _unloaded_lineage(self, staged: Iterable[str]) -> list[str]:
        """Technical columns that this load does not write: what they say of an updated row is of another load."""
        schema = schema_of(self._database, self._target)
        known = {name.lower() for name in staged}
        names = schema.names if schema is not None else ()
        return [name for name in names if is_framework_column(name) and name.lower() not in known]

    def _staged_schema(self) -> TableSchema:
        schema = schema_of(self._database, self._staged)
        if schema is None:
            raise ConnectorError("the staging table of this load is gone", code="finaliser_refused")
        return schema

    def _settle(self, error: ConnectorError) -> None:
        """Returns when the transaction is in the target nevertheless."""
        try:
            comment = comment_of(self._database, self._target)
        except ConnectorError:
            raise CommitOutcomeUnknownError(
                "the publishing transaction failed and the target cannot be asked"
            ) from error
        if comment is None or self._marker not in comment:
            raise error
        if self._total is None:
            self._recount()

    def _recount(self) -> None:
        """Of a publication that an earlier call had committed."""
        try:
            noted = _UPDATED.search(comment_of(self._database, self._staged) or "")
            self._updated = int(noted.group(1)) if noted is not None else 0
            self._total = count_of(self._database, self._target)
        except ConnectorError as error:
            raise CommitOutcomeUnknownError("the target is published and its rows could not be counted") from error

    def _result(self, finaliser: str) -> FinalizeResult:
        return FinalizeResult(
            finaliser=finaliser,
            inserted_rows=self._handle.staged_rows - self._updated,
            updated_rows=self._updated,
            total_rows=self._total or 0,
        )


def partition_expression(partition: PartitionBy, table: str) -> str:
    """What rows of one partition have in common; instants are taken in UTC, the session's time zone."""
    column = f"{table}.{quote_ansi(partition.column)}"
    if partition.granularity is PartitionGranularity.VALUE:
        return column
    return f"date_trunc({literal_ansi(partition.granularity.value)}, {column})"
