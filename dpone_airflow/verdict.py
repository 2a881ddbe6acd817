"""The gate's verdict on a run: the flat XCom mapping, the advice for a person and the log lines. Pure.

Contract: AIR-10, AIR-16, AIR-24, AIR-25.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from dpone_airflow.outcome import LEAVES_THE_TARGET, RECEIPT_OUT_OF_ORDER
from dpone_core.contracts.receipt_verification import RUN_SPEC_CHANGED
from dpone_core.contracts.step_receipt import StepReceipt
from dpone_core.model.repetition import Repetition, repetition_of
from dpone_core.model.vocabulary import RetryClassification, SourceState, StepKind, StepStatus, TargetState

VERDICT_SCHEMA: Final = "dpone.verdict.v1"

_LINE_CHARACTERS: Final = 86
_FAILURES_SHOWN: Final = 8
_NOT_STARTED: Final = frozenset({"upstream_failed", "skipped", "removed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepVerdict:
    """`code` is None exactly when the step passed; `also` names secondary findings.

    `map_index` tells the tasks of one mapped step apart, None for a single task. `kind` is None for a task that leaves
    no receipt. `may_have_run`: a container of it may have run in some try. `is_repeated_unproven`: the run-spec lets
    its operator repeat it without a receipt.
    """

    step_id: str
    code: str | None
    reason: str
    task_state: str | None
    receipt: StepReceipt | None
    also: tuple[str, ...] = ()
    map_index: int | None = None
    kind: StepKind | None = None
    may_have_run: bool = True
    is_repeated_unproven: bool = False

    @property
    def name(self) -> str:
        """The step with its map index, as Airflow shows it: `transfer_partition[1]`."""
        return self.step_id if self.map_index is None else f"{self.step_id}[{self.map_index}]"

    @property
    def passed(self) -> bool:
        return self.code is None

    @property
    def never_started(self) -> bool:
        return self.task_state in _NOT_STARTED and self.receipt is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgment on one run of one run-spec; `primary` is the first failing step in run-spec order.

    `steps` holds one entry per task, a mapped step's in the order of their indexes. `partitions` is what the plan's
    accepted receipt says, None without one.
    """

    process: str
    dag_run_id: str
    run_spec_fingerprint: str
    steps: tuple[StepVerdict, ...]
    primary: StepVerdict | None
    load: StepReceipt | None
    partitions: int | None = None

    @property
    def passed(self) -> bool:
        return bool(self.steps) and all(step.passed for step in self.steps)

    def mapping(self) -> dict[str, object]:
        """The XCom value: flat, bounded, safe to print. All tasks of a mapped step count as one step."""
        load = self.load
        by_step = {name: self._of(name) for name in dict.fromkeys(step.step_id for step in self.steps)}
        mapped = [step for step in self.steps if step.map_index is not None]
        return {
            "schema": VERDICT_SCHEMA,
            "passed": self.passed,
            "process": self.process,
            "dag_run_id": self.dag_run_id,
            "run_spec_fingerprint": self.run_spec_fingerprint,
            "steps": len(by_step),
            "steps_passed": sum(all(step.passed for step in steps) for steps in by_step.values()),
            "primary_step": self.primary.name if self.primary else None,
            "primary_code": self.primary.code if self.primary else None,
            "partitions": self.partitions,
            "partitions_passed": sum(step.passed for step in mapped) if self.partitions is not None else None,
            "first_failed_partition": next((step.map_index for step in mapped if not step.passed), None),
            "target_state": load.target_state.value if load and load.target_state else None,
            "source_state": load.source_state.value if load and load.source_state else None,
            "retry_classification": self.retry_classification,
            "load_id": load.load_id if load else None,
            "final_rows": load.final_rows if load else None,
            "failed_gate": load.failed_gate if load else None,
            "gate_failed_rows": load.gate_failed_rows if load else None,
            "gate_evaluated_rows": load.gate_evaluated_rows if load else None,
            "evidence_path": load.evidence_path if load else None,
            "advice": self.advice,
        }

    @property
    def retry_classification(self) -> str | None:
        """None on success, else the strictest classification of all tasks that ran and failed.

        Where the load is committed a repeat of the run may repeat the load, whatever a failed hook allows for itself.
        """
        if self.passed or self.primary is None:
            return None
        ran = [step for step in self.steps if not step.passed and not step.never_started]
        found = max(map(_classification_of, ran or [self.primary]), key=_STRICTNESS.index)
        committed = self.load is not None and self.load.status is StepStatus.SUCCEEDED
        if committed and found.allows_automatic_retry:
            return RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION.value
        return found.value

    @property
    def advice(self) -> str:
        """One sentence for the person who has to decide, in the words of the Airflow UI."""
        primary = self.primary
        if self.passed or primary is None:
            return "nothing is left to do"
        if self.load is not None and self.load.status is StepStatus.SUCCEEDED:
            how = next((_EARLIER[step.code] for step in self._loads() if step.code in _EARLIER), None)
            if how is not None or self._is_before_the_load(primary):
                again = RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
                load = self.load
                done = repetition_of(again, load.target_state, load.source_state, load.strategy) or Repetition.ADDS
                told = how or f"behind {primary.name}, which does not count any more"
                clear = f"clear the task of {primary.name}, the tasks behind it and the gate"
                return f"the load was committed {told}{_LOADED_BEFORE[done].format(clear=clear)}"
            if primary.receipt is self.load:
                return (
                    "the load is committed: compare the evidence, mark its task as success, then clear the tasks "
                    "behind it and the gate"
                )
            return f"the load is committed: correct and clear {primary.name} and the gate, never the load's task"
        found = self.retry_classification
        repetition = self.load.repetition if self.load is not None else None
        if found == RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION:
            if repetition is not None:
                return _REPEATED[repetition]
            if primary.receipt is None and primary.is_repeated_unproven:
                return _REPEATED_UNPROVEN
        return next(text for known, text in _ADVICE.items() if known == found)

    def summary(self) -> tuple[str, ...]:
        """Lines for the task log, short enough to be read there: headline, what is true and what to do, every step.

        Of a mapped step one line counts what passed; its failures follow one by one, the first of them in full.
        """
        lines = [f"dpone gate {'PASSED' if self.passed else 'FAILED'}: process {self.process}, run {self.dag_run_id}"]
        if self.primary is not None:
            lines.append(f"primary cause: step {self.primary.name}: {self.primary.code}")
        lines.append(f"target: {self._target()}")
        lines += wrap(f"what to do: {self.advice}", _LINE_CHARACTERS, subsequent_indent="  ")
        for name in dict.fromkeys(step.step_id for step in self.steps):
            steps = self._of(name)
            shown = steps
            if steps[0].map_index is not None:
                failed = [step for step in steps if not step.passed]
                lines.append(f"step {name}: {len(steps) - len(failed)} of {self.partitions} partitions passed")
                shown = failed[:_FAILURES_SHOWN]
            for step in shown:
                lines += _lines_of(step)
            if steps[0].map_index is not None and len(failed) > len(shown):
                rest = ", ".join(str(step.map_index) for step in failed[len(shown) :])
                lines += wrap(f"  and of the partitions {rest}", _LINE_CHARACTERS, subsequent_indent="  ")
        return tuple(lines)

    def _target(self) -> str:
        if self.load is not None:
            return effect(self.load)
        load = next(iter(self._loads()), None)
        if load is not None and (load.never_started or not load.may_have_run):
            return "not mutated by this run, the load did not start"
        return "not known, the load left no receipt"

    def _is_before_the_load(self, step: StepVerdict) -> bool:
        """A step that the load followed: what it left anew would make the load's own receipt one out of order.

        A single partition is none: its rows stand in the staging that its plan names, whenever it leaves its receipt.
        """
        if step.map_index is not None:
            return False
        order = [one.step_id for one in self.steps]
        return any(order.index(step.step_id) < order.index(load.step_id) for load in self._loads())

    def _loads(self) -> list[StepVerdict]:
        return [step for step in self.steps if step.kind is StepKind.LOAD]

    def _of(self, step_id: str) -> list[StepVerdict]:
        return [step for step in self.steps if step.step_id == step_id]


