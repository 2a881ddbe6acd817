"""A hook: one action before or after a load, with its id, kind, dependencies, lineage and execution mode (HOOK-06).

Also here: what a hook provider declares about its hook type, that is its options and its results.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.sql import SqlText
from dpone_core.model.vocabulary import AirflowExecution, HookConnector, HookKind, HookPhase, HookRetryPolicy

HookScalar = str | int | bool
SQL_TYPE: Final = "sql"
_ID: Final = re.compile(r"[a-z0-9][a-z0-9_]{0,63}")


class ScalarKind(StrEnum):
    """Types that an option or a result of a hook may have."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"

    def holds(self, value: object) -> bool:
        """Whether the value is exactly of this type: a boolean is no integer."""
        return type(value) is {"text": str, "integer": int, "boolean": bool}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOption:
    """One authored option. `minimum` and `maximum` bound integers, both included."""

    name: str
    kind: ScalarKind
    required: bool = False
    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTraits:
    """What a provider declares about its hook type. An option that is not declared is refused at check.

    `results` names the values of the provider's answer that evidence keeps; all others are dropped.
    """

    type: str
    options: tuple[HookOption, ...] = ()
    results: Mapping[str, ScalarKind] = field(default_factory=dict)
    needs_connection: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HookLineage:
    """Datasets a hook reads and writes, as authored."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HookDefinition:
    """One hook of a process. Ids are unique inside a phase; `depends_on` names hooks of the same phase.

    `sql` is set for type `sql` only, which runs on the connection of the side named by `connector`. Other types may
    have `options` and a `connection_ref` of their own. `maintains` says that the SQL is one known maintenance
    statement; the plan sets it.
    """

    id: str
    phase: HookPhase
    kind: HookKind
    connector: HookConnector = HookConnector.SOURCE
    sql: SqlText | None = None
    type: str = SQL_TYPE
    options: Mapping[str, HookScalar] = field(default_factory=dict)
    connection_ref: str | None = None
    autocommit: bool = True
    mutates_source: bool = False
    maintains: bool = False
    retry_policy: HookRetryPolicy = HookRetryPolicy.DEFAULT
    depends_on: tuple[str, ...] = ()
    lineage: HookLineage = field(default_factory=HookLineage)
    airflow: AirflowExecution = AirflowExecution.INLINE

    def __post_init__(self) -> None:
        """Raises ValueError for an id that cannot be part of a file name and a step id."""
        if _ID.fullmatch(self.id) is None:
            raise ValueError("a hook id must have 1 to 64 lower-case letters, digits and underscores, no leading '_'")

    @property
    def runs_read_only(self) -> bool:
        """Whether the SQL runs in the engine's read-only mode: nothing declares that it changes something (HOOK-31)."""
        return not (self.mutates_source or self.maintains)

    @property
    def writes_source(self) -> bool:
        """Whether its SQL runs on the source and above the read-only mode."""
        return self.type == SQL_TYPE and self.connector is HookConnector.SOURCE and not self.runs_read_only

    @property
    def sql_hash(self) -> str | None:
        """Hash of the SQL text; None for types without SQL."""
        return self.sql.sql_hash if self.sql is not None else None

    @property
    def action_identity(self) -> dict[str, object]:
        """What evidence stores to identify the action: `sql_hash` for SQL, otherwise the type and a hash over type,
        options and connection.
        """
        if self.sql is not None:
            return {"sql_hash": self.sql.sql_hash}
        action = {"type": self.type, "options": dict(self.options), "connection_ref": self.connection_ref}
        return {"type": self.type, "action_hash": fingerprint(action)}
