"""One process, fully resolved from its manifest: defaults merged, selectors applied, SQL files read. No secrets.

`quality` stays the resolved authored mapping (caller-owned in direct Python use) so that drift between validation
and mutation can really happen and be caught (SNAP-11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from dpone_core.model.connector import ConnectorType
from dpone_core.model.file_reading import FileReading
from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.hook import HookDefinition
from dpone_core.model.special_values import SpecialValueRule
from dpone_core.model.sql import SqlText
from dpone_core.model.vocabulary import (
    FinalizationPhase,
    HookPhase,
    LineagePreset,
    SchemaEvolution,
    StateType,
    StrategyMode,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """`schema` is the engine's namespace (database on ClickHouse); None means the connector's default."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalConfig:
    """`cursor_column` is a column name of the extracted rows, never an expression."""

    cursor_column: str
    lookback: timedelta = timedelta()


class CheckpointsType(StrEnum):
    """Where native transfer keeps its checkpoints: control tables of the sink, or files in the evidence directory."""

    SINK = "sink"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitioningConfig:
    """Native transfer: `column` is split into `num_partitions` ranges, `workers` of them are read at a time.

    `lower` and `upper` are given bounds as text, None = the source is asked. `mapped`: compiled for Airflow, each range
    is a task of its own.
    """

    column: str
    num_partitions: int
    workers: int = 1
    lower: str | None = None
    upper: str | None = None
    checkpoints: CheckpointsType = CheckpointsType.SINK
    mapped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """Exactly one of `table`, `query`, `path` is set."""

    type: ConnectorType
    connection_ref: str | None = None
    table: TableName | None = None
    query: SqlText | None = None
    path: str | None = None
    format: str | None = None
    reading: FileReading = field(default_factory=FileReading)
    incremental: IncrementalConfig | None = None
    partitioning: PartitioningConfig | None = None
    special_values: tuple[SpecialValueRule, ...] = ()

    @property
    def dataset(self) -> str:
        """What evidence calls this source: a query by its hash, files by their format, never SQL or a path."""
        if self.query is not None:
            return self.query.sql_hash
        if self.table is not None:
            return str(self.table)
        return f"{self.format}:{fingerprint(self.path)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyConfig:
    """`allow_empty` accepts that a partition_replace without rows replaces nothing."""

    mode: StrategyMode
    unique_key: tuple[str, ...] = ()
    allow_empty: bool = False


class RowIdentityMode(StrEnum):
    AUTO = "auto"
    OFF = "off"


class UnsupportedPolicy(StrEnum):
    """What happens when a row id is asked for and cannot be deterministic."""

    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageConfig:
    enabled: bool = False
    preset: LineagePreset = LineagePreset.OFF
    row_identity: RowIdentityMode = RowIdentityMode.AUTO
    unsupported_policy: UnsupportedPolicy = UnsupportedPolicy.WARN


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceConfig:
    """`audit` off stops audit tables only, never gates or acceptance."""

    audit: bool = True
    state_schema: str = "etl_state"
    finalization_phase: FinalizationPhase | None = None
    persist_decisions: bool = True


class PartitionGranularity(StrEnum):
    VALUE = "value"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBy:
    column: str
    granularity: PartitionGranularity = PartitionGranularity.VALUE


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalDesign:
    """Storage of a target that dpone creates; an existing target is never altered to match.

    `file_format` belongs to file targets only: parquet, csv or ndjson.
    """

    order_by: tuple[str, ...] = ()
    partition_by: PartitionBy | None = None
    cluster: str | None = None
    file_format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConfig:
    type: ConnectorType
    table: TableName
    strategy: StrategyConfig
    connection_ref: str | None = None
    staging_schema: str | None = None
    lineage: LineageConfig = field(default_factory=LineageConfig)
    governance: GovernanceConfig = field(default_factory=GovernanceConfig)
    physical_design: PhysicalDesign = field(default_factory=PhysicalDesign)
    schema_evolution: SchemaEvolution = SchemaEvolution.REFUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadConfig:
    """`manifest` is the name reports show (as given relative, or a basename, never absolute).

    `connections` holds only credential-free embedded URIs that the manifest itself may state.
    """

    process: str
    manifest: str
    source: SourceConfig
    sink: SinkConfig
    hooks: tuple[HookDefinition, ...] = ()
    quality: Mapping[str, object] = field(default_factory=dict)
    state: StateType = StateType.DISABLED
    connections: Mapping[str, str] = field(default_factory=dict)

    def hooks_of(self, phase: HookPhase) -> tuple[HookDefinition, ...]:
        return tuple(hook for hook in self.hooks if hook.phase is phase)
