"""Opens a MySQL or MariaDB server as a source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpone_core.connectors.mysql.source.probe import MySqlMetricProbe
from dpone_core.connectors.mysql.source.ranges import MySqlRanges
from dpone_core.connectors.mysql.source.reader import MySqlSource
from dpone_core.model.connection import Connection
from dpone_core.ports.session import SourcePorts

from .address import address_of
from .session import Session
from .statements import MySqlStatements


@contextmanager
def open_source(connection: Connection) -> Iterator[SourcePorts]:
    """`mysql://user:password@host:3306/database`; ConnectorError `source_unreachable` when nothing answers."""
    address = address_of(connection)
    session = Session(address)
    source = MySqlSource(session)
    try:
        session.rows("SELECT 1")
        yield SourcePorts(
            source=source,
            metrics=MySqlMetricProbe(session, source),
            statements=MySqlStatements(address),
            ranges=MySqlRanges(session),
        )
    finally:
        session.close()
