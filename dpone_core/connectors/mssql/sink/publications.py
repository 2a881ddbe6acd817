"""What became of a load whose process died: SQL Server writes the load marker in the transaction that publishes."""

from __future__ import annotations

from dpone_core.connectors._sql.publications import held_by_marker
from dpone_core.model.artifacts import LoadRef
from dpone_core.model.load_config import TableName

from .catalog import count_of, resolve, target_table
from .database import Database
from .publish import settled_marker


class MssqlPublications:
    """PublicationPort of one database; a publication that still runs on the server is waited for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def row_count(self, target: TableName) -> int | None:
        table = resolve(target)
        exists = target_table(self._database.rows, table) is not None
        return count_of(self._database.rows, table) if exists else 0

    def last_marker(self, target: TableName) -> str | None:
        return settled_marker(self._database, resolve(target))

    def contains(self, ref: LoadRef, marker_before: str | None) -> bool | None:
        return held_by_marker(ref, self.last_marker(ref.target), marker_before)
