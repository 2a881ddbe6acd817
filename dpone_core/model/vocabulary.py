"""Closed sets of words that manifests, reports and stored records share; a persisted value is never renamed.

Contract: FAIL-24.
"""

from __future__ import annotations

from enum import StrEnum


class Side(StrEnum):
    """Datasets of a load: read from, staged, published."""

    SOURCE = "source"
    STAGED = "staged"
    TARGET = "target"


class Boundary(StrEnum):
    """Where in the load an observation was made: before the commit, after it, or while a resume validates earlier
    work (RCPT-16).
    """

    PRE_COMMIT = "pre_commit"
    POST_COMMIT = "post_commit"
    RESUME_VALIDATION = "resume_validation"


class LoadPath(StrEnum):
    """How a sink publishes: `staged` by finalize after staging, `legacy` by sink.load alone, `resume` publishes
    nothing.
    """

    STAGED = "staged"
    LEGACY = "legacy"
    RESUME = "resume"

    @property
    def boundary(self) -> Boundary:
        """The boundary that a quality receipt of this path must state (RCPT-16)."""
        return _BOUNDARY_OF_PATH[self]

    @property
    def physical_sides(self) -> tuple[Side, ...]:
        """Datasets that exist on this path (ACC-12)."""
        return _SIDES_OF_PATH[self]


_BOUNDARY_OF_PATH = {
    LoadPath.STAGED: Boundary.PRE_COMMIT,
    LoadPath.LEGACY: Boundary.POST_COMMIT,
    LoadPath.RESUME: Boundary.RESUME_VALIDATION,
}
_SIDES_OF_PATH = {
    LoadPath.STAGED: (Side.SOURCE, Side.STAGED, Side.TARGET),
    LoadPath.LEGACY: (Side.SOURCE, Side.TARGET),
    LoadPath.RESUME: (Side.SOURCE, Side.TARGET),
}


class FinalizationPhase(StrEnum):
    """Whether gates run before rows become visible (`pre_finalize`) or after (`legacy_post_finalize`)."""

    PRE_FINALIZE = "pre_finalize"
    LEGACY_POST_FINALIZE = "legacy_post_finalize"


class StrategyMode(StrEnum):
    """How new rows change the target."""

    FULL_REFRESH = "full_refresh"
    INCREMENTAL_APPEND = "incremental_append"
    INCREMENTAL_MERGE = "incremental_merge"
    PARTITION_REPLACE = "partition_replace"

    @property
    def is_incremental(self) -> bool:
        """Whether the strategy reads by a cursor."""
        return self in (StrategyMode.INCREMENTAL_APPEND, StrategyMode.INCREMENTAL_MERGE)


class StateType(StrEnum):
    """Where the cursor of a source is kept."""

    SINK = "sink"
    FILE = "file"
    DISABLED = "disabled"


class HookPhase(StrEnum):
    """Whether a hook runs before extraction or after the commit."""

    PRE = "pre_hook"
    POST = "post_hook"


class HookKind(StrEnum):
    """What a hook is for."""

    SOURCE_REFRESH = "source_refresh"
    SOURCE_MATERIALIZATION = "source_materialization"
    SOURCE_MAINTENANCE = "source_maintenance"
    TARGET_PREPARATION = "target_preparation"
    TARGET_MAINTENANCE = "target_maintenance"
    DATA_QUALITY_PROBE = "data_quality_probe"
    NOTIFICATION = "notification"
    CUSTOM = "custom"


class HookConnector(StrEnum):
    """Whose connection executes a hook's SQL."""

    SOURCE = "source"
    SINK = "sink"


class HookRetryPolicy(StrEnum):
    """Whether a hook that was started may be repeated automatically."""

    NONE = "none"
    DEFAULT = "default"


class AirflowExecution(StrEnum):
    """Whether a hook runs inside the load or as an Airflow task of its own."""

    INLINE = "inline"
    SEPARATE_TASK = "separate_task"


