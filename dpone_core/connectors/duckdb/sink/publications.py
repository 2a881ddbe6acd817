"""What became of an append whose process died: DuckDB writes the load marker in the transaction that publishes."""

from __future__ import annotations

from dpone_core.connectors._sql.publications import held_by_marker
from dpone_core.connectors.duckdb.catalog import comment_of, count_of
from dpone_core.connectors.duckdb.database import Database, resolve
from dpone_core.model.artifacts import LoadRef, marker_in
from dpone_core.model.load_config import TableName


class DuckDbPublications:
    """PublicationPort of one DuckDB file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def row_count(self, target: TableName) -> int | None:
        table = resolve(target)
        return 0 if comment_of(self._database, table) is None else count_of(self._database, table)

    def last_marker(self, target: TableName) -> str | None:
        comment = comment_of(self._database, resolve(target))
        return None if comment is None else marker_in(comment)

    def contains(self, ref: LoadRef, marker_before: str | None) -> bool | None:
        return held_by_marker(ref, self.last_marker(ref.target), marker_before)
