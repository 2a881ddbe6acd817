"""Closed vocabularies of the contract. Values are persisted and published: never rename one.

Contract: FAIL-24.
"""

from __future__ import annotations

from enum import StrEnum


class Side(StrEnum):
    SOURCE = "source"
    STAGED = "staged"
    TARGET = "target"


class Boundary(StrEnum):
    """Which commit boundary an observation stands at (RCPT-16)."""

    PRE_COMMIT = "pre_commit"
    POST_COMMIT = "post_commit"
    RESUME_VALIDATION = "resume_validation"


class LoadPath(StrEnum):
    """How a sink publishes: `staged` commits by finalize, `legacy` by sink.load, `resume` not at all."""

    STAGED = "staged"
    LEGACY = "legacy"
    RESUME = "resume"

    @property
    def boundary(self) -> Boundary:
        """The boundary a quality receipt of this path must carry (RCPT-16)."""
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
    PRE_FINALIZE = "pre_finalize"
    LEGACY_POST_FINALIZE = "legacy_post_finalize"


class StrategyMode(StrEnum):
    FULL_REFRESH = "full_refresh"
    INCREMENTAL_APPEND = "incremental_append"
    INCREMENTAL_MERGE = "incremental_merge"
    PARTITION_REPLACE = "partition_replace"

    @property
    def is_incremental(self) -> bool:
        return self in (StrategyMode.INCREMENTAL_APPEND, StrategyMode.INCREMENTAL_MERGE)


class StateType(StrEnum):
    SINK = "sink"
    FILE = "file"
    DISABLED = "disabled"


class HookPhase(StrEnum):
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
    SOURCE = "source"
    SINK = "sink"


class HookRetryPolicy(StrEnum):
    NONE = "none"
    DEFAULT = "default"


class AirflowExecution(StrEnum):
    INLINE = "inline"
    SEPARATE_TASK = "separate_task"


class GateType(StrEnum):
    ROW_COUNT_RECONCILIATION = "row_count_reconciliation"
    MIN_ROWS = "min_rows"
    TYPED_HASH_RECONCILIATION = "typed_hash_reconciliation"
    CUSTOM_SQL = "custom_sql"
    NOT_NULL = "not_null"
    UNIQUE = "unique"
    FRESHNESS = "freshness"
    ACCEPTED_VALUES = "accepted_values"


EXECUTABLE_GATE_TYPES = frozenset(
    {GateType.ROW_COUNT_RECONCILIATION, GateType.MIN_ROWS, GateType.TYPED_HASH_RECONCILIATION}
)


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class GateStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    SKIPPED = "skipped"


class ToleranceMode(StrEnum):
    ABSOLUTE = "absolute"
    PCT = "pct"


class HashMode(StrEnum):
    FULL = "full"
    SAMPLE = "sample"


class AcceptanceMode(StrEnum):
    WARN_ONLY = "warn_only"
    REQUIRED = "required"


class TargetState(StrEnum):
    NOT_MUTATED = "not_mutated"
    MUTATION_RETURNED_SUCCESS = "mutation_returned_success"
    UNKNOWN = "unknown"


class CheckpointState(StrEnum):
    NOT_ADVANCED = "not_advanced"
    COMMITTED = "committed"
    NOT_APPLICABLE = "not_applicable"
    UNKNOWN = "unknown"


class SourceState(StrEnum):
    """What became of the source state; `advanced` and `not_applicable` stand in receipts of runs that got so far."""

    NOT_ADVANCED = "not_advanced"
    UNKNOWN = "unknown"
    ADVANCED = "advanced"
    NOT_APPLICABLE = "not_applicable"


class RetryClassification(StrEnum):
    RETRY_BEFORE_TARGET_MUTATION = "retry_before_target_mutation"
    RETRY_VIA_NATIVE_RESUME = "retry_via_native_resume"
    RETRY_MAY_REPEAT_TARGET_MUTATION = "retry_may_repeat_target_mutation"
    OPERATOR_VERIFICATION_REQUIRED = "operator_verification_required"

    @property
    def allows_automatic_retry(self) -> bool:
        return self in (
            RetryClassification.RETRY_BEFORE_TARGET_MUTATION,
            RetryClassification.RETRY_VIA_NATIVE_RESUME,
        )


class StepKind(StrEnum):
    """Kinds of run-spec steps, one Airflow task each."""

    BUNDLE_VERIFY = "bundle_verify"
    HOOK = "hook"
    TRANSFER_PLAN = "transfer_plan"
    TRANSFER_PARTITION = "transfer_partition"
    LOAD = "load"


class StepStatus(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"


class WithoutReceipt(StrEnum):
    """What an operator does when a step left no receipt at all."""

    RETRY = "retry"
    STOP = "stop"


class LineagePreset(StrEnum):
    OFF = "off"
    MINIMAL = "minimal"
    BULK_STANDARD = "bulk_standard"
    STANDARD = "standard"
    DEBUG = "debug"
    HIERARCHICAL = "hierarchical"


class SchemaEvolution(StrEnum):
    REFUSE = "refuse"
    ADD_COLUMNS = "add_columns"
