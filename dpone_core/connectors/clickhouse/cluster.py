"""Why a server does not take a replicated table: what it says itself of its clusters and macros."""

from __future__ import annotations

import re
from typing import Final

from dpone_core.connectors.clickhouse.session import Session
from dpone_core.errors import ConnectorError

_MACRO: Final = re.compile(r"\{([^{}]+)\}")
_BUILT_IN: Final = frozenset({"uuid", "database", "table", "server_uuid"})
_DEFAULTS: Final = (
    "SELECT value FROM system.server_settings WHERE name IN ('default_replica_path', 'default_replica_name')"
)


def cluster_refusal(session: Session, cluster: str | None, *, code: str) -> ConnectorError | None:
    """The error that names a cluster which the server does not know, or the macros that the default path and name of
    its replicas need and the server lacks; None when neither is what is wrong."""
    if cluster is None:
        return None
    known = session.rows("SELECT count() FROM system.clusters WHERE cluster = {name:String}", {"name": cluster})
    if known == [[0]]:
        return ConnectorError(
            f"the server knows no cluster {cluster!r}",
            code=code,
            fix="correct physical_design.storage.clickhouse.cluster, or define the cluster on the server",
        )
    missing = missing_macros(session)
    if not missing:
        return None
    listed = ", ".join(missing)
    return ConnectorError(
        f"the server lacks the macros that its path of replicated tables needs: {listed}",
        code=code,
        fix="define them under <macros> in the configuration of every node, or set default_replica_path without them",
    )


def missing_macros(session: Session) -> tuple[str, ...]:
    """Macros of the server's default replica path and name that `system.macros` does not list."""
    paths = [str(row[0]) for row in session.rows(_DEFAULTS)]
    named = dict.fromkeys(name for path in paths for name in _MACRO.findall(path))
    held = {str(row[0]) for row in session.rows("SELECT macro FROM system.macros")}
    return tuple(name for name in named if name not in held | _BUILT_IN)
