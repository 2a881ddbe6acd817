"""Runs one attempt of a load and describes how it ended, success or failure, in a LoadOutcome.

The only module that turns exceptions into outcomes. It loads nothing itself: ETLProcessor does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime

from dpone_core.acceptance.policy import AcceptanceMetricError
from dpone_core.errors import ConnectorError, DponeError
from dpone_core.evidence.outcome import AcceptanceCounts, GateCounts, LoadOutcome, failure_facts
from dpone_core.loading.commit_state import CommitState
from dpone_core.loading.context import LoadContext, LoadRequest, LoadSessions
from dpone_core.loading.lease_renewal import renew_in_background
from dpone_core.loading.processor import ETLProcessor
from dpone_core.loading.step_log import StepLog
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.outcome import LoadResult
from dpone_core.model.vocabulary import GateStatus, SourceState, TargetState
from dpone_core.ports.runtime import Runtime
from dpone_core.ports.state import Lease
from dpone_core.quality.report import QualityGateReport

OpenSessions = Callable[[LoadIdentity], AbstractContextManager[LoadSessions]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """The outcome of one attempt. `error` is the exception that ended it, for Python callers; None on success."""

    outcome: LoadOutcome
    error: BaseException | None


def run_attempt(
    request: LoadRequest, runtime: Runtime, identity: LoadIdentity, open_sessions: OpenSessions
) -> AttemptResult:
    """Runs one attempt over the sessions that `open_sessions` opens, and returns its outcome.

    Never raises. Every exception becomes the failure of the outcome; an interruption does so after abort and cleanup,
    with exit 130 (Ctrl-C) or 143 (termination).
    """
    started_at = runtime.clock.utc_now()
    commit_state = CommitState()
    step_log = StepLog(identity=identity, plan=request.plan, clock=runtime.clock, audit=None)
    error: BaseException | None = None
    try:
        with open_sessions(identity) as sessions, ExitStack() as shield:
            step_log.audit = sessions.audit
            context = LoadContext(
                request=request,
                runtime=runtime,
                sessions=sessions,
                identity=identity,
                step_log=step_log,
                commit_state=commit_state,
                commit_shield=shield,
            )
            _process_under_lease(context)
        runtime.cancellation.settle()
    except BaseException as caught:  # noqa: BLE001 - every failure becomes an outcome here
        runtime.cancellation.settle()
        error = prefer_interruption(caught, runtime, commit_state)
    return AttemptResult(
        outcome=_build_outcome(request, runtime, step_log, commit_state, error, started_at), error=error
    )


def prefer_interruption(caught: BaseException, runtime: Runtime, commit_state: CommitState) -> BaseException:
    """Returns the interruption in place of a failure that it caused, else `caught` itself.

    A driver call that a signal interrupts raises an error of its own, and a signal that waits ends the attempt anyway:
    as long as the target is not mutated, the signal is what the outcome has to name. After the commit that is so only
    for a signal that was raised. An unknown outcome of the commit keeps its own name.
    """
    engine_failed = isinstance(caught, ConnectorError) or not isinstance(caught, DponeError)
    state = commit_state.target_state
    waits = engine_failed and state is TargetState.NOT_MUTATED
    raised = runtime.cancellation.heard() and state in (TargetState.NOT_MUTATED, TargetState.MUTATION_RETURNED_SUCCESS)
    if not waits and not raised:
        return caught
    try:
        runtime.cancellation.checkpoint()
    except BaseException as interruption:  # noqa: BLE001 - the signal itself becomes the failure
        return interruption
    return caught


def _process_under_lease(context: LoadContext) -> None:
    """Processes the attempt while it holds the lease of the target, and records a failure before the sessions close."""
    lease_port = context.sessions.lease
    now = context.runtime.clock.utc_now()
    lease = lease_port.acquire(context.config, context.identity, now) if lease_port is not None else None
    try:
        with _renew_while_running(context, lease):
            ETLProcessor(context=replace(context, lease=lease)).process()
    except BaseException as caught:
        error = prefer_interruption(caught, context.runtime, context.commit_state)
        with context.runtime.cancellation.shield():
            _record_failure(context, error)
            _release_quietly(context, lease)
        if error is caught:
            raise
        raise error from caught
    if lease_port is not None and lease is not None:
        lease_port.release(lease)


def _renew_while_running(context: LoadContext, lease: Lease | None) -> AbstractContextManager[None]:
    open_lease = context.sessions.open_lease
    if lease is None or open_lease is None:
        return nullcontext()
    return renew_in_background(lease, open_lease, context.runtime.clock)


def _release_quietly(context: LoadContext, lease: Lease | None) -> None:
    """Releases the lease after a failure, or lets it expire when this load or an earlier one may still publish, so that
    the next load takes their staging away. An error is a warning: the lease expires by itself, and the cause of the
    failed load must stay visible."""
    leases, state = context.sessions.lease, context.commit_state
    if leases is None or lease is None:
        return
    late = state.target_state is TargetState.UNKNOWN or (lease.taken_over and not state.earlier_loads_revoked)
    try:
        if late and context.sessions.sink.revocation is not None:
            leases.abandon(lease, context.runtime.clock.utc_now())
        else:
            leases.release(lease)
    except Exception:  # noqa: BLE001 - cleanup must not hide the first error
        context.step_log.warnings.append("lease_not_released")


def _record_failure(context: LoadContext, error: BaseException) -> None:
    details: dict[str, object] = {"failure_boundary": context.commit_state.boundary.value}
    is_acceptance = isinstance(error, AcceptanceMetricError)
    if isinstance(error, AcceptanceMetricError):
        details |= error.as_evidence()
    context.step_log.record_governance_failure(error, details, evidence=is_acceptance)
    context.step_log.record_load_failure(error)


def _build_outcome(
    request: LoadRequest,
    runtime: Runtime,
    step_log: StepLog,
    commit_state: CommitState,
    error: BaseException | None,
    started_at: datetime,
) -> LoadOutcome:
    if error is None and commit_state.source_state not in (SourceState.ADVANCED, SourceState.NOT_APPLICABLE):
        error = AssertionError("an attempt without error must say whether its source state advanced")
    return LoadOutcome(
        identity=step_log.identity,
        result=_fill_known_zeros(commit_state),
        target_state=commit_state.target_state,
        checkpoint_state=commit_state.checkpoint_state,
        source_state=commit_state.source_state,
        started_at=started_at,
        finished_at=runtime.clock.utc_now(),
        failure=None if error is None else failure_facts(error),
        boundary=None if error is None else commit_state.boundary,
        retry=None if error is None else commit_state.retry,
        quality_gates=None if commit_state.gate_report is None else commit_state.gate_report.as_json(),
        gate_counts=_count_gates(commit_state.gate_report),
        acceptance=_count_acceptance(request, commit_state.result),
        strategy=request.plan.target.strategy,
        window=None
        if commit_state.window is None
        else commit_state.window.as_json(request.config.sink.governance.window_values),
        transfer_plan=None if commit_state.stored_plan is None else commit_state.stored_plan.plan_fingerprint,
        partitions=None if commit_state.stored_plan is None else len(commit_state.stored_plan.plan.ranges),
        steps=tuple(step_log.steps),
        decisions=request.plan.decisions,
        warnings=(*request.plan.warnings, *step_log.warnings),
    )


def _fill_known_zeros(commit_state: CommitState) -> LoadResult:
    """The counters of the attempt, with zero for rows of a target that was not mutated.

    Only there zero is known; everywhere else a counter that nobody reported stays None.
    """
    if commit_state.target_state is TargetState.NOT_MUTATED:
        return replace(commit_state.result, inserted_rows=0, updated_rows=0)
    return commit_state.result


def _count_acceptance(request: LoadRequest, result: LoadResult) -> AcceptanceCounts:
    metrics = result.acceptance_metrics
    return AcceptanceCounts(
        required=request.snapshot.acceptance.is_required,
        sides=0 if metrics is None else len(metrics.snapshots),
        warnings=0 if metrics is None else metrics.warnings,
    )


def _count_gates(report: QualityGateReport | None) -> GateCounts:
    statuses = [] if report is None else [result.status for result in report.results]
    return GateCounts(
        passed=statuses.count(GateStatus.PASSED),
        failed=statuses.count(GateStatus.FAILED),
        warned=statuses.count(GateStatus.WARNING),
        skipped=statuses.count(GateStatus.SKIPPED),
    )
