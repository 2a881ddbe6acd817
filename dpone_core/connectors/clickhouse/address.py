"""The URI of a ClickHouse connection."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from dpone_core.connectors._sql.embedded import embedded_path
from dpone_core.errors import ConnectorError
from dpone_core.model.connection import Connection


def require_address(connection: Connection) -> None:
    """Raises ConnectorError `connection_uri_invalid` for a URI that can never be opened."""
    if connection.scheme == "chdb":
        embedded_path(connection)
    else:
        server_address(connection)


def server_address(connection: Connection) -> SplitResult:
    """The parts of `clickhouse://user:password@host:port/database`. Raises ConnectorError `connection_uri_invalid`."""
    try:
        parts = urlsplit(connection.uri)
        known = parts.hostname is not None and parts.port != 0 and not parts.query and not parts.fragment
    except ValueError:
        known = False
    if not known:
        raise ConnectorError(
            f"connection {connection.ref!r} is not of the form clickhouse://user:password@host:port/database;"
            " parameters are not read",
            code="connection_uri_invalid",
        )
    return parts
