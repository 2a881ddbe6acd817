"""The commit boundary on ClickHouse: publishes a load by one atomic statement, and finds out what happened when its
answer is lost.

First the staging table gets the form of a target: DEFAULTs and the deduplication window are removed, and the load
marker becomes the table's comment. full_refresh exchanges it with the target, or renames it when there is no target. A
load whose rows lie in one partition moves it (append) or replaces it (partition_replace), unless it adds columns; every
other load exchanges a shadow table. EXCHANGE is its own inverse, so it is repeated only after the marker has been read.

When an answer is lost, the source table of the statement is renamed to a fence name, so that a statement that is still
running cannot succeed any more; then the marker is read. A replaced partition carries no marker: it is compared with
staging.
"""

from __future__ import annotations

from collections.abc import Callable

from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.connectors._sql.text import literal_backslash
from dpone_core.connectors.clickhouse.catalog import (
    TableFacts,
    artifact_of,
    count_of,
    defaulted_columns_of,
    facts_of,
    partitions_of,
)
from dpone_core.connectors.clickhouse.ddl import WINDOW_SETTING, Ddl, qualify
from dpone_core.connectors.clickhouse.revocation import WAIT_SECONDS, wait_for_statements
from dpone_core.connectors.clickhouse.session import Session, answer_is_lost
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.artifacts import SCRATCH, STAGING, LoadRef, comment_with_marker, load_marker, marker_in
from dpone_core.model.load_config import TableName
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult, StagedHandle

from .lineage import lineage_names
from .shadow import UNTOUCHED, Content, Shadow


def publish(session: Session, handle: StagedHandle, target: TableName, shadow: TableName) -> FinalizeResult:
    """Publishes one staged load. If the load is already published it changes nothing and returns its counts."""
    return _Publication(session, handle, target, shadow).run()


