"""Opens a ClickHouse sink: an embedded directory behind our own lock, or a server over HTTP; one code path after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dpone_core.connectors._sql.embedded import embedded_path, exclusive_lock
from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.errors import ConnectorError
from dpone_core.model.connection import Connection
from dpone_core.ports.session import SinkPorts

from .control import ClickHouseControlTables
from .probe import ClickHouseMetricProbe
from .publications import ClickHousePublications
from .session import Session, connect_embedded, connect_http
from .staged_rows import ClickHouseStagedRows
from .staging import ClickHouseStaging
from .statements import ClickHouseStatements
from .target import ClickHouseTarget


@contextmanager
def open_sink(
    connection: Connection, *, lock_timeout_seconds: float, holder: str = "dpone", target: str | None = None
) -> Iterator[SinkPorts]:
    """`chdb:///relative`, `chdb:////absolute`, `clickhouse://user:pw@host:port/db`, `clickhouses://...` (TLS).

    `holder` and `target` are what a second process is told about us. Raises as `exclusive_lock` does, and
    ConnectorError `sink_unreachable` when the engine or server does not answer.
    """
    with ExitStack() as stack:
        if connection.scheme == "chdb":
            lock = partial(exclusive_lock, timeout_seconds=lock_timeout_seconds, holder=holder, target=target)
            session = _embedded(connection, stack, lock)
        elif connection.scheme in ("clickhouse", "clickhouses"):
            session = _served(connection)
        else:
            raise ConnectorError(
                f"connection {connection.ref!r} is not a chdb, clickhouse or clickhouses URI",
                code="connection_uri_invalid",
            )
        stack.callback(session.close)
        try:
            session.client()
        except Exception as error:
            raise foreign_error(error, "ClickHouse could not be opened", "sink_unreachable") from error
        yield ports_of(session)


def ports_of(session: Session) -> SinkPorts:
    return SinkPorts(
        staged=ClickHouseStaging(session),
        target=ClickHouseTarget(session),
        metrics=ClickHouseMetricProbe(session),
        control=ClickHouseControlTables(session),
        statements=ClickHouseStatements(session),
        staged_rows=ClickHouseStagedRows(session),
        publications=ClickHousePublications(session),
    )


def _embedded(connection: Connection, stack: ExitStack, lock: Callable[[str], AbstractContextManager[None]]) -> Session:
    path = str(Path(embedded_path(connection)).absolute())
    stack.enter_context(lock(path))
    return Session(partial(connect_embedded, path), default_schema="default", embedded=True)


def _served(connection: Connection) -> Session:
    secure = connection.scheme == "clickhouses"
    try:
        parts = urlsplit(connection.uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.query or parts.fragment:
        raise ConnectorError(
            f"connection {connection.ref!r} is not of the form clickhouse://user:password@host:port/database",
            code="connection_uri_invalid",
        )
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
