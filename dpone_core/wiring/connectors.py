"""Opens sessions of connectors: imports `connectors/<type>/open.py`, here alone, when a session is opened.

So planning never loads a vendor library. What a connector can do stands in `declared`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from dpone_core.declared.registry import descriptor_of, is_embedded
from dpone_core.errors import ConnectorError, ETLConfigurationError
from dpone_core.model.connection import Connection
from dpone_core.model.connector import ConnectorType, EngineScope
from dpone_core.ports.session import SinkPorts, SourcePorts


class ExtraMissingError(ETLConfigurationError):
    """The connector's driver is not installed; the message holds the install line."""

    code = "DPONE_EXTRA_MISSING"


class EngineLockError(ETLConfigurationError):
    """The lock beside an embedded database cannot be written; nothing ran."""

    code = "DPONE_ENGINE_LOCK_NOT_WRITABLE"


class OpenSource(Protocol):
    def __call__(self, connection: Connection | None) -> AbstractContextManager[SourcePorts]: ...


class OpenEngine(Protocol):
    def __call__(
        self, connection: Connection | None, *, lock_timeout_seconds: float, holder: str
    ) -> AbstractContextManager[SourcePorts]: ...


class OpenBoth(Protocol):
    def __call__(
        self, connection: Connection, *, lock_timeout_seconds: float, holder: str, target: str | None
    ) -> AbstractContextManager[tuple[SourcePorts, SinkPorts]]: ...


class OpenSink(Protocol):
    def __call__(
        self, connection: Connection, *, lock_timeout_seconds: float, holder: str, target: str | None
    ) -> AbstractContextManager[SinkPorts]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLock:
    """How long to wait for an embedded engine's lock, and what a waiting process is told about us.

    A second process that loads the same `target` is refused at once. `target` None = nothing is loaded.
    """

    timeout_seconds: float
    holder: str
    target: str | None = None


@contextmanager
def open_source(
    connector: ConnectorType, connection: Connection | None, lock: SinkLock | None = None
) -> Iterator[SourcePorts]:
    """Opens the reading side. `lock` matters to an embedded engine only: how long to wait for it, and who asks."""
    opener = _opener(connector, "open_source")
    if lock is None or engine_of(connector, connection) is None:
        opening = cast(OpenSource, opener)(connection)
    else:
        opening = cast(OpenEngine, opener)(connection, lock_timeout_seconds=lock.timeout_seconds, holder=lock.holder)
    with opening as ports:
        yield ports


@contextmanager
def open_source_and_sink(
    source: tuple[ConnectorType, Connection], sink: tuple[ConnectorType, Connection], lock: SinkLock
) -> Iterator[tuple[SourcePorts, SinkPorts]]:
    """Opens both sides of a load; one embedded engine serves both where they are one database."""
    if is_one_engine(source, sink):
        opened = cast(OpenBoth, _opener(sink[0], "open_source_and_sink"))
        with opened(sink[1], lock_timeout_seconds=lock.timeout_seconds, holder=lock.holder, target=lock.target) as both:
            yield both
        return
    with open_source(*source, lock) as source_ports, open_sink(*sink, lock) as sink_ports:
        yield source_ports, sink_ports


def reader_opener(
    connector: ConnectorType, connection: Connection, opened: SourcePorts
) -> Callable[[], AbstractContextManager[SourcePorts]]:
    """Returns what opens one more session of a source; `opened` itself where an embedded engine is opened once."""
    if engine_of(connector, connection) is not None:
        return lambda: nullcontext(opened)
    return partial(open_source, connector, connection)


def engine_of(connector: ConnectorType, connection: Connection | None) -> EngineScope | None:
    """Returns the scope of the embedded engine this connection opens; None for a server or plain files."""
    traits = descriptor_of(connector).source
    return traits.engine if traits is not None and connection is not None and is_embedded(connection) else None


def is_one_engine(source: tuple[ConnectorType, Connection], sink: tuple[ConnectorType, Connection]) -> bool:
    """Whether both connections are one embedded database."""
    return source[0] is sink[0] and engine_of(*source) is not None and _same_path(source[1], sink[1])


