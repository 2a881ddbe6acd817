"""Takes earlier loads the tables they publish from: the fence of ClickHouse, whose statements cannot check a lease.

A publication is one statement that names the staging or the shadow table of its load. Once these have other names, a
load that wakes up behind its successor is refused by the server. Staging goes first: a shadow that is not finished by
then never will be. A statement that had found its table before is waited for. All tables are kept, so that
`ClickHousePublications` still finds out what their load did. An embedded engine has one process and needs none of it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from dpone_core.connectors._sql.text import literal_backslash
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import ASIDE, SCRATCH, SHADOW, STAGING, LoadRef, artifact_name, artifact_prefix
from dpone_core.model.load_config import TableName

from .catalog import facts_of, table_names
from .ddl import Ddl
from .session import Session

WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1


class ClickHouseRevocation:
    """RevocationPort over one session; `wait_seconds` bounds the wait for the statements of earlier loads."""

    def __init__(self, session: Session, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._session = session
        self._wait_seconds = wait_seconds

    def revoke(self, ref: LoadRef, keep: frozenset[str]) -> tuple[str, ...]:
        if self._session.embedded:
            return ()
        target = self._session.resolve(ref.target)
        schema, ddl = ref.staging_schema or target.schema or "", Ddl(ref.cluster)
        taken: list[str] = []
        for role, aside in ((STAGING, SCRATCH), (SHADOW, ASIDE)):
            prefix, own = artifact_prefix(target, role), artifact_name(target, ref.identity, role)
            for name in table_names(self._session, schema):
                if name.startswith(prefix) and name != own and name not in keep:
                    renamed = artifact_prefix(target, aside) + name.removeprefix(prefix)
                    self._rename(ddl, TableName(schema=schema, name=name), TableName(schema=schema, name=renamed))
                    taken.append(name)
        wait_for_statements(self._session, taken, ref.cluster, self._wait_seconds)
        return tuple(taken)

    def _rename(self, ddl: Ddl, table: TableName, to: TableName) -> None:
        """A table that is gone by now was published or dropped by its own load."""
        try:
            for statement in (ddl.drop(to), ddl.rename(table, to)):
                self._session.command(statement, message="ClickHouse did not take the staging of an earlier load away")
        except ConnectorError:
            if facts_of(self._session, table) is not None:
                raise


def wait_for_statements(session: Session, tables: Sequence[str], cluster: str | None, seconds: float) -> None:
    """Waits until no statement runs that may publish from one of these tables, by the names it was sent with.

    Raises ConnectorError `load_in_progress` after `seconds`. On a cluster all replicas are asked."""
    if not tables:
        return
    deadline = time.monotonic() + seconds
    listed = ", ".join(map(literal_backslash, tables))
    processes = "system.processes"
    if cluster is not None:
        processes = f"clusterAllReplicas({literal_backslash(cluster)}, {processes})"
    running = (
        f"SELECT count() FROM {processes} WHERE multiSearchAny(query, [{listed}])"
        " AND match(query, '^(/[*].*[*]/ *)?(ALTER|RENAME|EXCHANGE) ')"
    )
    while int(session.rows(running)[0][0]):
        if time.monotonic() >= deadline:
            raise ConnectorError(
                "a statement of an earlier load of this target is still running",
                code="load_in_progress",
                fix="wait until it has ended, then run again",
            )
        time.sleep(_POLL_SECONDS)
