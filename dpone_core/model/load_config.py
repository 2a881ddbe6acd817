"""One process, fully resolved from its manifest: defaults merged, selectors applied, SQL files read. No secrets.

`quality` stays the resolved authored mapping (caller-owned in direct Python use) so that a change between validation
and the mutation of the target can be detected (SNAP-11).
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
from dpone_core.model.read_window import WindowValues
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
    """A table. `schema` is the engine's namespace (the database on ClickHouse); None means the connector's default."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalConfig:
    """The cursor of an incremental load. `cursor_column` names a column of the extracted rows and is never an
    expression.
    """

    cursor_column: str
    lookback: timedelta = timedelta()


class CheckpointsType(StrEnum):
    """Where native transfer keeps its checkpoints: control tables of the sink, or files in the evidence directory."""

    SINK = "sink"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitioningConfig:
    """Native transfer: the values of `column` are split into `num_partitions` ranges, of which `workers` are read at a
    time.

    `lower` and `upper` are authored bounds as text; None means that the source is asked for them. With `mapped` a
    compiled run-spec gives each range an Airflow task of its own.
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
    """Where rows come from; exactly one of `table`, `query` and `path` is set.

    With `visible_rows` a policy of the source may hide rows from the role; without it that is an error.
    """

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
    visible_rows: bool = False

    @property
    def dataset(self) -> str:
        """Name of this source in evidence: its table, or a hash of its query or path; never SQL or a path."""
        if self.query is not None:
            return self.query.sql_hash
        if self.table is not None:
            return str(self.table)
        return f"{self.format}:{fingerprint(self.path)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyConfig:
    """How the target changes. With `allow_empty` a partition_replace that read no rows succeeds and replaces
    nothing.
    """

    mode: StrategyMode
    unique_key: tuple[str, ...] = ()
    allow_empty: bool = False


class RowIdentityMode(StrEnum):
    """`auto` writes a row id wherever a unique key allows it; `off` writes none."""

    AUTO = "auto"
    OFF = "off"


class UnsupportedPolicy(StrEnum):
    """What happens when a row id is requested and no unique key makes it deterministic."""

    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageConfig:
    """Which technical columns are requested."""

    enabled: bool = False
    preset: LineagePreset = LineagePreset.OFF
    row_identity: RowIdentityMode = RowIdentityMode.AUTO
    unsupported_policy: UnsupportedPolicy = UnsupportedPolicy.WARN


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceConfig:
    """What is recorded about a load. `audit` False stops the audit tables only, never gates or acceptance."""

    audit: bool = True
    state_schema: str = "etl_state"
    finalization_phase: FinalizationPhase | None = None
    persist_decisions: bool = True
    window_values: WindowValues = WindowValues.SHOW


class PartitionGranularity(StrEnum):
    """Whether a partition holds one value of its column, or one day, month or year."""

    VALUE = "value"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBy:
    """Column and granularity that decide which rows of a target form a partition."""

    column: str
    granularity: PartitionGranularity = PartitionGranularity.VALUE


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalDesign:
    """Storage of a target that dpone creates; an existing target is never changed to match.

    `file_format` (parquet, csv or ndjson) belongs to file targets only.
    """

    order_by: tuple[str, ...] = ()
    partition_by: PartitionBy | None = None
    cluster: str | None = None
    file_format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConfig:
    """Where rows go, by which strategy, and what is recorded with them."""

    type: ConnectorType
    table: TableName
    strategy: StrategyConfig
    connection_ref: str | None = None
    staging_schema: str | None = None
    lineage: LineageConfig = field(default_factory=LineageConfig)
    governance: GovernanceConfig = field(default_factory=GovernanceConfig)
    physical_design: PhysicalDesign = field(default_factory=PhysicalDesign)
    schema_evolution: SchemaEvolution = SchemaEvolution.REFUSE
    target_defaults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadConfig:
    """One process of a manifest, ready to plan. `manifest` is the name shown in reports and is never an absolute path.

    `connections` holds only URIs of embedded engines without credentials, which a manifest may state itself.
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
        """Hooks of one phase in authored order."""
        return tuple(hook for hook in self.hooks if hook.phase is phase)
