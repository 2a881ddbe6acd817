"""Opens a SQL Server as a source or as a sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from dpone_core.connectors._sql.publication import SqlPublications
from dpone_core.connectors.mssql.sink.control import MssqlControlTables
from dpone_core.connectors.mssql.sink.database import Database
from dpone_core.connectors.mssql.sink.probe import sink_probe
from dpone_core.connectors.mssql.sink.publish import publication_dialect
from dpone_core.connectors.mssql.sink.rules import staged_rules
from dpone_core.connectors.mssql.sink.staged_rows import MssqlStagedRows
from dpone_core.connectors.mssql.sink.staging import MssqlStaging, range_staging
from dpone_core.connectors.mssql.sink.target import MssqlTarget
from dpone_core.connectors.mssql.source.probe import MssqlMetricProbe
from dpone_core.connectors.mssql.source.ranges import MssqlRanges
from dpone_core.connectors.mssql.source.reader import MssqlSource
from dpone_core.model.connection import Connection
from dpone_core.ports.session import SinkPorts, SourcePorts

from .address import address_of
from .session import Session
from .statements import MssqlStatements


@contextmanager
def open_source(connection: Connection) -> Iterator[SourcePorts]:
    """`mssql://user:password@host:1433/database`; ConnectorError `source_unreachable` when nothing answers,
    DriverMissingError when the ODBC driver or unixODBC is not installed."""
    session = Session(address_of(connection))
    source = MssqlSource(session)
    try:
        session.rows("SELECT 1 AS one")
        yield SourcePorts(
            source=source,
            metrics=MssqlMetricProbe(session, source),
            statements=MssqlStatements(session.connection_string),
            ranges=MssqlRanges(session, source),
        )
    finally:
        session.close()


@contextmanager
def open_sink(
    connection: Connection, *, lock_timeout_seconds: float, holder: str = "dpone", target: str | None = None
) -> Iterator[SinkPorts]:
    """Opens the sink. `lock_timeout_seconds` limits each wait for a lock. `holder` and `target` matter to embedded
    engines only: SQL Server keeps the lease in a table. Raises ConnectorError `sink_unreachable` when the server does
    not answer."""
    with closing(Database(address_of(connection), lock_timeout_seconds=lock_timeout_seconds)) as database:
        database.rows("SELECT 1 AS one")
        yield SinkPorts(
            staged=MssqlStaging(database),
            target=MssqlTarget(database),
            metrics=sink_probe(database),
            control=MssqlControlTables(database),
            statements=MssqlStatements(database.connection_string),
            staged_rows=MssqlStagedRows(database),
            publications=SqlPublications(publication_dialect(database)),
            ranges=range_staging(database),
            rules=staged_rules(database),
        )