def effect(receipt: StepReceipt) -> str:
    """What is true of the target and the source, in words an operator can act on."""
    if receipt.kind is not StepKind.LOAD:
        return f"step {receipt.status.value}"
    match receipt.target_state:
        case TargetState.MUTATION_RETURNED_SUCCESS:
            target = "load committed"
        case TargetState.NOT_MUTATED:
            target = "target not mutated"
        case _:
            target = "target state unknown"
    source = "source state advanced" if receipt.source_state is SourceState.ADVANCED else "source state not advanced"
    if receipt.source_state is SourceState.NOT_APPLICABLE:
        source = "no source state"
    rows = f", {receipt.final_rows} rows" if receipt.final_rows is not None else ""
    return f"{target}, {source}{rows}{_failed_gate(receipt)}"


def _failed_gate(receipt: StepReceipt) -> str:
    """`, gate unique failed: 12 of 200,000 rows`; without figures for a gate that counts no rows of its own."""
    if receipt.failed_gate is None:
        return ""
    failed, evaluated = receipt.gate_failed_rows, receipt.gate_evaluated_rows
    figures = "" if failed is None or evaluated is None else f": {failed:,} of {evaluated:,} rows"
    return f", gate {receipt.failed_gate} failed{figures}"


_STRICTNESS: Final = (
    RetryClassification.RETRY_BEFORE_TARGET_MUTATION,
    RetryClassification.RETRY_VIA_NATIVE_RESUME,
    RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION,
    RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
)
_CLEAR_FAILED: Final = "clear the failed task, the tasks behind it and the gate"
_CLEAR_LOAD: Final = "clear the load's task, the tasks behind it and the gate"
_ADVICE: Final = {
    RetryClassification.RETRY_BEFORE_TARGET_MUTATION: (
        f"correct the cause, then {_CLEAR_FAILED}; a retry repeats nothing in the target"
    ),
    RetryClassification.RETRY_VIA_NATIVE_RESUME: f"{_CLEAR_FAILED}; a retry resumes without touching the target",
    RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION: (
        "a retry may write this load a second time: repair or deduplicate the target before any task is cleared"
    ),
    RetryClassification.OPERATOR_VERIFICATION_REQUIRED: (
        "clear no task before a person has compared target and evidence"
    ),
}


