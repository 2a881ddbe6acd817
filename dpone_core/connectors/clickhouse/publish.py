"""THE commit boundary on ClickHouse: one atomic statement per load, and what to believe when its answer is lost.

Before it, staging is made indistinguishable from a target: DEFAULTs and the deduplication window go, the load marker
comes in as the table's comment. full_refresh exchanges (or renames, when there is no target: readers see no table,
then all of it). incremental_append moves the one partition, or builds a shadow of the target with hard links and
exchanges that. EXCHANGE is its own inverse, so the marker is looked at before and never after repeating it. A lost
answer is settled behind a fence: staging is renamed away, so that a statement still under way can no longer succeed.
"""

from __future__ import annotations

from collections.abc import Callable

from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError
from dpone_core.model.artifacts import SCRATCH, comment_with_marker, load_marker
from dpone_core.model.load_config import TableName
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import FinalizeResult, StagedHandle

from .catalog import TableFacts, artifact_of, count_of, defaulted_columns_of, facts_of, partitions_of
from .ddl import WINDOW_SETTING, Ddl
from .lineage import lineage_names
from .session import Session, answer_is_lost

_UNTOUCHED = "ClickHouse refused to publish; the target is as it was"


def publish(session: Session, handle: StagedHandle, target: TableName, shadow: TableName) -> FinalizeResult:
    """Publishes once; called again for a load that is already published it changes nothing."""
    return _Publication(session, handle, target, shadow).run()


class _Publication:
    def __init__(self, session: Session, handle: StagedHandle, target: TableName, shadow: TableName) -> None:
        self._session = session
        self._handle = handle
        self._staged = handle.table
        self._target = target
        self._shadow = shadow
        self._ddl = Ddl(handle.request.physical_design.cluster)
        self._marker = load_marker(handle.request.identity)

    def run(self) -> FinalizeResult:
        strategy = self._handle.request.strategy
        if strategy not in (StrategyMode.FULL_REFRESH, StrategyMode.INCREMENTAL_APPEND):
            raise ConnectorError("ClickHouse has no finaliser for this strategy", code="finaliser_assumption_failed")
        facts = facts_of(self._session, self._target)
        if facts is not None and self._marker in facts.comment:
            return self._result("already_published", before=None)
        self._prepare(facts)
        if facts is None:
            self._commit(self._ddl.rename(self._staged, self._target), self._staged, self._is_marked)
            return self._result("rename_table", before=0)
        if strategy is StrategyMode.FULL_REFRESH:
            self._commit(self._ddl.exchange(self._staged, self._target), self._staged, self._is_marked)
            return self._result("exchange_tables", before=0)
        return self._append(facts)

    def _append(self, facts: TableFacts) -> FinalizeResult:
        before = count_of(self._session, self._target)
        partitions = partitions_of(self._session, self._staged)
        if not partitions:
            already = self._handle.staged_rows > 0 and self._staging_is_empty()
            return self._result("already_published" if already else "nothing_to_append", before=None)
        if len(partitions) == 1:
            move = self._ddl.move_partition(self._staged, self._target, partitions[0])
            self._commit(move, self._staged, self._staging_is_empty)
            return self._result("move_partition", before=before)
        self._run(
            self._ddl.drop(self._shadow),
            self._ddl.clone(self._shadow, self._target),
            *(self._ddl.attach_partition(self._shadow, self._staged, each) for each in partitions),
            self._ddl.set_comment(self._shadow, comment_with_marker(facts.comment, self._marker)),
        )
        self._commit(self._ddl.exchange(self._shadow, self._target), self._shadow, self._is_marked)
        return self._result("exchange_shadow", before=before)

    def _prepare(self, facts: TableFacts | None) -> None:
        """Touches staging only, and may run twice."""
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
            self._session.command(statement, code="finaliser_refused", message=_UNTOUCHED)

    def _commit(self, statement: str, published_from: TableName, is_published: Callable[[], bool]) -> None:
        error = self._session.attempt(statement)
        if error is None:
            return
        if not answer_is_lost(error):
            raise foreign_error(error, _UNTOUCHED, "finaliser_refused") from error
        try:
            published = is_published() or self._published_behind_fence(published_from, is_published)
        except ConnectorError:
            raise CommitOutcomeUnknownError(
                "the answer to the publishing statement is lost and the target cannot be asked"
            ) from error
        if not published:
            raise ConnectorError(
                "the connection was lost while publishing; the target is as it was", code="finaliser_refused"
            ) from error

    def _published_behind_fence(self, published_from: TableName, is_published: Callable[[], bool]) -> bool:
        """Renames the source of the statement away, so that it cannot succeed any more, and looks again."""
        if facts_of(self._session, published_from) is not None:
            aside = artifact_of(self._session, self._handle.request, SCRATCH)
            self._run(self._ddl.drop(aside), self._ddl.rename(published_from, aside))
            if published_from == self._staged:
                self._staged = aside
        return is_published()

    def _is_marked(self) -> bool:
        facts = facts_of(self._session, self._target)
        return facts is not None and self._marker in facts.comment

    def _staging_is_empty(self) -> bool:
        return count_of(self._session, self._staged) == 0

    def _result(self, finaliser: str, *, before: int | None) -> FinalizeResult:
        """The target is published here: a count that fails now must not look like a failed publication."""
        try:
            total = count_of(self._session, self._target)
        except ConnectorError:
            if before is None:
                raise
            total = before + self._handle.staged_rows
        return FinalizeResult(
            finaliser=finaliser, inserted_rows=self._handle.staged_rows, updated_rows=0, total_rows=total
        )
