"""Where an attempt stands with respect to its commit boundary. Moved only by the code that owns the boundary."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dpone_core.model.outcome import LoadResult
from dpone_core.model.partition import TransferRun
from dpone_core.model.vocabulary import (
    Boundary,
    CheckpointState,
    RetryClassification,
    SourceState,
    TargetState,
)
from dpone_core.quality.report import QualityGateReport


@dataclass(slots=True)
class CommitState:
    """Mutable on purpose: whatever raises, what it says is what happened so far.

    `unproven_hook` is set while a hook that must not be repeated runs, and stays set if it did not succeed.
    `judged` is what the gates said, whatever happens after them.
    `unsettled_load` is set when an earlier load of this process may stand in the target without a saved cursor,
    or this run's own publication does not stand there any more.
    `native_checkpoint` is what the checkpoints of a native transfer say once its target was touched.
    `stored_plan` is the plan of another process that this one was told to stage or publish ranges of.
    """

    boundary: Boundary = Boundary.PRE_COMMIT
    target_state: TargetState = TargetState.NOT_MUTATED
    source_state: SourceState = SourceState.NOT_ADVANCED
    result: LoadResult = field(default_factory=LoadResult)
    unproven_hook: bool = False
    unsettled_load: bool = False
    judged: QualityGateReport | None = None
    native_checkpoint: CheckpointState | None = None
    stored_plan: TransferRun | None = None

    def committing(self) -> None:
        """The commit is about to be sent: from here on its outcome is unknown until it answers."""
        self.target_state = TargetState.UNKNOWN
        self.boundary = Boundary.POST_COMMIT

    def refused(self) -> None:
        """The sink answered that nothing was committed."""
        self.target_state = TargetState.NOT_MUTATED
        self.boundary = Boundary.PRE_COMMIT

    def committed(self, result: LoadResult) -> None:
        self.target_state = TargetState.MUTATION_RETURNED_SUCCESS
        self.boundary = Boundary.POST_COMMIT
        self.result = result

    def resuming(self) -> None:
        """Every partition is committed by an earlier attempt: what follows only validates."""
        self.boundary = Boundary.RESUME_VALIDATION
        self.native_checkpoint = CheckpointState.COMMITTED

    def committed_natively(self, result: LoadResult, checkpoint: CheckpointState) -> None:
        """The target holds what was published so far, and its checkpoints say so, or may not."""
        self.committed(result)
        self.native_checkpoint = checkpoint

    def counted(self, *, inserted_rows: int | None, final_rows: int | None) -> None:
        """The target was counted after the commit: what was found replaces what the sink said."""
        self.result = replace(self.result, inserted_rows=inserted_rows, final_rows=final_rows)

    @property
    def checkpoint_state(self) -> CheckpointState:
        """Without native checkpoints nothing advanced before the commit and nothing applies after it."""
        if self.native_checkpoint is not None and self.target_state is not TargetState.UNKNOWN:
            return self.native_checkpoint
        match self.target_state:
            case TargetState.NOT_MUTATED:
                return CheckpointState.NOT_ADVANCED
            case TargetState.MUTATION_RETURNED_SUCCESS:
                return CheckpointState.NOT_APPLICABLE
            case TargetState.UNKNOWN:
                return CheckpointState.UNKNOWN

    @property
    def retry(self) -> RetryClassification:
        """Whether a retry may repeat something; unknown never counts as safe."""
        if self.unproven_hook or self.unsettled_load or self.target_state is TargetState.UNKNOWN:
            return RetryClassification.OPERATOR_VERIFICATION_REQUIRED
        if self.native_checkpoint is CheckpointState.UNKNOWN:
            return RetryClassification.OPERATOR_VERIFICATION_REQUIRED
        if self.native_checkpoint is CheckpointState.COMMITTED:
            return RetryClassification.RETRY_VIA_NATIVE_RESUME
        if self.target_state is TargetState.NOT_MUTATED:
            return RetryClassification.RETRY_BEFORE_TARGET_MUTATION
        return RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
