"""Opens a SQLite database file as a source: read only for reading, a connection of its own for hook scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpone_core.connectors._sql.embedded import embedded_path, missing_database
from dpone_core.connectors.sqlite.source.probe import SqliteMetricProbe
from dpone_core.connectors.sqlite.source.ranges import SqliteRanges
from dpone_core.connectors.sqlite.source.reader import SqliteSource
from dpone_core.model.connection import Connection
from dpone_core.ports.session import SourcePorts

from .database import Database
from .statements import SqliteStatements


@contextmanager
def open_source(connection: Connection) -> Iterator[SourcePorts]:
    """`sqlite:///relative` or `sqlite:////absolute`; ConnectorError `source_unreachable` when there is no file."""
    path = Path(embedded_path(connection))
    if not path.is_file():
        raise missing_database(connection)
    database = Database(path.absolute())
    source = SqliteSource(database)
    try:
        yield SourcePorts(
            source=source,
            metrics=SqliteMetricProbe(database, source),
            statements=SqliteStatements(path.absolute()),
            ranges=SqliteRanges(database),
        )
    finally:
        database.close()