class GateType(StrEnum):
    """Types of quality gates that a manifest can declare."""

    ROW_COUNT_RECONCILIATION = "row_count_reconciliation"
    MIN_ROWS = "min_rows"
    TYPED_HASH_RECONCILIATION = "typed_hash_reconciliation"
    CUSTOM_SQL = "custom_sql"
    NOT_NULL = "not_null"
    UNIQUE = "unique"
    FRESHNESS = "freshness"
    ACCEPTED_VALUES = "accepted_values"


class Severity(StrEnum):
    """`error` blocks the load, `warning` is only reported."""

    ERROR = "error"
    WARNING = "warning"


class GateStatus(StrEnum):
    """Result of one gate."""

    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    SKIPPED = "skipped"


class ToleranceMode(StrEnum):
    """Unit of an allowed difference: rows, or percent of the source rows."""

    ABSOLUTE = "absolute"
    PCT = "pct"


class HashMode(StrEnum):
    """Whether a typed hash covers every row or a part selected by key."""

    FULL = "full"
    SAMPLE = "sample"


class AcceptanceMode(StrEnum):
    """Whether a missing acceptance metric is a warning or fails the run."""

    WARN_ONLY = "warn_only"
    REQUIRED = "required"


class TargetState(StrEnum):
    """What is known about the target after a failure."""

    NOT_MUTATED = "not_mutated"
    MUTATION_RETURNED_SUCCESS = "mutation_returned_success"
    UNKNOWN = "unknown"


class CheckpointState(StrEnum):
    """What is known about the checkpoints after a failure."""

    NOT_ADVANCED = "not_advanced"
    COMMITTED = "committed"
    NOT_APPLICABLE = "not_applicable"
    UNKNOWN = "unknown"


class SourceState(StrEnum):
    """What is known about the source's cursor. `advanced` and `not_applicable` appear in step receipts only."""

    NOT_ADVANCED = "not_advanced"
    UNKNOWN = "unknown"
    ADVANCED = "advanced"
    NOT_APPLICABLE = "not_applicable"


class RetryClassification(StrEnum):
    """What a retry may do, from harmless to a manual check first."""

    RETRY_BEFORE_TARGET_MUTATION = "retry_before_target_mutation"
    RETRY_VIA_NATIVE_RESUME = "retry_via_native_resume"
    RETRY_MAY_REPEAT_TARGET_MUTATION = "retry_may_repeat_target_mutation"
    OPERATOR_VERIFICATION_REQUIRED = "operator_verification_required"

    @property
    def allows_automatic_retry(self) -> bool:
        """Whether a retry repeats nothing that has already become visible."""
        return self in (
            RetryClassification.RETRY_BEFORE_TARGET_MUTATION,
            RetryClassification.RETRY_VIA_NATIVE_RESUME,
        )


class StepKind(StrEnum):
    """Kinds of run-spec steps. Each step is one Airflow task; `transfer_partition` is one per key range."""

    BUNDLE_VERIFY = "bundle_verify"
    HOOK = "hook"
    TRANSFER_PLAN = "transfer_plan"
    TRANSFER_PARTITION = "transfer_partition"
    LOAD = "load"


class StepStatus(StrEnum):
    """How a step ended; `refused` means that nothing ran."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"


class WithoutReceipt(StrEnum):
    """What the Airflow operator does when a step left no receipt."""

    RETRY = "retry"
    STOP = "stop"


class LineagePreset(StrEnum):
    """Named sets of technical columns."""

    OFF = "off"
    MINIMAL = "minimal"
    BULK_STANDARD = "bulk_standard"
    STANDARD = "standard"
    DEBUG = "debug"
    HIERARCHICAL = "hierarchical"


class SchemaEvolution(StrEnum):
    """What happens to columns that the source has and the target lacks."""

    REFUSE = "refuse"
    ADD_COLUMNS = "add_columns"