class ClickHousePublications:
    """PublicationPort over one session: finds out whether an append of a dead process was published.

    RENAME and EXCHANGE take the load marker with them. MOVE PARTITION writes no marker, but it empties the staging
    table, which exists until cleanup, under its own name or under the fence name. Without a staging table nothing
    proves that a partition was moved.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def row_count(self, target: TableName) -> int | None:
        table = self._session.resolve(target)
        return 0 if facts_of(self._session, table) is None else count_of(self._session, table)

    def last_marker(self, target: TableName) -> str | None:
        facts = facts_of(self._session, self._session.resolve(target))
        return None if facts is None else marker_in(facts.comment)

    def contains(self, ref: LoadRef, marker_before: str | None) -> bool | None:
        marker = self.last_marker(ref.target)
        if marker is None:
            return False
        if marker == load_marker(ref.identity):
            return True
        partitions = self._staged_partitions(ref)
        if partitions is None:
            return None
        if not partitions:
            return True if self._was_handed_over(ref) else None
        return False if len(partitions) == 1 or marker == marker_before else None

    def _was_handed_over(self, ref: LoadRef) -> bool:
        """Whether an empty staging table was published: only a publication writes the mark on it."""
        tables = (facts_of(self._session, artifact_of(self._session, ref, role)) for role in (STAGING, SCRATCH))
        return any(facts is not None and load_marker(ref.identity) in facts.comment for facts in tables)

    def _staged_partitions(self, ref: LoadRef) -> tuple[str, ...] | None:
        """The partitions that are still in the staging table of the load; None when there is no such table."""
        for role in (STAGING, SCRATCH):
            table = artifact_of(self._session, ref, role)
            if facts_of(self._session, table) is not None:
                return partitions_of(self._session, table)
        return None


class _Publication:
    def __init__(self, session: Session, handle: StagedHandle, target: TableName, shadow: TableName) -> None:
        self._session = session
        self._handle = handle
        self._staged = handle.table
        self._target = target
        self._shadow = Shadow(session, handle, target, shadow)
        self._ddl = Ddl(handle.request.physical_design.cluster)
        self._marker = load_marker(handle.request.identity)
        self._was_prepared = False

    def run(self) -> FinalizeResult:
        facts = facts_of(self._session, self._target)
        if facts is not None and self._marker in facts.comment:
            return self._result_of_earlier_call()
        staged = facts_of(self._session, self._staged)
        self._was_prepared = staged is not None and self._marker in staged.comment
        self._prepare(facts)
        staged_rows = self._handle.staged_rows
        if facts is None:
            self._commit(self._ddl.rename(self._staged, self._target), self._staged, self._is_marked)
            return self._result("rename_table", expected=staged_rows)
        match self._handle.request.strategy:
            case StrategyMode.FULL_REFRESH:
                self._commit(self._ddl.exchange(self._staged, self._target), self._staged, self._is_marked)
                return self._result("exchange_tables", expected=staged_rows)
            case StrategyMode.INCREMENTAL_APPEND:
                return self._append(facts)
            case StrategyMode.INCREMENTAL_MERGE:
                return self._merge(facts)
            case StrategyMode.PARTITION_REPLACE:
                return self._replace(facts)

    def _append(self, facts: TableFacts) -> FinalizeResult:
        partitions = partitions_of(self._session, self._staged)
        if not partitions:
            if self._handle.staged_rows > 0 and self._was_prepared and self._staging_is_empty():
                return self._result_of_earlier_call()
            self._refuse_unseen_rows()
            return self._result("nothing_to_append")
        if len(partitions) == 1 and not self._shadow.widens():
            before = count_of(self._session, self._target)
            move = self._ddl.move_partition(self._staged, self._target, partitions[0])
            self._commit(move, self._staged, self._staging_is_empty)
            return self._result("move_partition", expected=before + self._handle.staged_rows)
        return self._exchange_shadow(facts, self._shadow.append())

    def _merge(self, facts: TableFacts) -> FinalizeResult:
        if not self._handle.staged_rows:
            return self._result("nothing_to_merge")
        return self._exchange_shadow(facts, self._shadow.merge())

    def _replace(self, facts: TableFacts) -> FinalizeResult:
        if not facts.partition_key:
            raise ConnectorError(
                "partition_replace needs a partitioned target; the target has no partitions",
                code="physical_design_mismatch",
            )
        partitions = partitions_of(self._session, self._staged)
        if not partitions:
            self._refuse_unseen_rows()
            return self._result("nothing_to_replace")
        if len(partitions) > 1 or self._shadow.widens():
            return self._exchange_shadow(facts, self._shadow.replace(partitions))
        (partition,) = partitions
        expected = self._shadow.rows_outside(partitions) + self._handle.staged_rows
        statement = self._ddl.replace_partition(self._target, self._staged, partition)
        self._commit(statement, self._staged, lambda: self._holds_staged(partition))
        return self._result("replace_partition", expected=expected)

    def _refuse_unseen_rows(self) -> None:
        """`finaliser_refused` when another node answers, which lacks the rows counted in staging (CH-22)."""
        if self._handle.staged_rows:
            raise ConnectorError(
                "the rows that were counted in staging are not found there now; nothing was published",
                code="finaliser_refused",
                fix="let every request of a load reach one node, or make the tables replicated ones",
            )

    def _exchange_shadow(self, facts: TableFacts, content: Content) -> FinalizeResult:
        self._shadow.seal(content, comment_with_marker(facts.comment, self._marker))
        exchange = self._ddl.exchange(self._shadow.table, self._target)
        self._commit(exchange, self._shadow.table, self._is_marked)
        return self._result("exchange_shadow", expected=content.rows, updated=content.updated)

    def _prepare(self, facts: TableFacts | None) -> None:
        """Gives the staging table the form of a target; repeatable, and changes nothing else."""
        names = lineage_names(self._handle.request.lineage)
        with_default = [name for name in defaulted_columns_of(self._session, self._staged) if name in names]
        if with_default:
            self._run(self._ddl.remove_defaults(self._staged, with_default))
        if WINDOW_SETTING not in (facts.definition if facts else ""):
            self._run(self._ddl.reset_window(self._staged))
        comment = comment_with_marker(facts.comment if facts else "", self._marker)
        self._run(self._ddl.set_comment(self._staged, comment))

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self._session.command(statement, code="finaliser_refused", message=UNTOUCHED)

    def _commit(self, statement: str, published_from: TableName, is_published: Callable[[], bool]) -> None:
        if published_from == self._staged:
            self._require_staged_rows()
        error = self._session.attempt(statement)
        if error is None:
            return
        if not answer_is_lost(error):
            raise foreign_error(error, UNTOUCHED, "finaliser_refused") from error
        try:
            published = is_published() or self._check_behind_fence(published_from, is_published)
        except ConnectorError:
            raise CommitOutcomeUnknownError(
                "the answer to the publishing statement was lost, and the target cannot be read: whether the"
                " rows are there is unknown"
            ) from error
        if not published:
            raise ConnectorError(
                "the connection was lost while publishing; the target is unchanged", code="finaliser_refused"
            ) from error

    def _require_staged_rows(self) -> None:
        """Counts staging once more; `finaliser_refused` when another process has changed it since."""
        found = count_of(self._session, self._staged)
        if found != self._handle.staged_rows:
            raise ConnectorError(
                f"{self._handle.staged_rows} rows were staged and staging holds {found}; the target is unchanged",
                code="finaliser_refused",
                fix="run again; let no other process write into the staging of this load",
            )

    def _check_behind_fence(self, published_from: TableName, is_published: Callable[[], bool]) -> bool:
        """Renames the statement's source table, so that it cannot succeed any more; says whether it had."""
        aside = artifact_of(self._session, self._handle.ref, SCRATCH)
        if facts_of(self._session, published_from) is not None:
            self._run(self._ddl.drop(aside), self._ddl.rename(published_from, aside))
        wait_for_statements(self._session, [published_from.name], self._handle.ref.cluster, WAIT_SECONDS)
        if published_from == self._staged:
            self._staged = aside
        return is_published()

    def _is_marked(self) -> bool:
        facts = facts_of(self._session, self._target)
        return facts is not None and self._marker in facts.comment

    def _staging_is_empty(self) -> bool:
        return count_of(self._session, self._staged) == 0

    def _holds_staged(self, partition: str) -> bool:
        """Whether target and staging have the same rows in this partition."""
        found = [
            self._session.rows(
                f"SELECT count(), toString(sum(cityHash64(tuple(*)))) FROM {qualify(table)}"
                f" WHERE _partition_id = {literal_backslash(partition)}"
            )
            for table in (self._target, self._staged)
        ]
        return found[0] == found[1]

    def _result_of_earlier_call(self) -> FinalizeResult:
        """The counts of an earlier publication; CommitOutcomeUnknownError when they cannot be read."""
        try:
            return self._result("already_published", updated=self._updates_of_earlier_call())
        except ConnectorError as error:
            raise CommitOutcomeUnknownError("the target is published, but its rows could not be counted") from error

    def _updates_of_earlier_call(self) -> int:
        """How many rows a published merge has updated. Until cleanup the shadow table holds the target as it was
        before; without a shadow there was no target."""
        merged = self._handle.request.strategy is StrategyMode.INCREMENTAL_MERGE
        if not merged or facts_of(self._session, self._shadow.table) is None:
            return 0
        updated, _ = self._shadow.matches(self._shadow.table)
        return updated

    def _result(self, finaliser: str, *, expected: int | None = None, updated: int = 0) -> FinalizeResult:
        """Counts the target, which is published: a failure here raises CommitOutcomeUnknownError."""
        try:
            total = count_of(self._session, self._target)
        except ConnectorError:
            if expected is None:
                raise
            total = expected
        return FinalizeResult(
            finaliser=finaliser,
            inserted_rows=self._handle.staged_rows - updated,
            updated_rows=updated,
            total_rows=total,
        )