def require_one_engine(source: tuple[ConnectorType, Connection], sink: tuple[ConnectorType, Connection]) -> None:
    """Raises ETLConfigurationError for two databases of an engine that opens one directory per process."""
    if source[0] is not sink[0] or EngineScope.PROCESS not in (engine_of(*source), engine_of(*sink)):
        return
    if is_embedded(source[1]) and is_embedded(sink[1]) and not _same_path(source[1], sink[1]):
        raise ETLConfigurationError(
            f"connections '{source[1].ref}' and '{sink[1].ref}' are two embedded {source[0]} directories, and a process"
            " can open one only",
            code="DPONE_EMBEDDED_ENGINE_CONFLICT",
            fix="keep both databases in one directory, serve one of them, or go through files in between",
        )


def _same_path(first: Connection, second: Connection) -> bool:
    """Compares real paths; a relative one is below the working directory, as the engines take it."""
    paths = [os.path.realpath(connection.uri.partition("://")[2].removeprefix("/")) for connection in (first, second)]
    return paths[0] == paths[1]


@contextmanager
def open_sink(connector: ConnectorType, connection: Connection, lock: SinkLock) -> Iterator[SinkPorts]:
    """Opens the writing side."""
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
    if is_embedded(connection) and not connection.uri.partition("://")[2].startswith("/"):
        raise ETLConfigurationError(
            f"connection '{connection.ref}' needs three slashes before a relative path and four before an absolute one",
            code="connection_uri_invalid",
            fix=f"write {connection.scheme}:///relative/path or {connection.scheme}:////absolute/path",
        )


def require_address(connector: ConnectorType, connection: Connection) -> None:
    """Raises ETLConfigurationError `connection_uri_invalid` for a URI that its driver would refuse; connects to
    nothing. To be called where the driver is installed."""
    try:
        if is_embedded(connection):
            importlib.import_module("dpone_core.connectors._sql.embedded").embedded_path(connection)
        else:
            importlib.import_module(f"dpone_core.connectors.{connector.value}.address").require_address(connection)
    except ConnectorError as error:
        raise ETLConfigurationError(error.message, code=error.code, fix=error.fix or "correct where it is set") from (
            error
        )


def require_source_lock(connector: ConnectorType, connection: Connection, *, is_written: bool) -> None:
    """Raises EngineLockError for an engine whose lock this process takes and cannot write.

    An engine that is opened once a process is locked to be read; a file only where `is_written`, which hooks do. A
    database that does not exist is left to opening it.
    """
    scope = engine_of(connector, connection)
    is_locked = scope is EngineScope.PROCESS or (scope is EngineScope.FILE and is_written)
    if is_locked and Path(connection.uri.partition("://")[2].removeprefix("/")).exists():
        _require_lock("source", connection)


def require_sink_lock(connection: Connection) -> None:
    """Raises EngineLockError for an embedded sink whose lock cannot be written; nothing for a server."""
    if is_embedded(connection):
        _require_lock("sink", connection)


def _require_lock(role: str, connection: Connection) -> None:
    try:
        importlib.import_module("dpone_core.connectors._sql.embedded").probe_lock(connection)
    except OSError as error:
        raise EngineLockError(
            f"the lock beside the database of {role} '{connection.ref}' cannot be written:"
            f" {error.strerror or type(error).__name__}",
            fix="let this user write into the directory of the database, and its .dpone-lock file if there is one",
        ) from error


def require_extra(connector: ConnectorType, connection: Connection | None) -> None:
    """Raises ExtraMissingError when a library this connection needs is not importable; imports nothing heavy."""
    descriptor = descriptor_of(connector)
    needed, extra, embedded = descriptor.libraries, descriptor.extra, descriptor.embedded
    if embedded is not None and connection is not None and connection.scheme in embedded.uri_schemes:
        needed, extra = (*needed, *embedded.libraries), embedded.extra or extra
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise ExtraMissingError(
            f"connector '{connector}' needs {', '.join(missing)}",
            fix=f"install it from a checkout or wheel: pip install '.[{extra}]'",
        )


def require_duckdb(what: str) -> None:
    """Raises ExtraMissingError, naming `what`, unless DuckDB is there, which judges Arrow batches of any sink."""
    if importlib.util.find_spec("duckdb") is None:
        raise ExtraMissingError(
            f"{what} needs duckdb", fix="install it from a checkout or wheel: pip install '.[duckdb]'"
        )


def _opener(connector: ConnectorType, name: str) -> object:
    return getattr(importlib.import_module(f"dpone_core.connectors.{connector.value}.open"), name)
