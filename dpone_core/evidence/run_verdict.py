"""Derives from the JSON of a run's report what became of the target, whether a retry is safe, and what to do next.

It reads JSON, so that reports of earlier runs can be shown too. Fail closed: only a report that says clearly that the
run succeeded counts as a success, and one that contradicts itself is unclear.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dpone_core.evidence.json_view import JsonView
from dpone_core.evidence.recovery import Recovery, recovery_of
from dpone_core.model.repetition import Repetition
from dpone_core.model.vocabulary import (
    FinalizationPhase,
    HookPhase,
    RetryClassification,
    SourceState,
    StrategyMode,
    TargetState,
)


class Ending(StrEnum):
    """How a run ended, by its report. UNCLEAR: the report is incomplete or contradicts itself."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"
    UNCLEAR = "unclear"


_RETRY: Final = {
    RetryClassification.RETRY_BEFORE_TARGET_MUTATION: "A retry is safe: it repeats nothing in the target.",
    RetryClassification.RETRY_VIA_NATIVE_RESUME: "A retry is safe: it resumes without touching the target.",
    RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION: "A retry may write this load a second time.",
    RetryClassification.OPERATOR_VERIFICATION_REQUIRED: "Do not retry before a person has looked.",
}
_REPEAT: Final = {
    Repetition.NOTHING: "The load is complete and the source state has advanced: a retry loads none of it again.",
    Repetition.REPLACES: "A retry writes this load again in its place; no row is doubled.",
    Repetition.MERGES: "A retry updates the same rows by their key; no row is doubled.",
    Repetition.ADDS: _RETRY[RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION],
}
_SOURCE: Final = {
    SourceState.ADVANCED: "advanced",
    SourceState.NOT_ADVANCED: "not advanced",
    SourceState.NOT_APPLICABLE: "none kept",
}


_WITHOUT_STAGING: Final = FinalizationPhase.LEGACY_POST_FINALIZE.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """The verdict on one run.

    `target` and `retry` are sentences; `recovery` is set for a run that executed and failed.
    """

    ending: Ending
    target: str
    retry: str
    source_state: str
    recovery: Recovery | None = None


def run_verdict(report: JsonView, target: str, strategy: str | None = None) -> RunVerdict:
    """The verdict of a report. `target` is the name of the table in its sentences, `strategy` the one of its plan where
    the report does not say it.
    """
    result = report.at("result")
    context = result.at("failure_context")
    state = result.text("failure_context", "source_state") or result.text("details", "source_state")
    source = next((words for known, words in _SOURCE.items() if known == state), "not known")
    known = result.text("details", "strategy") or strategy
    passed, status = report.at("passed").value, result.text("status")
    if passed is True and status == "success" and not context and not result.texts("errors"):
        return RunVerdict(
            ending=Ending.SUCCEEDED,
            target=f"The target {target} holds {_load(result, known)}.",
            retry="Nothing needs to be repeated.",
            source_state=source,
        )
    if passed is not False or status != "error":
        return RunVerdict(
            ending=Ending.UNCLEAR,
            target=f"This report does not say whether the target {target} holds the load.",
            retry=_RETRY[RetryClassification.OPERATOR_VERIFICATION_REQUIRED],
            source_state=source,
        )
    if not context and report.count("attempts") == 0:
        return RunVerdict(
            ending=Ending.REFUSED,
            target="The run was refused before anything executed; no target was touched.",
            retry="Correct the cause, then run it.",
            source_state="not advanced",
        )
    recovery = recovery_of(
        context.text("failure_boundary"),
        context.text("target_state"),
        context.text("retry_classification"),
        context.text("source_state"),
        known,
    )
    return RunVerdict(
        ending=Ending.FAILED,
        target=_target(recovery.target_state, target),
        retry=_RETRY[recovery.retry] if recovery.repetition is None else _REPEAT[recovery.repetition],
        source_state=source,
        recovery=recovery,
    )


