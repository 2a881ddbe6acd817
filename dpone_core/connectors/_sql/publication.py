"""Publishes a staged load in one transaction: the commit boundary of every SQL sink except ClickHouse, which has no
transactions.

The order is the same on every engine. It waits for other publications of the target, keeps other writers out and reads
the target from the catalogue. If the target carries the marker of this load, the load is already published and nothing
changes. Otherwise it runs the statements of the strategy, compares the number of rows in the target with the expected
one, writes the marker, locks the lease, which must still be this load's, and commits. Any difference rolls back, which
leaves the target unchanged. Readers see the old rows or the new rows. When the answer to COMMIT is lost, the marker
says whether it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from dpone_core.connectors._sql.keys import refuse_ambiguous_target
from dpone_core.connectors._sql.layout import LayoutDialect, SinkTable, may_swap, refuse_different
from dpone_core.connectors._sql.text import literal_ansi, quote_ansi
from dpone_core.errors import CommitOutcomeUnknownError, ConnectionLostError, ConnectorError, LeaseLostError
from dpone_core.model.artifacts import LoadRef, load_marker, marker_in
from dpone_core.model.load_config import PartitionBy, PartitionGranularity, TableName
from dpone_core.model.table_schema import Column, TableSchema, is_framework_column
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.control import HeldRow
from dpone_core.ports.sink import FinalizeResult, StagedHandle

_REFUSED: Final = "finaliser_refused"
Ask = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""The rows of one statement, () for one that answers none; inside a transaction, or outside of any."""
Table = TypeVar("Table", bound=SinkTable)


