"""`sink`: where rows go, how they become visible, and what is recorded beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import ConfigDict, Field, JsonValue

from dpone_core.authoring.names import ColumnNames, ConnectionRef, QuotableName
from dpone_core.authoring.section import Section
from dpone_core.authoring.source import TableSection, type_is
from dpone_core.declared.registry import (
    DEFAULTING_SINKS,
    DESIGNED_SINKS,
    FILE_SINKS,
    KEYED_SINKS,
    LEGACY_SINKS,
    SINK_TYPES,
)
from dpone_core.model.connector import ConnectorType
from dpone_core.model.load_config import PartitionGranularity, RowIdentityMode, UnsupportedPolicy
from dpone_core.model.read_window import WindowValues
from dpone_core.model.vocabulary import FinalizationPhase, LineagePreset, SchemaEvolution, StrategyMode


def _phase(name: str) -> dict[str, JsonValue]:
    governance: JsonValue = {"properties": {"finalization_phase": {"const": name}}}
    return {"properties": {"load_governance": governance}}


def _design(schema: JsonValue) -> dict[str, JsonValue]:
    return {"properties": {"options": {"properties": {"physical_design": schema}}}}


_REPLACES: Final[JsonValue] = {"properties": {"mode": {"const": "partition_replace"}}, "required": ["mode"]}
_REFRESHES: Final[JsonValue] = {"properties": {"mode": {"const": "full_refresh"}}, "required": ["mode"]}
_KEY_ONLY: Final[JsonValue] = {"properties": {"order_by": False, "storage": {"properties": {"clickhouse": False}}}}
if TYPE_CHECKING:
    SinkType = ConnectorType
    """Of the types of connectors, those that declare a sink."""
else:
    SinkType = Literal[SINK_TYPES]
_TYPE_RULES: Final[dict[str, JsonValue]] = {
    "allOf": [
        {
            "if": {"properties": {"type": type_is(DESIGNED_SINKS)}},
            "else": {
                "if": {"properties": {"type": type_is(KEYED_SINKS), "strategy": _REPLACES}},
                "then": _design(_KEY_ONLY),
                "else": _design(False),
            },
        },
        {
            "if": {"properties": {"strategy": _REPLACES}, "required": ["strategy"]},
            "then": {
                "required": ["options"],
                "properties": {
                    "options": {
                        "required": ["physical_design"],
                        "properties": {"physical_design": {"required": ["partition_by"]}},
                    }
                },
            },
        },
        {
            "if": {"properties": {"type": type_is(DEFAULTING_SINKS), "strategy": {"not": _REFRESHES}}},
            "else": {"properties": {"options": {"properties": {"target_defaults": False}}}},
        },
        {
            "if": {"properties": {"type": type_is(LEGACY_SINKS)}},
            "then": {"properties": {"staging": False, "options": _phase("legacy_post_finalize")}},
            "else": {"properties": {"options": _phase("pre_finalize")}},
        },
        {
            "if": {"properties": {"type": type_is(FILE_SINKS)}},
            "else": {"properties": {"options": {"properties": {"files": False}}}},
        },
    ]
}


class StrategySection(Section):
    """How new rows change the target."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {
                    "if": {"properties": {"mode": {"const": "incremental_merge"}}, "required": ["mode"]},
                    "then": {"required": ["unique_key"]},
                },
                {
                    "if": {"properties": {"mode": {"const": "partition_replace"}}, "required": ["mode"]},
                    "else": {"properties": {"allow_empty": {"const": False}}},
                },
            ]
        }
    )

    mode: StrategyMode
    """full_refresh replaces, incremental_append adds, incremental_merge upserts, partition_replace swaps partitions."""
    unique_key: ColumnNames | None = None
    """Columns that identify a row; needed by incremental_merge and by lineage row ids."""
    allow_empty: bool = False
    """True lets a partition_replace without rows succeed; it replaces nothing, because no row names a partition."""


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
    window_values: WindowValues = WindowValues.SHOW
    """Whether reports of an incremental load show from which to which cursor value it has read; `hide` where these
    values are nobody else's business."""

    @property
    def audits(self) -> bool:
        return self.enabled and self.audit.enabled and self.audit.mode != "off"


class PartitionBySection(Section):
    """Which rows form a partition: the key of a target that dpone creates, and what partition_replace replaces."""

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
    """Sorting key (ClickHouse)."""
    partition_by: PartitionBySection | None = None
    """Partition key; needed by partition_replace, and outside ClickHouse only for it."""
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
    """Storage of a ClickHouse target that dpone creates, and the partition key of partition_replace on any sink."""
    files: FilesSection | None = None
    """Files of a target of type files; Parquet unless given."""
    schema_evolution: SchemaEvolution = SchemaEvolution.REFUSE
    """`add_columns` adds nullable columns; nothing ever narrows or drops one."""
    target_defaults: ColumnNames | None = None
    """Columns that the source lacks and the target fills by their DEFAULT; not under full_refresh."""
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
