"""Opens files below a base directory, as a source or, behind our own lock, as a sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpone_core.connectors._sql.embedded import embedded_path, exclusive_lock
from dpone_core.connectors.files.sink.control import FilesControlTables
from dpone_core.connectors.files.sink.load import FilesLoad
from dpone_core.connectors.files.sink.rules import FilesRules
from dpone_core.connectors.files.sink.target import FilesTarget
from dpone_core.connectors.files.source.formats import FilesSource
from dpone_core.connectors.files.source.parquet import ParquetSource
from dpone_core.connectors.files.source.ranges import FilesRanges
from dpone_core.model.connection import Connection
from dpone_core.ports.session import SinkPorts, SourcePorts

from .probe import SourceMetricProbe, TargetMetricProbe


@contextmanager
def open_source(connection: Connection | None) -> Iterator[SourcePorts]:
    """`file:///relative` or `file:////absolute` is the base of relative paths; None = the working directory."""
    base = Path(embedded_path(connection)) if connection is not None else Path()
    source = FilesSource(base)
    yield SourcePorts(
        source=source,
        metrics=SourceMetricProbe(source),
        statements=None,
        ranges=FilesRanges(ParquetSource(base)),
    )


@contextmanager
def open_sink(
    connection: Connection, *, lock_timeout_seconds: float, holder: str = "dpone", target: str | None = None
) -> Iterator[SinkPorts]:
    """`file:///relative` or `file:////absolute`; one process at a time writes below a base directory.

    Raises as `exclusive_lock` does.
    """
    base = Path(embedded_path(connection)).absolute()
    with exclusive_lock(str(base), timeout_seconds=lock_timeout_seconds, holder=holder, target=target):
        yield ports_of(base)


def ports_of(base: Path) -> SinkPorts:
    target, load = FilesTarget(base), FilesLoad(base)
    return SinkPorts(
        staged=None,
        legacy=load,
        target=target,
        revocation=target,
        metrics=TargetMetricProbe(base),
        control=FilesControlTables(base),
        statements=None,
        rules=FilesRules(load),
    )
