"""Opens a DuckDB file as a sink, behind our own lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dpone_core.connectors._sql.embedded import embedded_path, exclusive_lock
from dpone_core.model.connection import Connection
from dpone_core.ports.session import SinkPorts

from .control import DuckDbControlTables
from .database import Database
from .probe import DuckDbMetricProbe
from .publications import DuckDbPublications
from .staged_rows import DuckDbStagedRows
from .staging import DuckDbStaging
from .statements import DuckDbStatements
from .target import DuckDbTarget


@contextmanager
def open_sink(
    connection: Connection, *, lock_timeout_seconds: float, holder: str = "dpone", target: str | None = None
) -> Iterator[SinkPorts]:
    """`duckdb:///relative` or `duckdb:////absolute`; raises as `exclusive_lock` does."""
    path = str(Path(embedded_path(connection)).absolute())
    with ExitStack() as stack:
        stack.enter_context(exclusive_lock(path, timeout_seconds=lock_timeout_seconds, holder=holder, target=target))
        database = Database(path)
        stack.callback(database.close)
        yield ports_of(database)


def ports_of(database: Database) -> SinkPorts:
    return SinkPorts(
        staged=DuckDbStaging(database),
        target=DuckDbTarget(database),
        metrics=DuckDbMetricProbe(database),
        control=DuckDbControlTables(database),
        statements=DuckDbStatements(database),
        staged_rows=DuckDbStagedRows(database),
        publications=DuckDbPublications(database),
    )
