"""What became of a load whose process died: PostgreSQL writes the load marker in the transaction that publishes."""

from __future__ import annotations

from dpone_core.connectors._sql.publications import held_by_marker
from dpone_core.connectors.postgres.database import Database
from dpone_core.model.artifacts import LoadRef, marker_in
from dpone_core.model.load_config import TableName

from .catalog import count_of, resolve, target_table
from .publish import settled_comment


class PostgresPublications:
    """PublicationPort of one database; a publication that still runs on the server is waited for."""

    def __init__(self, database: Database, *, lock_timeout_seconds: float) -> None:
        self._database = database
        self._lock_timeout_seconds = lock_timeout_seconds

    def row_count(self, target: TableName) -> int | None:
        table = resolve(target)
        exists = target_table(self._database.rows, table) is not None
        return count_of(self._database.rows, table) if exists else 0

    def last_marker(self, target: TableName) -> str | None:
        comment = settled_comment(self._database, resolve(target), self._lock_timeout_seconds)
        return None if comment is None else marker_in(comment)

    def contains(self, ref: LoadRef, marker_before: str | None) -> bool | None:
        return held_by_marker(ref, self.last_marker(ref.target), marker_before)