class Begin(Protocol):
    """The function that opens a transaction."""

    def __call__(self, *, code: str, message: str) -> AbstractContextManager[Ask]:
        """Opens a transaction that commits at the end of its block and rolls back on any error. A driver's error leaves
        it as ConnectorError `code`, a lost session as ConnectionLostError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDialect:
    """How one engine runs a transaction and keeps others out of the target.

    `rows` runs a query outside of any transaction. `keep_publications_out` and `keep_writers_out` wait for other
    publications of the target and for any other writer of it, and keep them out until the transaction ends. `holds`
    locks a control row until then and says whether its values are the held ones. After an error of the class `in_doubt`
    it is unknown whether the COMMIT happened.
    """

    begin: Begin
    rows: Ask
    holds: Callable[[Ask, HeldRow], bool]
    keep_publications_out: Callable[[Ask, TableName], None] = lambda ask, target: None
    keep_writers_out: Callable[[Ask, TableName], None] = lambda ask, target: None
    in_doubt: type[ConnectorError] = ConnectionLostError


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogDialect(Generic[Table]):
    """How one engine finds a table, what is attached to it (in words), and its rows. `artifact_of` names a table of one
    load."""

    resolve: Callable[[TableName], TableName]
    artifact_of: Callable[[LoadRef, str], TableName]
    find: Callable[[Ask, TableName], Table | None]
    attachments: Callable[[Ask, Table], tuple[str, ...]]
    count: Callable[[Ask, TableName], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerDialect(Generic[Table]):
    """Where one engine stores what a publication records: on the target its load marker, on the staging table how many
    rows a merge has updated. `write_marker` gets the target as it was before the publication, None if there was none.
    """

    write_marker: Callable[[Ask, TableName, Table | None, str], None]
    write_updates: Callable[[Ask, TableName, int], None]
    read_updates: Callable[[Ask, TableName], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementDialect:
    """The statements of a publication in one engine's SQL.

    `same_key` compares the key columns of two tables and `key_list` lists them, both by values that are exactly equal.
    `delete_partitions` deletes from a target the partitions that staged rows lie in. `swap` replaces the target, which
    may be absent, by the staging table and returns the name of the finaliser. `add_columns` lists the statements that
    add nullable columns to the target. Merges and replacements run inside `full_memory`.
    """

    qualify: Callable[[TableName], str]
    same_key: Callable[[Sequence[Column], str, str], str]
    key_list: Callable[[Sequence[Column], str], str]
    delete_partitions: Callable[[TableName, TableName, PartitionBy, Column], str]
    swap: Callable[[Ask, StagedHandle, TableName, bool], str]
    add_columns: Callable[[TableName, TableSchema], Sequence[str]]
    quote: Callable[[str], str] = quote_ansi
    row_count: str = "count(*)"
    before_merge: Callable[[TableName], tuple[str, ...]] = lambda staged: ()
    replacement: str = "replace_partitions_in_transaction"
    full_memory: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationDialect(Generic[Table]):
    """Everything in which one engine's publication differs from another's; `engine` is its name in messages."""

    engine: str
    transactions: TransactionDialect
    catalog: CatalogDialect[Table]
    marker: MarkerDialect[Table]
    statements: StatementDialect
    layout: LayoutDialect[Any]


def publish(dialect: PublicationDialect[Table], handle: StagedHandle) -> FinalizeResult:
    """Publishes one staged load. If the load is already published it changes nothing and returns its counts.

    Raises ConnectorError `finaliser_refused`, `merge_key_duplicate` or `physical_design_mismatch`, or LeaseLostError,
    when the target is certainly unchanged, and CommitOutcomeUnknownError when that is not known.
    """
    return _Publication(dialect, handle).run()


def wait_for_note(dialect: PublicationDialect[Table], target: TableName) -> str | None:
    """The note of the target after every running publication of it has ended; None when there is no target."""
    with dialect.transactions.begin(
        code="sink_query_failed", message="the load marker of the target could not be read"
    ) as ask:
        dialect.transactions.keep_publications_out(ask, target)
        found = dialect.catalog.find(ask, target)
    return None if found is None else found.note


class SqlPublications(Generic[Table]):
    """PublicationPort of one database. The transaction that publishes also writes the load marker, so the marker proves
    it."""

    def __init__(self, dialect: PublicationDialect[Table]) -> None:
        self._dialect = dialect

    def row_count(self, target: TableName) -> int | None:
        ask, catalog = self._dialect.transactions.rows, self._dialect.catalog
        table = catalog.resolve(target)
        return 0 if catalog.find(ask, table) is None else catalog.count(ask, table)

    def last_marker(self, target: TableName) -> str | None:
        note = wait_for_note(self._dialect, self._dialect.catalog.resolve(target))
        return None if note is None else marker_in(note)

    def contains(self, ref: LoadRef, marker_before: str | None) -> bool | None:
        found = self.last_marker(ref.target)
        if found is None:
            return False
        if found == load_marker(ref.identity):
            return True
        return False if found == marker_before else None


class _Publication(Generic[Table]):
    """One publication. It counts everything that it reports before the COMMIT, so that no query after the COMMIT can
    fail and make a published load look unpublished."""

    def __init__(self, dialect: PublicationDialect[Table], handle: StagedHandle) -> None:
        self._dialect = dialect
        self._handle = handle
        self._request = handle.request
        self._staged = handle.table
        self._target = dialect.catalog.resolve(handle.request.target)
        self._marker = load_marker(handle.request.identity)
        self._updated = 0
        self._total: int | None = None
        self._was_published = False

    def run(self) -> FinalizeResult:
        try:
            with self._dialect.transactions.begin(
                code=_REFUSED, message=f"{self._dialect.engine} refused to publish; the target is unchanged"
            ) as ask:
                finaliser = self._publish(ask)
        except self._dialect.transactions.in_doubt as error:
            self._settle_in_doubt(error)
            finaliser = "settled_by_marker"
        except ConnectorError as error:
            self._raise_if_published(error)
            raise
        return FinalizeResult(
            finaliser=finaliser,
            inserted_rows=self._handle.staged_rows - self._updated,
            updated_rows=self._updated,
            total_rows=self._total or 0,
        )

    def _publish(self, ask: Ask) -> str:
        transactions, catalog = self._dialect.transactions, self._dialect.catalog
        transactions.keep_publications_out(ask, self._target)
        target = catalog.find(ask, self._target)
        if target is not None:
            transactions.keep_writers_out(ask, self._target)
            target = catalog.find(ask, self._target)
        if target is not None and self._marker in target.note:
            self._was_published = True
            self._recount(ask)
            return "already_published"
        staged = catalog.find(ask, self._staged)
        if staged is None:
            raise ConnectorError("the staging table of this load does not exist any more", code=_REFUSED)
        finaliser, expected = self._change(ask, target, staged.schema)
        self._total = catalog.count(ask, self._target)
        if self._total != expected:
            raise ConnectorError(
                f"the target was expected to hold {expected} rows and would hold {self._total};"
                " nothing was published, the target is unchanged",
                code=_REFUSED,
                fix="run again; let nothing else write into staging, and look for triggers on the target",
            )
        self._dialect.marker.write_marker(ask, self._target, target, self._marker)
        fence = self._request.fence
        if fence is not None and not transactions.holds(ask, fence):
            raise LeaseLostError
        return finaliser

    def _change(self, ask: Ask, target: Table | None, staged: TableSchema) -> tuple[str, int]:
        """Runs the statements of the strategy; returns the finaliser's name and how many rows the
        target must hold now."""
        statements, catalog, rows = self._dialect.statements, self._dialect.catalog, self._handle.staged_rows
        attachments = catalog.attachments(ask, target) if target is not None else ()
        if target is None or may_swap(self._request, target, attachments):
            return statements.swap(ask, self._handle, self._target, target is not None), rows
        added = self._request.added.without(target.schema)
        for statement in statements.add_columns(self._target, added) if added.columns else ():
            ask(statement, ())
        match self._request.strategy:
            case StrategyMode.FULL_REFRESH:
                refuse_different(self._dialect.layout, self._request, target, attachments)
                ask(f"DELETE FROM {statements.qualify(self._target)}", ())
                self._insert(ask, staged)
                return "replace_in_transaction", rows
            case StrategyMode.INCREMENTAL_APPEND:
                before = catalog.count(ask, self._target)
                self._insert(ask, staged)
                return "insert_in_transaction", before + rows
            case StrategyMode.INCREMENTAL_MERGE:
                before = catalog.count(ask, self._target)
                with statements.full_memory():
                    self._merge(ask, target.schema, staged)
                return "merge_in_transaction", before + rows - self._updated
            case StrategyMode.PARTITION_REPLACE:
                with statements.full_memory():
                    self._delete_partitions(ask, staged)
                    remaining = catalog.count(ask, self._target)
                    self._insert(ask, staged)
                return statements.replacement, remaining + rows

    def _merge(self, ask: Ask, target: TableSchema, staged: TableSchema) -> None:
        request, statements = self._request, self._dialect.statements
        table, source = statements.qualify(self._target), statements.qualify(self._staged)
        keys = [column for name in request.unique_key if (column := staged.find(name)) is not None]
        for statement in statements.before_merge(self._staged):
            ask(statement, ())
        same = statements.same_key(keys, "target", "staged")
        grouped = (
            f"SELECT {statements.row_count} AS held FROM {table} AS target JOIN {source} AS staged"
            f" ON {same} GROUP BY {statements.key_list(keys, 'staged')}"
        )
        matches, distinct = ask(
            f"SELECT COALESCE(SUM(held), 0) AS held, {statements.row_count} AS found FROM ({grouped}) AS matched",
            (),
        )[0]
        refuse_ambiguous_target(request, staged_matches=int(distinct), target_matches=int(matches))
        self._updated = int(distinct)
        settings = self._merge_assignments(target, staged)
        if settings and self._updated:
            ask(
                f"UPDATE {table} SET {', '.join(settings)} FROM {source} AS staged"
                f" WHERE {statements.same_key(keys, table, 'staged')}",
                (),
            )
        self._insert(ask, staged, f" AS staged WHERE NOT EXISTS (SELECT 1 AS one FROM {table} AS target WHERE {same})")
        self._dialect.marker.write_updates(ask, self._staged, self._updated)

    def _merge_assignments(self, target: TableSchema, staged: TableSchema) -> list[str]:
        """The SET list for rows that a merge updates. Technical columns that this load does not write become NULL,
        because their values describe an earlier load."""
        quoted, request = self._dialect.statements.quote, self._request
        changed = [name for name in staged.names if name not in (*request.unique_key, *request.target_only)]
        loaded = {name.casefold() for name in staged.names}
        unloaded = [name for name in target.names if is_framework_column(name) and name.casefold() not in loaded]
        return [
            *(f"{quoted(name)} = staged.{quoted(name)}" for name in changed),
            *(f"{quoted(name)} = NULL" for name in unloaded),
        ]

    def _delete_partitions(self, ask: Ask, staged: TableSchema) -> None:
        by = self._request.physical_design.partition_by
        column = staged.find(by.column) if by is not None else None
        if by is None or column is None:
            raise ConnectorError(
                "partition_replace needs physical_design.partition_by, which is missing",
                code="physical_design_mismatch",
            )
        ask(self._dialect.statements.delete_partitions(self._target, self._staged, by, column), ())

    def _insert(self, ask: Ask, staged: TableSchema, which: str = "") -> None:
        statements = self._dialect.statements
        names = ", ".join(map(statements.quote, staged.names))
        source = f"SELECT {names} FROM {statements.qualify(self._staged)}{which}"
        ask(f"INSERT INTO {statements.qualify(self._target)} ({names}) {source}", ())

    def _settle_in_doubt(self, error: ConnectorError) -> None:
        """Returns when the target holds the transaction's rows. Raises ConnectorError when it certainly does not, and
        CommitOutcomeUnknownError when the target cannot be read."""
        try:
            note = wait_for_note(self._dialect, self._target)
            if note is not None and self._marker in note:
                if self._total is None:
                    self._recount(self._dialect.transactions.rows)
                return
        except ConnectorError:
            raise CommitOutcomeUnknownError(
                "the publishing transaction failed, and the load marker of the target cannot be read:"
                " whether the rows are there is unknown"
            ) from error
        if not isinstance(error, ConnectionLostError):
            raise error
        raise ConnectorError(
            "the session was lost before the commit; the target is unchanged", code=_REFUSED
        ) from error

    def _raise_if_published(self, error: ConnectorError) -> None:
        """Raises CommitOutcomeUnknownError if an earlier call had published the load: an error that says the target is
        unchanged would be wrong then."""
        if self._was_published:
            raise CommitOutcomeUnknownError("the target is published, but its rows could not be counted") from error

    def _recount(self, ask: Ask) -> None:
        """Reads the counts of a publication that an earlier call has committed."""
        self._updated = self._dialect.marker.read_updates(ask, self._staged)
        self._total = self._dialect.catalog.count(ask, self._target)


def same_key_ansi(columns: Sequence[Column], left: str, right: str) -> str:
    """The condition that both rows have the same key, for engines whose `=` compares exactly."""
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in (quote_ansi(c.name) for c in columns))


def key_list_ansi(columns: Sequence[Column], table: str) -> str:
    return ", ".join(f"{table}.{quote_ansi(column.name)}" for column in columns)


def delete_partitions_ansi(target: str, staged: str, by: PartitionBy) -> str:
    """The DELETE for the partitions that staged rows lie in; rows with NULL form a partition too."""
    return (
        f"DELETE FROM {target} AS target USING"
        f" (SELECT DISTINCT {partition_ansi(by, 'staged')} AS part FROM {staged} AS staged) AS replaced"
        f" WHERE {partition_ansi(by, 'target')} IS NOT DISTINCT FROM replaced.part"
    )


def partition_ansi(by: PartitionBy, table: str) -> str:
    """The expression that is equal for all rows of one partition. Instants count in UTC, the session's time zone."""
    column = f"{table}.{quote_ansi(by.column)}"
    if by.granularity is PartitionGranularity.VALUE:
        return column
    return f"date_trunc({literal_ansi(by.granularity.value)}, {column})"
