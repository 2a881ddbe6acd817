"""Opens a PostgreSQL database: psycopg for the catalogue and for scripts, ADBC for rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from dpone_core.model.connection import Connection
from dpone_core.ports.session import SourcePorts

from .database import Database
from .errors import SOURCE
from .probe import PostgresMetricProbe
from .reader import PostgresSource
from .statements import PostgresStatements


@contextmanager
def open_source(connection: Connection) -> Iterator[SourcePorts]:
    """`postgresql://` or `postgres://`; ConnectorError `source_unreachable` when no session can be had."""
    with closing(Database(connection, SOURCE)) as database:
        database.connection()
        source = PostgresSource(database)
        yield SourcePorts(
            source=source,
            metrics=PostgresMetricProbe(database=database, source=source),
            statements=PostgresStatements(database),
        )
