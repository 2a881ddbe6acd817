"""How far one attempt has come: before, at, or past its commit, and what is therefore true of target and source state.

Only the code that owns the commit boundary changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dpone_core.model.identity import LoadId
from dpone_core.model.outcome import LoadResult
from dpone_core.model.partition import TransferRun
from dpone_core.model.read_window import ReadWindow
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
    """The facts about one attempt so far, which its outcome reports after a failure at any point.

    `unproven_hook`: a hook that must not be repeated was started and has not proved its success.
    `gate_report`: the report of the evaluated gates, None before the evaluation.
    `load_in_doubt`: an operator has to look at the target, because an earlier load may be in it without a saved cursor,
    or because what this run published earlier is not in it any more.
    `examined_intent`: the load whose commit intent was found and examined; the intent of no other load is replaced.
    `earlier_loads_revoked`: no earlier load of the target can publish any more.
    `native_checkpoint`: the state of the checkpoints of a native transfer, None until its target was touched.
    `window`: the cursor values that this attempt reads, None for a load without cursor.
    `stored_plan`: the transfer plan that another process stored and whose partitions this process stages or publishes.
    """

    boundary: Boundary = Boundary.PRE_COMMIT
    target_state: TargetState = TargetState.NOT_MUTATED
    source_state: SourceState = SourceState.NOT_ADVANCED
    result: LoadResult = field(default_factory=LoadResult)
    unproven_hook: bool = False
    load_in_doubt: bool = False
    examined_intent: LoadId | None = None
    earlier_loads_revoked: bool = False
    gate_report: QualityGateReport | None = None
    native_checkpoint: CheckpointState | None = None
    stored_plan: TransferRun | None = None
    window: ReadWindow | None = None

    def mark_committing(self) -> None:
        """Call it just before the commit is sent: the target state is unknown until the sink has answered."""
        self.target_state = TargetState.UNKNOWN
        self.boundary = Boundary.POST_COMMIT

    def mark_refused(self) -> None:
        """Call it when the sink has answered that nothing was committed: the attempt is before its commit again."""
        self.target_state = TargetState.NOT_MUTATED
        self.boundary = Boundary.PRE_COMMIT

    def mark_committed(self, result: LoadResult) -> None:
        """Call it when the sink has confirmed the commit; `result` are the counters of the attempt."""
        self.target_state = TargetState.MUTATION_RETURNED_SUCCESS
        self.boundary = Boundary.POST_COMMIT
        self.result = result

    def mark_resuming(self) -> None:
        """Call it when earlier attempts have committed every partition: this attempt only validates them."""
        self.boundary = Boundary.RESUME_VALIDATION
        self.native_checkpoint = CheckpointState.COMMITTED

    def mark_partitions_committed(self, result: LoadResult, checkpoint: CheckpointState) -> None:
        """Call it after each publication of a native transfer; `checkpoint` is what its stored checkpoints say by
        then.
        """
        self.mark_committed(result)
        self.native_checkpoint = checkpoint

    def replace_row_counts(self, *, inserted_rows: int | None, final_rows: int | None) -> None:
        """Replaces the counters that the sink reported by those that were counted in the target after the commit."""
        self.result = replace(self.result, inserted_rows=inserted_rows, final_rows=final_rows)

    @property
    def checkpoint_state(self) -> CheckpointState:
        """The checkpoint state to report. A load without native checkpoints reports `not_advanced` before its commit,
        `not_applicable` after it, and `unknown` in between."""
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
        """Whether a retry may write rows a second time. Whatever is unknown requires an operator."""
        if self.unproven_hook or self.load_in_doubt or self.target_state is TargetState.UNKNOWN:
            return RetryClassification.OPERATOR_VERIFICATION_REQUIRED
        if self.native_checkpoint is CheckpointState.UNKNOWN:
            return RetryClassification.OPERATOR_VERIFICATION_REQUIRED
        if self.native_checkpoint is CheckpointState.COMMITTED:
            return RetryClassification.RETRY_VIA_NATIVE_RESUME
        if self.target_state is TargetState.NOT_MUTATED:
            return RetryClassification.RETRY_BEFORE_TARGET_MUTATION
        return RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
