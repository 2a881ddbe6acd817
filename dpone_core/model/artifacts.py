"""Names of the tables that one load creates for itself, and the marker it leaves in the comment of the published table.

A table name is `__dpone__<role>_<readable target>_<8 hex digits of the target>_<16 hex digits of run and load>`. It is
unique per load, has at most 63 ASCII bytes, which fits every engine (SINK-09), and shows no run id or load id. The load
marker is a hash for the same reason: SHOW CREATE of a target shows no load id.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import TableName

STAGING: Final = "stg"
SHADOW: Final = "shadow"
SCRATCH: Final = "scratch"
ASIDE: Final = "aside"
ROLES: Final = (STAGING, SHADOW, SCRATCH, ASIDE)

_READABLE_BYTES: Final = 20
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_]")
_MARKER: Final = re.compile(r" ?\[dpone [0-9a-f]{16}\]$")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRef:
    """Finds what one load has left in its sink, by names alone: its run-scoped objects, its marker, its rows.

    `staging_schema` None = the schema of the target. `cluster` is the one its objects were created on.
    """

    identity: LoadIdentity
    target: TableName
    staging_schema: str | None
    cluster: str | None = None


def artifact_name(target: TableName, identity: LoadIdentity, role: str) -> str:
    """Name of this load's table for `role` (one of ROLES)."""
    return f"{artifact_prefix(target, role)}{_digest(f'{identity.run_id}|{identity.load_id}', 16)}"


def load_marker(identity: LoadIdentity) -> str:
    """Text `[dpone <16 hex digits>]` that identifies one attempt in the comment of the table it published."""
    return f"[dpone {_digest(f'{identity.run_id}|{identity.load_id}|{identity.attempt}', 16)}]"


def marker_in(comment: str) -> str:
    """The load marker at the end of a table comment; an empty text when there is none."""
    found = _MARKER.search(comment)
    return found.group(0).strip() if found is not None else ""


def comment_with_marker(comment: str, marker: str) -> str:
    """The author's comment followed by `marker`; a marker of an earlier load is removed."""
    own = _MARKER.sub("", comment)
    return f"{own} {marker}" if own else marker


def artifact_prefix(target: TableName, role: str) -> str:
    """Beginning of the name of every table of this target and role, whatever the load; 16 hex digits follow."""
    readable = _UNSAFE.sub("_", target.name)[:_READABLE_BYTES]
    return f"__dpone__{role}_{readable}_{_digest(f'{target.schema}|{target.name}', 8)}_"


def _digest(text: str, characters: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:characters]
