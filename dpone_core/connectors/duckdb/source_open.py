"""Opens a DuckDB file as a source, alone or inside the engine that a sink of the same file has opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpone_core.connectors._sql.embedded import embedded_path
from dpone_core.errors import ConnectorError
from dpone_core.model.connection import Connection
from dpone_core.ports.session import SourcePorts

from .database import Database
from .source_file import DuckDbSourceStatements, SourceFile
from .source_probe import DuckDbSourceProbe
from .source_reader import DuckDbSource
from .statements import DuckDbStatements


@contextmanager
def open_source(
    connection: Connection, *, lock_timeout_seconds: float = 0, holder: str = "dpone"
) -> Iterator[SourcePorts]:
    """`duckdb:///relative` or `duckdb:////absolute`; ConnectorError `source_unreachable` when there is no file and
    `embedded_directory_locked` while another process writes it."""
    path = Path(embedded_path(connection)).absolute()
    if not path.is_file():
        raise ConnectorError(f"connection {connection.ref!r}: there is no database file", code="source_unreachable")
    file = SourceFile(str(path), lock_timeout_seconds=lock_timeout_seconds, holder=holder)
    try:
        file.reading()
        source = DuckDbSource(file.new_cursor)
        yield SourcePorts(source=source, metrics=DuckDbSourceProbe(source), statements=DuckDbSourceStatements(file))
    finally:
        file.close()


def source_of(database: Database) -> SourcePorts:
    """The same file as source and sink: one engine, since DuckDB opens a file once per process."""
    source = DuckDbSource(database.new_cursor)
    return SourcePorts(source=source, metrics=DuckDbSourceProbe(source), statements=DuckDbStatements(database))