def _load(result: JsonView, strategy: str | None) -> str:
    """`this load of 1,792 rows: 1,000 inserted, 792 updated`; a number that is not known is not guessed."""
    inserted, updated = result.count("inserted_rows"), result.count("updated_rows")
    merges = strategy == StrategyMode.INCREMENTAL_MERGE
    if inserted is None or (updated is None and merges):
        return "this load" if inserted is None else f"this load: {inserted:,} inserted, updated unknown"
    rows = inserted + (updated or 0)
    parts = f": {inserted:,} inserted, {updated:,} updated" if updated else ""
    return f"this load of {rows:,} row{'' if rows == 1 else 's'}{parts}"


def find_failed_post_hook(report: JsonView) -> str | None:
    """The id of the post-hook that failed; None when none did."""
    for step in report.at("result", "details").items("load_steps"):
        if step.text("phase") == HookPhase.POST and step.text("status") == "failed":
            return step.text("step_id")
    return None


def next_commands(report: JsonView, verdict: RunVerdict) -> tuple[tuple[str, str], ...]:
    """Commands an operator may need next, each with its purpose; () unless the run executed and failed."""
    recovery, result = verdict.recovery, report.at("result")
    if recovery is None:
        return ()
    run_id, selector = report.text("run_id") or "RUN_ID", report.text("selector")
    chosen = ("--selector", selector) if selector else ()
    named = (report.text("manifest") or "MANIFEST", *chosen, "--run-id", run_id)
    commands: list[tuple[str, tuple[str, ...]]] = []
    code, hook = result.text("error_code"), find_failed_post_hook(report)
    if code is not None:
        commands.append(("what the code means", ("explain", code, "--boundary", recovery.boundary.value)))
    if hook is not None and recovery.target_state is TargetState.MUTATION_RETURNED_SUCCESS:
        execute = ("hooks", "execute", *named, "--phase", HookPhase.POST.value, "--hook-id", hook)
        commands.append(("the failed hook alone, once its cause is corrected", execute))
    elif recovery.repetition is Repetition.NOTHING:
        commands.append(("the same run again: it loads none of this load again and leaves a report", ("run", *named)))
    elif _is_harmless(recovery):
        commands.append(("the same run again, once the cause is corrected", ("run", *named)))
    else:
        if result.text("details", "reconciliation_metrics", "governance_finalization") != _WITHOUT_STAGING:
            commands.append(("which staging this run left, if any", ("cleanup", *named, "--dry-run")))
        if recovery.retry is RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION:
            commands.append(("the same run again, only when the target has been repaired", ("run", *named)))
    return tuple((purpose, shlex.join(("dpone", *words))) for purpose, words in commands)


def airflow_advice(report: JsonView, verdict: RunVerdict) -> str | None:
    """Whether to clear the failed task in Airflow, as a sentence; None unless the run executed and failed."""
    recovery = verdict.recovery
    if recovery is None:
        return None
    hook = find_failed_post_hook(report)
    if hook is not None and recovery.retry is RetryClassification.OPERATOR_VERIFICATION_REQUIRED:
        return "In Airflow: do not clear the load's task. Its load is done, and the hook is not repeated by it."
    if recovery.repetition is Repetition.NOTHING or _is_harmless(recovery):
        return "In Airflow: clear the failed task and all downstream of it; the run id stays."
    return "In Airflow: do not clear the load's task before that. Clearing it starts the load again."


def _is_harmless(recovery: Recovery) -> bool:
    """Whether a repeat, once the cause is corrected, leaves no row twice."""
    return recovery.retry.allows_automatic_retry or recovery.repetition in (Repetition.REPLACES, Repetition.MERGES)


def _target(state: TargetState, target: str) -> str:
    match state:
        case TargetState.NOT_MUTATED:
            return f"The target {target} was not changed by this run."
        case TargetState.MUTATION_RETURNED_SUCCESS:
            return f"The target {target} holds this load, although the run failed."
        case TargetState.UNKNOWN:
            return f"It is not known whether the target {target} holds this load."