_REPEATED_UNPROVEN: Final = (
    f"correct the cause, then {_CLEAR_FAILED}; it may have written, and the run-spec lets it be repeated without a "
    "receipt"
)

_EARLIER: Final[dict[str | None, str]] = {
    RECEIPT_OUT_OF_ORDER: "by an earlier attempt",
    RUN_SPEC_CHANGED: "under the run-spec before",
}
_LOADED_BEFORE: Final = {
    Repetition.NOTHING: " and its source state has advanced: {clear}; it loads none of that again",
    Repetition.REPLACES: ": {clear}; it is written again in its place",
    Repetition.MERGES: ": {clear}; the same rows are updated by their key",
    Repetition.ADDS: (
        ", and another may write it a second time: compare or deduplicate the target before any task is cleared"
    ),
}
_REPEATED: Final = {
    Repetition.NOTHING: (
        "the load is complete and its source state has advanced, only what comes behind is missing: "
        f"{_CLEAR_LOAD}; it loads none of this again"
    ),
    Repetition.REPLACES: f"correct the cause, then {_CLEAR_LOAD}; a retry writes the load again in its place",
    Repetition.MERGES: f"correct the cause, then {_CLEAR_LOAD}; a retry updates the same rows by their key",
    Repetition.ADDS: _ADVICE[RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION],
}


def _lines_of(step: StepVerdict) -> list[str]:
    lines = [f"step {step.name}: {step.code or 'passed'}, task {step.task_state}"]
    if not step.passed:
        lines += wrap(step.reason, _LINE_CHARACTERS, initial_indent="  ", subsequent_indent="  ")
    if step.also:
        lines.append(f"  also: {', '.join(step.also)}")
    return lines


def _classification_of(step: StepVerdict) -> RetryClassification:
    """The classification of one failed step: its receipt's, or without a receipt the one that its kind implies."""
    receipt = step.receipt
    if receipt is not None and receipt.retry_classification is not None:
        return receipt.retry_classification
    if receipt is not None and receipt.status is StepStatus.REFUSED:
        return RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    if step.kind is None or step.kind in LEAVES_THE_TARGET or not step.may_have_run:
        return RetryClassification.RETRY_BEFORE_TARGET_MUTATION
    if step.code in _EARLIER:
        return RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
    if receipt is None and step.is_repeated_unproven:
        return RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
    return RetryClassification.OPERATOR_VERIFICATION_REQUIRED
