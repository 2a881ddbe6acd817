"""Opens a SQL Server as a source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpone_core.model.connection import Connection
from dpone_core.ports.session import SourcePorts

from .address import address_of
from .probe import MssqlMetricProbe
from .ranges import MssqlRanges
from .reader import MssqlSource
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
