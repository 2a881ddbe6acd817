"""A hook: a typed action around the load, with id, kind, dependencies, lineage and execution mode (S1 "Hook API")."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpone_core.model.sql import SqlText
from dpone_core.model.vocabulary import AirflowExecution, HookConnector, HookKind, HookPhase, HookRetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class HookLineage:
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HookDefinition:
    """Ids are unique inside a phase; `depends_on` names hooks of the same phase."""

    id: str
    phase: HookPhase
    kind: HookKind
    connector: HookConnector
    sql: SqlText
    autocommit: bool = True
    mutates_source: bool = False
    retry_policy: HookRetryPolicy = HookRetryPolicy.DEFAULT
    depends_on: tuple[str, ...] = ()
    lineage: HookLineage = field(default_factory=HookLineage)
    airflow: AirflowExecution = AirflowExecution.INLINE

    @property
    def sql_hash(self) -> str:
        return self.sql.sql_hash
