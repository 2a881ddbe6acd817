"""`sink`: where rows go, how they become visible, and what is recorded beside them (S1 "Native load governance")."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import ConfigDict, Field, JsonValue

from dpone_core.authoring.names import ColumnNames, ConnectionRef, QuotableName
from dpone_core.authoring.section import Section
from dpone_core.authoring.source import TableSection
from dpone_core.model.connector import ConnectorType
from dpone_core.model.load_config import PartitionGranularity, RowIdentityMode, UnsupportedPolicy
from dpone_core.model.vocabulary import FinalizationPhase, LineagePreset, SchemaEvolution, StrategyMode


def _phase(name: str) -> dict[str, JsonValue]:
    governance: JsonValue = {"properties": {"finalization_phase": {"const": name}}}
    return {"properties": {"load_governance": governance}}


SinkType = Literal[
    ConnectorType.CLICKHOUSE,
    ConnectorType.DUCKDB,
    ConnectorType.POSTGRES,
    ConnectorType.MSSQL,
    ConnectorType.FILES,
]
_TYPE_RULES: Final[dict[str, JsonValue]] = {
    "allOf": [
        {
            "if": {"properties": {"type": {"const": "clickhouse"}}},
            "else": {"properties": {"options": {"properties": {"physical_design": False}}}},
        },
        {
            "if": {"properties": {"type": {"const": "files"}}},
            "then": {"properties": {"staging": False, "options": _phase("legacy_post_finalize")}},
            "else": {"properties": {"options": _phase("pre_finalize")}},
        },
        {
            "if": {"properties": {"type": {"const": "files"}}},
            "else": {"properties": {"options": {"properties": {"files": False}}}},
        },
    ]
}


class StrategySection(Section):
    """How new rows change the target."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"mode": {"const": "incremental_merge"}}, "required": ["mode"]},
            "then": {"required": ["unique_key"]},
        }
    )

    mode: StrategyMode
    """full_refresh replaces, incremental_append adds, incremental_merge upserts, partition_replace swaps partitions."""
    unique_key: ColumnNames | None = None
    """Columns that identify a row; needed by incremental_merge and by lineage row ids."""


class RowIdentitySection(Section):
    """Whether rows get a deterministic `__dpone__row_id`."""

    mode: RowIdentityMode = RowIdentityMode.AUTO
    """`auto` writes row ids where a unique_key allows it."""
    unsupported_policy: UnsupportedPolicy = UnsupportedPolicy.WARN
    """What happens where a row id cannot be deterministic."""


class LineageSection(Section):
    """Technical `__dpone__*` columns in the target."""

    enabled: bool
    """Whether lineage columns are written."""
    preset: LineagePreset = LineagePreset.STANDARD
    """Which columns are written."""
    row_identity: RowIdentitySection = RowIdentitySection()
    """Deterministic row ids."""


class AuditSection(Section):
    """The tables `__dpone__loads` and `__dpone__load_steps`."""

    enabled: bool = True
    """False opts out of audit tables; gates and acceptance are not affected."""
    mode: Literal["off", "standard"] = "standard"
    """`off` opts out as `enabled: false` does."""
    state_schema: QuotableName = "etl_state"
    """Namespace of audit and state tables in the sink."""


class DecisionAuditSection(Section):
    """Rows for automatic decisions."""

    persist: bool = True
    """Whether every automatic or fallback decision becomes an audit row."""


class LoadGovernanceSection(Section):
    """What is recorded of a load. Switching it off stops audit tables only."""

    enabled: bool = True
    """False stops audit tables."""
    finalization_phase: FinalizationPhase | None = None
    """States the expected phase; it must agree with the sink's load path."""
    audit: AuditSection = AuditSection()
    """Audit tables."""
    decision_audit: DecisionAuditSection = DecisionAuditSection()
    """Rows for automatic decisions."""

    @property
    def audits(self) -> bool:
        return self.enabled and self.audit.enabled and self.audit.mode != "off"


class PartitionBySection(Section):
    """Partition key of a target that dpone creates."""

    column: QuotableName
    """Column the target is partitioned by."""
    granularity: PartitionGranularity = PartitionGranularity.VALUE
    """One partition per value, or per day, month or year of a date."""


class ClickHouseStorageSection(Section):
    """ClickHouse storage."""

    cluster: QuotableName
    """Cluster of every DDL statement (ON CLUSTER)."""


class StorageSection(Section):
    """Storage by engine."""

    clickhouse: ClickHouseStorageSection | None = None
    """ClickHouse storage."""


class PhysicalDesignSection(Section):
    """Storage of a target that dpone creates; an existing target is never altered to match."""

    order_by: ColumnNames | None = None
    """Sorting key."""
    partition_by: PartitionBySection | None = None
    """Partition key."""
    storage: StorageSection = StorageSection()
    """Storage by engine."""


class NormalizationSection(Section):
    """Nested columns as child tables."""

    enabled: bool
    """Whether nested columns are normalised."""


DEFAULT_FILE_FORMAT: Final = "parquet"


class FilesSection(Section):
    """Files of a target of type files."""

    format: Literal["parquet", "csv", "ndjson"]
    """File format. In CSV `\\N` without quotes is NULL and text is always quoted; NDJSON writes decimals as text."""


class StagingSection(Section):
    """Where staging, shadow and backup tables live."""

    schema_name: QuotableName = Field(alias="schema")
    """Namespace of managed artifacts; beside the target unless given."""


class SinkOptionsSection(Section):
    """How rows are written and recorded."""

    lineage: LineageSection | None = None
    """Technical columns; none unless given."""
    load_governance: LoadGovernanceSection = LoadGovernanceSection()
    """What is recorded of a load."""
    physical_design: PhysicalDesignSection | None = None
    """Storage of a ClickHouse target that dpone creates."""
    files: FilesSection | None = None
    """Files of a target of type files; Parquet unless given."""
    schema_evolution: SchemaEvolution = SchemaEvolution.REFUSE
    """`add_columns` adds nullable columns; nothing ever narrows or drops one."""
    normalization: NormalizationSection | None = None
    """Nested columns as child tables."""


class SinkSection(Section):
    """Where rows go."""

    model_config = ConfigDict(json_schema_extra=_TYPE_RULES)

    type: SinkType
    """Kind of system. `files` has no staging and commits by its own write."""
    connection_ref: ConnectionRef
    """Name of the connection."""
    table: TableSection
    """Target table."""
    staging: StagingSection | None = None
    """Where staging artifacts live."""
    strategy: StrategySection
    """How new rows change the target."""
    options: SinkOptionsSection = SinkOptionsSection()
    """How rows are written and recorded."""
