"""Opens a DuckDB file: as a source read only, as a sink behind the lock of `embedded`, or as both in one engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dpone_core.connectors._sql.embedded import embedded_path, exclusive_lock, missing_database
from dpone_core.connectors._sql.publication import SqlPublications
from dpone_core.connectors.duckdb.sink.control import DuckDbControlTables
from dpone_core.connectors.duckdb.sink.probe import sink_probe
from dpone_core.connectors.duckdb.sink.publish import publication_dialect
from dpone_core.connectors.duckdb.sink.rules import staged_rules
from dpone_core.connectors.duckdb.sink.staged_rows import DuckDbStagedRows
from dpone_core.connectors.duckdb.sink.staging import DuckDbStaging, range_staging
from dpone_core.connectors.duckdb.sink.target import DuckDbTarget
from dpone_core.connectors.duckdb.source.file import DuckDbSourceStatements, SourceFile
from dpone_core.connectors.duckdb.source.probe import DuckDbSourceProbe
from dpone_core.connectors.duckdb.source.ranges import DuckDbSourceRanges
from dpone_core.connectors.duckdb.source.reader import DuckDbSource
from dpone_core.declared.duckdb import MEMORY_LIMIT_BYTES, STREAMING_LIMIT_BYTES
from dpone_core.model.connection import Connection
from dpone_core.ports.session import SinkPorts, SourcePorts
from dpone_core.ports.statements import StatementPort

from .database import Database
from .statements import DuckDbStatements


@contextmanager
def open_source(
    connection: Connection, *, lock_timeout_seconds: float = 0, holder: str = "dpone"
) -> Iterator[SourcePorts]:
    """`duckdb:///relative` or `duckdb:////absolute`; ConnectorError `source_unreachable` when there is no file and
    `embedded_directory_locked` while another process writes it."""
    path = Path(embedded_path(connection)).absolute()
    if not path.is_file():
        raise missing_database(connection)
    file = SourceFile(str(path), lock_timeout_seconds=lock_timeout_seconds, holder=holder)
    try:
        file.open_for_reading()
        yield _ports_of(DuckDbSource(file.new_cursor), DuckDbSourceStatements(file))
    finally:
        file.close()


@contextmanager
def open_sink(
    connection: Connection, *, lock_timeout_seconds: float, holder: str = "dpone", target: str | None = None
) -> Iterator[SinkPorts]:
    """`duckdb:///relative` or `duckdb:////absolute`; raises as `exclusive_lock` does."""
    with _open_database(connection, lock_timeout_seconds, holder, target, STREAMING_LIMIT_BYTES) as database:
        yield ports_of(database)


@contextmanager
def open_source_and_sink(
    connection: Connection, *, lock_timeout_seconds: float, holder: str = "dpone", target: str | None = None
) -> Iterator[tuple[SourcePorts, SinkPorts]]:
    """Opens one file as source and sink in one engine, because DuckDB opens a file once per process. Raises as
    `open_sink` does."""
    with _open_database(connection, lock_timeout_seconds, holder, target, MEMORY_LIMIT_BYTES) as database:
        yield _source_of(database), ports_of(database)


@contextmanager
def _open_database(
    connection: Connection,
    lock_timeout_seconds: float,
    holder: str,
    target: str | None,
    streaming_limit_bytes: int,
) -> Iterator[Database]:
    path = str(Path(embedded_path(connection)).absolute())
    with ExitStack() as stack:
        stack.enter_context(exclusive_lock(path, timeout_seconds=lock_timeout_seconds, holder=holder, target=target))
        database = Database(path, streaming_limit_bytes=streaming_limit_bytes)
        stack.callback(database.close)
        yield database


def ports_of(database: Database) -> SinkPorts:
    return SinkPorts(
        staged=DuckDbStaging(database),
        target=DuckDbTarget(database),
        metrics=sink_probe(database),
        control=DuckDbControlTables(database),
        statements=DuckDbStatements(database),
        staged_rows=DuckDbStagedRows(database),
        publications=SqlPublications(publication_dialect(database)),
        ranges=range_staging(database),
        rules=staged_rules(database),
    )


def _source_of(database: Database) -> SourcePorts:
    return _ports_of(DuckDbSource(database.new_cursor), DuckDbStatements(database))


def _ports_of(source: DuckDbSource, statements: StatementPort) -> SourcePorts:
    return SourcePorts(
        source=source,
        metrics=DuckDbSourceProbe(source),
        statements=statements,
        ranges=DuckDbSourceRanges(source),
    )
