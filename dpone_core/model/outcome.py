"""What a load did, and what a failed load left behind. Values only: the code that owns the commit creates them.

A counter is exact or None; a value that is not a non-negative integer becomes None, never zero.
Contract: FAIL-01, FAIL-02, FAIL-24.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Final

from dpone_core.model.special_values import ConvertedValues
from dpone_core.model.vocabulary import (
    AcceptanceMode,
    Boundary,
    CheckpointState,
    FinalizationPhase,
    RetryClassification,
    Side,
    SourceState,
    TargetState,
)

MAX_COUNT: Final = 2**63 - 1
METRIC_SNAPSHOT_KIND: Final = "dpone.acceptance.metric_snapshot.v1"
RUN_METRICS_KIND: Final = "dpone.acceptance.run_metrics.v1"


def count_or_none(value: object) -> int | None:
    """`value` when it is a plain integer from 0 to 2**63 - 1; booleans, text, floats and negatives become None."""
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceMetricSnapshot:
    """Metrics of one side, reduced to what was requested. `columns` lists the measured columns in schema order.

    `row_count` is None when it was not requested or is unknown; `warnings` holds stable codes only.
    """

    side: Side
    dataset: str
    columns: tuple[str, ...] = ()
    row_count: int | None = None
    null_counts: Mapping[str, int] = field(default_factory=dict)
    distinct_counts: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    captured_before_cleanup: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "null_counts", MappingProxyType(dict(self.null_counts)))
        object.__setattr__(self, "distinct_counts", MappingProxyType(dict(self.distinct_counts)))

    @property
    def succeeded(self) -> bool:
        """False when a requested metric is missing and a warning stands in its place."""
        return not self.warnings

    def as_json(self) -> dict[str, object]:
        """The snapshot in the published shape dpone.acceptance.metric_snapshot.v1."""
        return {
            "kind": METRIC_SNAPSHOT_KIND,
            "side": self.side.value,
            "dataset": self.dataset,
            "columns": list(self.columns),
            "row_count": self.row_count,
            "null_counts": dict(self.null_counts),
            "distinct_counts": dict(self.distinct_counts),
            "warnings": list(self.warnings),
            "captured_before_cleanup": self.captured_before_cleanup,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRunMetrics:
    """Snapshots of a load, one per requested side. `load_result_rows` counts rows of this attempt, not of the
    target.
    """

    mode: AcceptanceMode
    snapshots: tuple[AcceptanceMetricSnapshot, ...]
    load_result_rows: int | None = None

    @property
    def warnings(self) -> int:
        """Number of snapshots that hold a warning."""
        return sum(not snapshot.succeeded for snapshot in self.snapshots)

    def as_json(self) -> dict[str, object]:
        """The metrics in the published shape dpone.acceptance.run_metrics.v1."""
        return {
            "kind": RUN_METRICS_KIND,
            "mode": self.mode.value,
            "snapshots": {snapshot.side.value: snapshot.as_json() for snapshot in self.snapshots},
            "load_result_rows": self.load_result_rows,
        }


_COUNTERS: Final = ("inserted_rows", "updated_rows", "final_rows", "extracted_rows", "staged_rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Counters of one attempt. All count rows of the attempt, except `final_rows`: rows in the target after it.

    None means unknown. `converted_values` has one entry for each declared rule. Gate results are not part of it; they
    travel in the quality receipt beside this value.
    """

    inserted_rows: int | None = None
    updated_rows: int | None = None
    final_rows: int | None = None
    extracted_rows: int | None = None
    staged_rows: int | None = None
    attempts: int = 1
    governance_finalization: FinalizationPhase | None = None
    acceptance_metrics: AcceptanceRunMetrics | None = None
    converted_values: tuple[ConvertedValues, ...] = ()

    def __post_init__(self) -> None:
        _normalise_counters(self)

    @property
    def loaded_rows(self) -> int | None:
        """Rows that the load has put into the target, inserted or updated; None unless both are known."""
        if self.inserted_rows is None or self.updated_rows is None:
            return None
        return self.inserted_rows + self.updated_rows

    def with_acceptance(self, metrics: AcceptanceRunMetrics | None) -> LoadResult:
        """The same result with these acceptance metrics."""
        return replace(self, acceptance_metrics=metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityGateFailureOutcome:
    """Safe truth about a load whose gates failed. `mutation_returned_success` claims no durability.

    Built by the coordinator that owns the mutation boundary, through the constructors below; `attempts` counts from
    1. Raises TypeError for a state that is not of its closed vocabulary, ValueError for a source state of receipts
    alone.
    """

    failure_boundary: Boundary
    target_state: TargetState
    checkpoint_state: CheckpointState
    source_state: SourceState
    retry_classification: RetryClassification
    inserted_rows: int | None = None
    updated_rows: int | None = None
    final_rows: int | None = None
    extracted_rows: int | None = None
    staged_rows: int | None = None
    attempts: int = 1

    def __post_init__(self) -> None:
        _require_member(self.failure_boundary, Boundary)
        _require_member(self.target_state, TargetState)
        _require_member(self.checkpoint_state, CheckpointState)
        _require_member(self.source_state, SourceState)
        _require_member(self.retry_classification, RetryClassification)
        if self.source_state not in (SourceState.NOT_ADVANCED, SourceState.UNKNOWN):
            raise ValueError(
                f"expected source state not_advanced or unknown after failed gates, found {self.source_state.value}"
            )
        _normalise_counters(self)

    @classmethod
    def pre_commit(cls, result: LoadResult) -> QualityGateFailureOutcome:
        """Gates on staged rows failed before the commit: the target was not changed."""
        return _outcome(
            result,
            Boundary.PRE_COMMIT,
            TargetState.NOT_MUTATED,
            CheckpointState.NOT_ADVANCED,
            RetryClassification.RETRY_BEFORE_TARGET_MUTATION,
        )

    @classmethod
    def legacy_returned(cls, result: LoadResult) -> QualityGateFailureOutcome:
        """Gates failed after a legacy sink had written its rows: a retry may write them a second time."""
        return _outcome(
            result,
            Boundary.POST_COMMIT,
            TargetState.MUTATION_RETURNED_SUCCESS,
            CheckpointState.NOT_APPLICABLE,
            RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION,
        )

    @classmethod
    def native_committed(cls, result: LoadResult) -> QualityGateFailureOutcome:
        """Gates failed after the native transfer's checkpoints were committed: a retry resumes and writes nothing
        again.
        """
        return _outcome(
            result,
            Boundary.POST_COMMIT,
            TargetState.MUTATION_RETURNED_SUCCESS,
            CheckpointState.COMMITTED,
            RetryClassification.RETRY_VIA_NATIVE_RESUME,
        )

    @classmethod
    def native_uncommitted(cls, result: LoadResult) -> QualityGateFailureOutcome:
        """Gates failed after the sink had returned, and no checkpoint proves the commit: a person has to check the
        target.
        """
        return _outcome(
            result,
            Boundary.POST_COMMIT,
            TargetState.MUTATION_RETURNED_SUCCESS,
            CheckpointState.UNKNOWN,
            RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
        )

    @classmethod
    def resume_validation(cls, result: LoadResult) -> QualityGateFailureOutcome:
        """Gates failed while partitions of an earlier attempt were validated: nothing changed, the checkpoints stay
        committed.
        """
        return _outcome(
            result,
            Boundary.RESUME_VALIDATION,
            TargetState.NOT_MUTATED,
            CheckpointState.COMMITTED,
            RetryClassification.RETRY_VIA_NATIVE_RESUME,
        )

    def failure_context(self) -> dict[str, str]:
        """The `failure_context` object of a run report: boundary, the states of target, checkpoint and source, and
        the retry class.
        """
        return {
            "failure_boundary": self.failure_boundary.value,
            "target_state": self.target_state.value,
            "checkpoint_state": self.checkpoint_state.value,
            "source_state": self.source_state.value,
            "retry_classification": self.retry_classification.value,
        }


def _outcome(
    result: LoadResult,
    boundary: Boundary,
    target: TargetState,
    checkpoint: CheckpointState,
    retry: RetryClassification,
) -> QualityGateFailureOutcome:
    return QualityGateFailureOutcome(
        failure_boundary=boundary,
        target_state=target,
        checkpoint_state=checkpoint,
        source_state=SourceState.NOT_ADVANCED,
        retry_classification=retry,
        inserted_rows=result.inserted_rows,
        updated_rows=result.updated_rows,
        final_rows=result.final_rows,
        extracted_rows=result.extracted_rows,
        staged_rows=result.staged_rows,
        attempts=result.attempts,
    )


def _require_member(value: object, vocabulary: type[Enum]) -> None:
    if not isinstance(value, vocabulary):
        raise TypeError(f"expected a {vocabulary.__name__}, found {type(value).__name__}")


def _normalise_counters(value: LoadResult | QualityGateFailureOutcome) -> None:
    for name in _COUNTERS:
        object.__setattr__(value, name, count_or_none(getattr(value, name)))
    object.__setattr__(value, "attempts", count_or_none(value.attempts) or 1)
