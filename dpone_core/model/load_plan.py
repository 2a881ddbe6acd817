"""What one load will do, decided offline from the manifest and the connectors' declarations. The run follows it
unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpone_core.model.artifacts import LoadRef
from dpone_core.model.connector import ConnectorType, Finaliser
from dpone_core.model.decision import RuntimeDecision
from dpone_core.model.hook import HookDefinition
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import IncrementalConfig, PartitioningConfig, PhysicalDesign, TableName
from dpone_core.model.special_values import SpecialValueRule
from dpone_core.model.table_schema import Column
from dpone_core.model.vocabulary import (
    FinalizationPhase,
    LoadPath,
    SchemaEvolution,
    Side,
    StateType,
    StrategyMode,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlan:
    """How the source is read. `dataset` is its name in evidence: a table name or a hash, never SQL. `columns` are those
    that the manifest declares, none for a source that names its own."""

    type: ConnectorType
    connection_ref: str | None
    dataset: str
    reader: str
    has_metric_probe: bool
    incremental: IncrementalConfig | None
    partitioning: PartitioningConfig | None = None
    special_values: tuple[SpecialValueRule, ...] = ()
    columns: tuple[Column, ...] = ()
    visible_rows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPlan:
    """One dataset to publish. `staging_name` is the name of its staging table with `{load}` in place of the load's
    hash.

    `staging_schema` and `staging_name` are None on the legacy path, which has no staging. `default_schema` applies when
    the table names no schema. `order_by` is the sorting key of a target that the load creates.
    """

    type: ConnectorType
    connection_ref: str | None
    table: TableName
    staging_schema: str | None
    staging_name: str | None
    strategy: StrategyMode
    unique_key: tuple[str, ...]
    finaliser: Finaliser
    physical_design: PhysicalDesign
    schema_evolution: SchemaEvolution
    lineage_columns: tuple[str, ...]
    has_metric_probe: bool
    memory_limit_bytes: int | None
    allow_empty: bool = False
    default_schema: str = ""
    order_by: tuple[str, ...] = ()
    max_columns: int | None = None
    defaults: tuple[str, ...] = ()

    def ref(self, identity: LoadIdentity) -> LoadRef:
        """Finds any load of this target, also one of a process that has died."""
        return LoadRef(
            identity=identity,
            target=self.table,
            staging_schema=self.staging_schema,
            cluster=self.physical_design.cluster,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The plan of one process. Hooks are in execution order; `targets` has exactly one entry."""

    process: str
    manifest: str
    load_path: LoadPath
    finalization_phase: FinalizationPhase
    source: SourcePlan
    targets: tuple[TargetPlan, ...]
    pre_hooks: tuple[HookDefinition, ...]
    post_hooks: tuple[HookDefinition, ...]
    state: StateType
    audit_schema: str | None
    decisions: tuple[RuntimeDecision, ...]
    warnings: tuple[str, ...]

    @property
    def physical_sides(self) -> tuple[Side, ...]:
        """Datasets that exist on this load path: source, staged, target, or a part of them."""
        return self.load_path.physical_sides

    @property
    def target(self) -> TargetPlan:
        """The only target."""
        (only,) = self.targets
        return only
