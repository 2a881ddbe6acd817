"""The one place that names concrete connectors: type -> descriptor, and the functions that open sessions.

Descriptors import `model` only, so planning never loads a vendor library; opening does, inside the function.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, cast

from dpone_core.errors import ETLConfigurationError
from dpone_core.model.connection import Connection
from dpone_core.model.connector import ConnectorDescriptor, ConnectorType
from dpone_core.ports.session import SinkPorts, SourcePorts

CONNECTORS: Final = (
    ConnectorType.SQLITE,
    ConnectorType.POSTGRES,
    ConnectorType.FILES,
    ConnectorType.CLICKHOUSE,
    ConnectorType.DUCKDB,
)


class ExtraMissingError(ETLConfigurationError):
    """The connector's driver is not installed; the message holds the install line."""

    code = "DPONE_EXTRA_MISSING"


class OpenSource(Protocol):
    def __call__(self, connection: Connection | None) -> AbstractContextManager[SourcePorts]: ...


class OpenSink(Protocol):
    def __call__(
        self, connection: Connection, *, lock_timeout_seconds: float, holder: str, target: str | None
    ) -> AbstractContextManager[SinkPorts]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLock:
    """How long to wait for an embedded engine's lock, and what a waiting process is told about us.

    A process that loads the same `target` is refused at once; None = nothing is loaded.
    """

    timeout_seconds: float
    holder: str
    target: str | None = None


def descriptor_of(connector: ConnectorType) -> ConnectorDescriptor:
    """Raises ETLConfigurationError for a type that has no connector."""
    if connector not in CONNECTORS:
        raise ETLConfigurationError(
            f"connector '{connector}' is not available yet",
            code="DPONE_NOT_AVAILABLE_YET",
            fix=f"use one of: {', '.join(CONNECTORS)}",
        )
    module = importlib.import_module(f"dpone_core.connectors.{connector.value}.descriptor")
    return cast(ConnectorDescriptor, module.DESCRIPTOR)


@contextmanager
def open_source(connector: ConnectorType, connection: Connection | None) -> Iterator[SourcePorts]:
    opened = cast(OpenSource, _opener(connector, "open_source"))
    with opened(connection) as ports:
        yield ports


@contextmanager
def open_sink(connector: ConnectorType, connection: Connection, lock: SinkLock) -> Iterator[SinkPorts]:
    opened = cast(OpenSink, _opener(connector, "open_sink"))
    with opened(connection, lock_timeout_seconds=lock.timeout_seconds, holder=lock.holder, target=lock.target) as ports:
        yield ports


def require_uri(connector: ConnectorType, connection: Connection) -> None:
    """Raises ETLConfigurationError `connection_uri_invalid` for a URI this connector can never open; not echoed."""
    schemes = descriptor_of(connector).uri_schemes
    shown = " or ".join(f"{scheme}://" for scheme in schemes)
    if connection.scheme not in schemes:
        raise ETLConfigurationError(
            f"connection '{connection.ref}' is not a {shown} URI, which {connector} needs",
            code="connection_uri_invalid",
            fix="correct where it is set",
        )
    if connection.is_embedded and not connection.uri.partition("://")[2].startswith("/"):
        raise ETLConfigurationError(
            f"connection '{connection.ref}' needs three slashes before a relative path and four before an absolute one",
            code="connection_uri_invalid",
            fix=f"write {connection.scheme}:///relative/path or {connection.scheme}:////absolute/path",
        )


def require_extra(connector: ConnectorType, connection: Connection | None) -> None:
    """Raises ExtraMissingError when a library this connection needs is not importable; imports nothing heavy."""
    descriptor = descriptor_of(connector)
    needed, extra = descriptor.libraries, descriptor.extra
    if connection is not None and connection.scheme == "chdb":
        needed, extra = (*needed, "chdb"), "embedded"
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise ExtraMissingError(
            f"connector '{connector}' needs {', '.join(missing)}",
            fix=f"install it from a checkout or wheel: pip install '.[{extra}]'",
        )


def require_hash_engine() -> None:
    """Raises ExtraMissingError: typed hashes are computed by DuckDB, whatever the sink is."""
    if importlib.util.find_spec("duckdb") is None:
        raise ExtraMissingError(
            "a typed_hash_reconciliation gate needs duckdb",
            fix="install it from a checkout or wheel: pip install '.[duckdb]'",
        )


def _opener(connector: ConnectorType, name: str) -> object:
    return getattr(importlib.import_module(f"dpone_core.connectors.{connector.value}.open"), name)
