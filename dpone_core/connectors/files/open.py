"""Opens files below a base directory as a source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpone_core.connectors._sql.embedded import embedded_path
from dpone_core.model.connection import Connection
from dpone_core.ports.session import SourcePorts

from .probe import ParquetMetricProbe
from .reader import ParquetSource


@contextmanager
def open_source(connection: Connection | None) -> Iterator[SourcePorts]:
    """`file:///relative` or `file:////absolute` is the base of relative paths; None = the working directory."""
    base = Path(embedded_path(connection)) if connection is not None else Path()
    source = ParquetSource(base)
    yield SourcePorts(source=source, metrics=ParquetMetricProbe(source), statements=None)
