"""Opens ClickHouse: an embedded directory behind the lock of `embedded`, or a server over HTTP. Everything after that
is the same for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from dpone_core.connectors._sql.embedded import embedded_path, exclusive_lock, missing_database
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.connectors.clickhouse.address import server_address
from dpone_core.connectors.clickhouse.sink.control import ClickHouseControlTables
from dpone_core.connectors.clickhouse.sink.probe import sink_probe
from dpone_core.connectors.clickhouse.sink.publish import ClickHousePublications
from dpone_core.connectors.clickhouse.sink.ranges import ClickHouseRanges
from dpone_core.connectors.clickhouse.sink.rules import staged_rules
from dpone_core.connectors.clickhouse.sink.staged_rows import ClickHouseStagedRows
from dpone_core.connectors.clickhouse.sink.staging import ClickHouseStaging
from dpone_core.connectors.clickhouse.sink.target import ClickHouseTarget
from dpone_core.connectors.clickhouse.source.blocks import embedded_blocks, served_blocks
from dpone_core.connectors.clickhouse.source.probe import ClickHouseSourceProbe
from dpone_core.connectors.clickhouse.source.ranges import ClickHouseSourceRanges
from dpone_core.connectors.clickhouse.source.reader import ClickHouseSource
from dpone_core.errors import ConnectorError
from dpone_core.model.connection import Connection
from dpone_core.ports.session import SinkPorts, SourcePorts

from .revocation import ClickHouseRevocation
from .session import Session, connect_embedded, connect_http
from .statements import ClickHouseStatements

Lock = Callable[[str], AbstractContextManager[None]]


@contextmanager
def open_source(
    connection: Connection, *, lock_timeout_seconds: float = 0, holder: str = "dpone"
) -> Iterator[SourcePorts]:
    """Opens a source; the URIs are those of `open_sink`. An embedded directory is locked, because one process at a time
    can use it. Raises as `exclusive_lock` does, and ConnectorError `source_unreachable` when the directory does not
    exist or the server does not answer."""
    if connection.scheme == "chdb" and not Path(embedded_path(connection)).is_dir():
        raise missing_database(connection)
    lock = partial(exclusive_lock, timeout_seconds=lock_timeout_seconds, holder=holder)
    with _open_session(connection, lock, unreachable="source_unreachable") as session:
        yield _source_of(session, connection)


@contextmanager
def open_sink(
    connection: Connection, *, lock_timeout_seconds: float, holder: str = "dpone", target: str | None = None
) -> Iterator[SinkPorts]:
    """Opens `chdb:///relative`, `chdb:////absolute`, `clickhouse://user:pw@host:port/db` or `clickhouses://...` (TLS).
    The lock file tells other processes `holder` and `target`. Raises as `exclusive_lock` does, and ConnectorError
    `sink_unreachable` when the engine or server does not answer."""
    lock = partial(exclusive_lock, timeout_seconds=lock_timeout_seconds, holder=holder, target=target)
    with _open_session(connection, lock, unreachable="sink_unreachable") as session:
        yield ports_of(session)


@contextmanager
def open_source_and_sink(
    connection: Connection, *, lock_timeout_seconds: float, holder: str = "dpone", target: str | None = None
) -> Iterator[tuple[SourcePorts, SinkPorts]]:
    """Opens one embedded directory as source and sink in one engine. Raises as `open_sink` does."""
    lock = partial(exclusive_lock, timeout_seconds=lock_timeout_seconds, holder=holder, target=target)
    with _open_session(connection, lock, unreachable="sink_unreachable") as session:
        yield _source_of(session, connection), ports_of(session)


@contextmanager
def _open_session(connection: Connection, lock: Lock, *, unreachable: str) -> Iterator[Session]:
    with ExitStack() as stack:
        if connection.scheme == "chdb":
            session = _open_embedded(connection, stack, lock)
        elif connection.scheme in ("clickhouse", "clickhouses"):
            session = _open_server(connection)
        else:
            raise ConnectorError(
                f"connection {connection.ref!r} is not a chdb, clickhouse or clickhouses URI",
                code="connection_uri_invalid",
            )
        stack.callback(session.close)
        try:
            session.client()
        except Exception as error:
            raise foreign_error(error, "ClickHouse could not be opened", unreachable) from error
        yield session


def ports_of(session: Session) -> SinkPorts:
    return SinkPorts(
        staged=ClickHouseStaging(session),
        target=ClickHouseTarget(session),
        metrics=sink_probe(session),
        control=ClickHouseControlTables(session),
        statements=ClickHouseStatements(session),
        staged_rows=ClickHouseStagedRows(session),
        publications=ClickHousePublications(session),
        ranges=ClickHouseRanges(session),
        revocation=ClickHouseRevocation(session),
        rules=staged_rules(session),
    )


def _source_of(session: Session, connection: Connection) -> SourcePorts:
    reading = session.reading()
    if session.embedded:
        blocks = embedded_blocks(str(Path(embedded_path(connection)).resolve()))
    else:
        blocks = served_blocks(reading)
    source = ClickHouseSource(reading, blocks)
    return SourcePorts(
        source=source,
        metrics=ClickHouseSourceProbe(source),
        statements=ClickHouseStatements(session),
        ranges=ClickHouseSourceRanges(source),
    )


def _open_embedded(connection: Connection, stack: ExitStack, lock: Lock) -> Session:
    path = str(Path(embedded_path(connection)).absolute())
    stack.enter_context(lock(path))
    return Session(partial(connect_embedded, path), default_schema="default", embedded=True)


def _open_server(connection: Connection) -> Session:
    secure = connection.scheme == "clickhouses"
    parts = server_address(connection)
    host, port = parts.hostname or "", parts.port
    database = unquote(parts.path.strip("/")) or "default"
    connect = partial(
        connect_http,
        host=host,
        port=port or (8443 if secure else 8123),
        username=unquote(parts.username or "default"),
        password=unquote(parts.password or ""),
        database="default",
        secure=secure,
    )
    return Session(connect, default_schema=database, embedded=False)
