"""Finds out whether an append of a dead process was published on ClickHouse.

RENAME and EXCHANGE take the load marker with them. MOVE PARTITION writes no marker, but it empties the staging table,
which exists until cleanup, under its own name or under the fence name. Without a staging table nothing proves that a
partition was moved.
"""

from __future__ import annotations

from dpone_core.connectors.clickhouse.catalog import artifact_of, count_of, facts_of, partitions_of
from dpone_core.connectors.clickhouse.session import Session
from dpone_core.model.artifacts import SCRATCH, STAGING, LoadRef, load_marker, marker_in
from dpone_core.model.load_config import TableName


class ClickHousePublications:
    """PublicationPort over one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def row_count(self, target: TableName) -> int | None:
        table = self._session.resolve(target)
        return 0 if facts_of(self._session, table) is None else count_of(self._session, table)

    def last_marker(self, target: TableName) -> str | None:
        facts = facts_of(self._session, self._session.resolve(target))
        return None if facts is None else marker_in(facts.comment)

    def contains(self, ref: LoadRef, marker_before: str | None) -> bool | None:
        found = self.last_marker(ref.target)
        if found is None:
            return False
        if found == load_marker(ref.identity):
            return True
        partitions = self._staged_partitions(ref)
        if partitions is None:
            return None
        if not partitions:
            return True if self._was_handed_over(ref) else None
        return False if len(partitions) == 1 or found == marker_before else None

    def _was_handed_over(self, ref: LoadRef) -> bool:
        """Whether an empty staging table was published: a publication first marks it, so an empty one without the mark
        was never filled."""
        found = (facts_of(self._session, artifact_of(self._session, ref, role)) for role in (STAGING, SCRATCH))
        return any(facts is not None and load_marker(ref.identity) in facts.comment for facts in found)

    def _staged_partitions(self, ref: LoadRef) -> tuple[str, ...] | None:
        """The partitions that are still in the staging table of the load; None when there is no such table."""
        for role in (STAGING, SCRATCH):
            table = artifact_of(self._session, ref, role)
            if facts_of(self._session, table) is not None:
                return partitions_of(self._session, table)
        return None
