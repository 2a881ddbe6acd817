"""Runs a prepared process: attempts, evidence, and the report that is true of the last attempt."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from dpone_core.evidence.markdown import run_markdown
from dpone_core.evidence.outcome import RunFacts, RunReport, failure_facts
from dpone_core.evidence.publish import PublishedEvidence, publish_evidence
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunInvocation
from dpone_core.loading.attempt import AttemptResult, OpenSessions, run_attempt
from dpone_core.loading.context import LoadEnvironment, LoadRequest
from dpone_core.model.identity import LoadIdentity, load_id_from
from dpone_core.model.vocabulary import Boundary, RetryClassification, TargetState
from dpone_core.planning.presentation import plan_json
from dpone_core.ports.clock import Clock
from dpone_core.version import __version__
from dpone_core.wiring.hook_providers import hook_actions
from dpone_core.wiring.preparation import PreparedProcess
from dpone_core.wiring.sessions import SessionOpener

EVIDENCE_KIND: Final = "dpone.run_evidence.v1"
DEFAULT_LOCK_TIMEOUT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Automatic attempts beyond the first happen only where the classification allows them."""

    retry_attempts: int = 0
    backoff_seconds: float = 0.0
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """`evidence` is None when none could be published; `error` is the exception a Python caller gets."""

    report: RunReport
    prepared: PreparedProcess
    evidence: PublishedEvidence | None
    error: BaseException | None


def run_process(
    prepared: PreparedProcess,
    invocation: RunInvocation,
    environment: LoadEnvironment,
    retry: RetryPolicy,
    redactor: Redactor,
    selector: str | None,
) -> RunOutcome:
    """Over the sessions of the prepared connections."""
    run = ProcessRun(
        prepared=prepared,
        invocation=invocation,
        environment=environment,
        retry=retry,
        redactor=redactor,
        selector=selector,
    )
    return run.over(session_opener(prepared))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRun:
    """One run of one prepared process."""

    prepared: PreparedProcess
    invocation: RunInvocation
    environment: LoadEnvironment
    retry: RetryPolicy
    redactor: Redactor
    selector: str | None

    def over(self, open_sessions: OpenSessions) -> RunOutcome:
        """Opens sessions once per attempt. Never raises for what a load can cause; the report says what happened."""
        config, retry = self.prepared.planned.config, self.retry
        facts = RunFacts(
            manifest=config.manifest,
            process=config.process,
            selector=self.selector,
            run_id=self.invocation.run_id,
            max_attempts=retry.retry_attempts + 1,
            retry_backoff_seconds=retry.backoff_seconds,
        )
        attempt, attempts = _attempts(self, open_sessions)
        report = RunReport(facts=facts, outcome=attempt.outcome, attempts=attempts)
        return _published(report, attempt.error, self.prepared, self.invocation, self.environment, self.redactor)


def session_opener(prepared: PreparedProcess) -> SessionOpener:
    return SessionOpener(
        config=prepared.planned.config,
        plan=prepared.planned.plan,
        source=prepared.source,
        sink=prepared.sink,
        lock_timeout_seconds=DEFAULT_LOCK_TIMEOUT_SECONDS,
    )


def fresh_identity(invocation: RunInvocation, clock: Clock, attempt: int) -> LoadIdentity:
    milliseconds = int(clock.utc_now().timestamp() * 1000)
    return LoadIdentity(
        run_id=invocation.run_id, load_id=load_id_from(milliseconds, clock.entropy(10)), attempt=attempt
    )


def _attempts(run: ProcessRun, open_sessions: OpenSessions) -> tuple[AttemptResult, int]:
    prepared, invocation, environment, retry = run.prepared, run.invocation, run.environment, run.retry
    planned = prepared.planned
    request = LoadRequest(
        config=planned.config,
        plan=planned.plan,
        snapshot=planned.snapshot,
        token_values=invocation.token_values,
        hook_receipts=prepared.hook_receipts,
        hook_actions=hook_actions(
            planned.config, planned.hook_providers, environment.evidence, prepared.hook_connections
        ),
    )
    number = 1
    while True:
        identity = fresh_identity(invocation, environment.clock, number)
        attempt = run_attempt(request, environment, identity, open_sessions)
        outcome = attempt.outcome
        interrupted = attempt.error is not None and not isinstance(attempt.error, Exception)
        repeatable = outcome.retry is not None and outcome.retry.allows_automatic_retry and not interrupted
        if outcome.passed or not repeatable or number > retry.retry_attempts:
            return attempt, number
        try:
            environment.progress.phase("backoff")
            retry.sleep(retry.backoff_seconds)
        except BaseException as interruption:  # noqa: BLE001 - stated in the outcome, like one inside an attempt
            return AttemptResult(
                outcome=replace(outcome, failure=failure_facts(interruption)), error=interruption
            ), number
        number += 1


def _published(
    report: RunReport,
    error: BaseException | None,
    prepared: PreparedProcess,
    invocation: RunInvocation,
    environment: LoadEnvironment,
    redactor: Redactor,
) -> RunOutcome:
    """run.json is written last; a run whose evidence cannot be published, for whatever reason, is not successful."""
    try:
        with environment.cancellation.shielded():
            evidence = _publish(report, prepared, invocation, environment, redactor)
    except Exception as publication:  # noqa: BLE001 - evidence writing must not hide what became of the load
        if error is not None:
            return RunOutcome(report=report, prepared=prepared, evidence=None, error=error)
        failed = _without_evidence(report, publication)
        with suppress(Exception), environment.cancellation.shielded():
            _publish(failed, prepared, invocation, environment, redactor)  # run.json may stand there and say passed
        return RunOutcome(report=failed, prepared=prepared, evidence=None, error=publication)
    return RunOutcome(report=report, prepared=prepared, evidence=evidence, error=error)


def _publish(
    report: RunReport,
    prepared: PreparedProcess,
    invocation: RunInvocation,
    environment: LoadEnvironment,
    redactor: Redactor,
) -> PublishedEvidence:
    assert report.outcome is not None  # run_attempt always states one
    planned = prepared.planned
    document = redactor.value(
        {
            "kind": EVIDENCE_KIND,
            "dpone_version": __version__,
            "load_id": report.outcome.identity.load_id,
            "policy_snapshot_id": planned.snapshot.policy_snapshot_id,
            "invocation": invocation.as_identity(),
            "plan": plan_json(planned.plan, planned.snapshot),
            "report": report.as_json(),
        }
    )
    markdown = redactor.text(run_markdown(report, planned.plan))
    process, identity = planned.plan.process, report.outcome.identity
    return publish_evidence(environment.evidence, process, identity, document, markdown, redactor)


def _without_evidence(report: RunReport, publication: Exception) -> RunReport:
    """A committed load whose run.json is missing: post_commit, the target keeps the load, nothing is rolled back."""
    assert report.outcome is not None
    outcome = replace(
        report.outcome,
        failure=failure_facts(publication),
        boundary=Boundary.POST_COMMIT,
        retry=RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION
        if report.outcome.target_state is TargetState.MUTATION_RETURNED_SUCCESS
        else RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
    )
    return replace(report, outcome=outcome)
