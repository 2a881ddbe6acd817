"""Opens a PostgreSQL database: psycopg for the catalogue, control tables and scripts, ADBC for rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from dpone_core.connectors._sql.publication import SqlPublications
from dpone_core.connectors.postgres.sink.control import PostgresControlTables
from dpone_core.connectors.postgres.sink.probe import sink_probe
from dpone_core.connectors.postgres.sink.publish import publication_dialect
from dpone_core.connectors.postgres.sink.rules import staged_rules
from dpone_core.connectors.postgres.sink.staged_rows import PostgresStagedRows
from dpone_core.connectors.postgres.sink.staging import PostgresStaging, range_staging
from dpone_core.connectors.postgres.sink.target import PostgresTarget
from dpone_core.connectors.postgres.source.probe import PostgresMetricProbe
from dpone_core.connectors.postgres.source.ranges import PostgresRanges
from dpone_core.connectors.postgres.source.reader import PostgresSource
from dpone_core.model.connection import Connection
from dpone_core.ports.session import SinkPorts, SourcePorts

from .database import Database
from .errors import SINK, SOURCE
from .statements import PostgresStatements

_SINK_SETTINGS: Final = ("SET row_security = off",)
"""A policy that would hide rows of the target from us is an error, not a smaller result."""


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
            ranges=PostgresRanges(database, source),
        )


@contextmanager
def open_sink(
    connection: Connection, *, lock_timeout_seconds: float, holder: str = "dpone", target: str | None = None
) -> Iterator[SinkPorts]:
    """Opens the sink. `lock_timeout_seconds` limits each wait for a lock of the target. `holder` and `target` matter to
    embedded engines only: PostgreSQL keeps the lease in a table. Raises ConnectorError `sink_unreachable` when no
    session can be had."""
    with closing(Database(connection, SINK, settings=_SINK_SETTINGS)) as database:
        database.connection()
        yield ports_of(database, lock_timeout_seconds=lock_timeout_seconds)


def ports_of(database: Database, *, lock_timeout_seconds: float) -> SinkPorts:
    return SinkPorts(
        staged=PostgresStaging(database, lock_timeout_seconds=lock_timeout_seconds),
        target=PostgresTarget(database, lock_timeout_seconds=lock_timeout_seconds),
        metrics=sink_probe(database),
        control=PostgresControlTables(database),
        statements=PostgresStatements(database),
        staged_rows=PostgresStagedRows(database),
        publications=SqlPublications(publication_dialect(database, lock_timeout_seconds=lock_timeout_seconds)),
        ranges=range_staging(database, lock_timeout_seconds=lock_timeout_seconds),
        rules=staged_rules(database),
    )
