"""One run of one prepared process: its attempts, the evidence of each, and the report of the last one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from dpone_core.evidence.markdown import run_markdown
from dpone_core.evidence.outcome import EarlierAttempt, RunFacts, RunReport, failure_facts
from dpone_core.evidence.publish import PublishedEvidence, publish_evidence
from dpone_core.evidence.redaction import Redactor
from dpone_core.evidence.succeeded_run import SucceededRun, WantedRun, find_succeeded_run, outcome_section
from dpone_core.invocation import RunInvocation
from dpone_core.loading.attempt import AttemptResult, OpenSessions, run_attempt
from dpone_core.loading.context import LoadRequest
from dpone_core.model.vocabulary import Boundary, RetryClassification, TargetState
from dpone_core.planning.presentation import plan_json
from dpone_core.ports.runtime import Runtime
from dpone_core.use_cases.prepare import PreparedProcess, make_load_identity
from dpone_core.version import __version__
from dpone_core.wiring.hook_providers import make_hook_actions

EVIDENCE_KIND: Final = "dpone.run_evidence.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a failed attempt is repeated by itself; only where its classification allows a retry."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRun:
    """One prepared process with all that its run needs."""

    prepared: PreparedProcess
    invocation: RunInvocation
    runtime: Runtime
    retry: RetryPolicy
    redactor: Redactor
    selector: str | None
    once: bool = False

    def run(self, open_sessions: OpenSessions | None = None) -> RunOutcome:
        """Opens sessions once per attempt; None = over the prepared connections.

        Never raises for what a load can cause: the report says what happened. Told to run `once`, it does nothing when
        an earlier try of this run has succeeded, and tells what that try did.
        """
        done = self._find_success() if self.once else None
        if done is not None:
            return self._tell_again(done)
        last = _run_attempts(self, open_sessions or self.prepared.session_opener())
        report = self.report(last)
        if last.evidence is not None:
            return RunOutcome(report=report, prepared=self.prepared, evidence=last.evidence, error=last.result.error)
        return _publish_last(report, last.result.error, self)

    def report(self, attempt: Attempt) -> RunReport:
        return RunReport(
            facts=self._facts(),
            outcome=attempt.result.outcome,
            attempts=attempt.number,
            earlier=tuple(attempt.earlier),
        )

    def identity_sections(self) -> dict[str, object]:
        """The parts of run.json that say which run it is, under which plan and policy."""
        planned = self.prepared.planned
        return {
            "kind": EVIDENCE_KIND,
            "policy_snapshot_id": planned.snapshot.policy_snapshot_id,
            "invocation": self.redactor.value(self.invocation.as_identity()),
            "plan": self.redactor.value(plan_json(planned.plan, planned.snapshot)),
        }

    def _find_success(self) -> SucceededRun | None:
        wanted = WantedRun(
            process=self.prepared.planned.plan.process,
            run_id=self.invocation.run_id,
            sections=self.identity_sections(),
            tries=self.invocation.earlier_tries,
            transfer_plan=self.prepared.transfer_plan,
        )
        return find_succeeded_run(self.runtime.evidence, wanted)

    def _tell_again(self, done: SucceededRun) -> RunOutcome:
        attempts = done.outcome.identity.attempt
        report = RunReport(facts=self._facts(), outcome=done.outcome, attempts=attempts, published=done.report)
        return RunOutcome(report=report, prepared=self.prepared, evidence=done.evidence, error=None)

    def _facts(self) -> RunFacts:
        config, retry = self.prepared.planned.config, self.retry
        return RunFacts(
            manifest=config.manifest,
            process=config.process,
            selector=self.selector,
            run_id=self.invocation.run_id,
            max_attempts=retry.retry_attempts + 1,
            retry_backoff_seconds=retry.backoff_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt and those before it. `evidence` is None until its own is published."""

    result: AttemptResult
    number: int
    earlier: tuple[EarlierAttempt, ...]
    evidence: PublishedEvidence | None = None


def _run_attempts(run: ProcessRun, open_sessions: OpenSessions) -> Attempt:
    """Runs attempts until one succeeds or may not be repeated.

    The evidence of every attempt but the last is published before the next begins, so that none is overwritten; an
    attempt whose evidence cannot be published is the last.
    """
    request, retry, cancellation = _make_request(run), run.retry, run.runtime.cancellation
    earlier: tuple[EarlierAttempt, ...] = ()
    number = 1
    while True:
        identity = make_load_identity(run.invocation, run.runtime.clock, number)
        cancellation.resume()
        result = run_attempt(request, run.runtime, identity, open_sessions)
        attempt = Attempt(result=result, number=number, earlier=earlier)
        if not _is_repeatable(result) or number > retry.retry_attempts:
            return attempt
        try:
            evidence = _publish(run.report(attempt), run)
        except Exception:  # noqa: BLE001 - published, or failed, once more as the evidence of the last attempt
            return attempt
        earlier = (*earlier, _as_earlier(attempt, evidence))
        try:
            run.runtime.progress.phase("backoff")
            cancellation.resume()
            cancellation.checkpoint()
            retry.sleep(retry.backoff_seconds)
        except BaseException as interruption:  # noqa: BLE001 - stated in the outcome, like one inside an attempt
            cancellation.settle()
            outcome = replace(result.outcome, failure=failure_facts(interruption))
            interrupted = AttemptResult(outcome=outcome, error=interruption)
            return Attempt(result=interrupted, number=number, earlier=earlier, evidence=evidence)
        number += 1


def _make_request(run: ProcessRun) -> LoadRequest:
    prepared, runtime = run.prepared, run.runtime
    planned = prepared.planned
    return LoadRequest(
        config=planned.config,
        plan=planned.plan,
        snapshot=planned.snapshot,
        token_values=run.invocation.token_values,
        hook_receipts=prepared.hook_receipts,
        hook_actions=make_hook_actions(
            planned.config, planned.hook_providers, runtime.evidence, prepared.hook_connections, run.redactor
        ),
        transfer_plan=prepared.transfer_plan,
    )


def _is_repeatable(result: AttemptResult) -> bool:
    """Whether the attempt failed, was not interrupted, and may be repeated by its classification."""
    retry = result.outcome.retry
    return isinstance(result.error, Exception) and retry is not None and retry.allows_automatic_retry


def _as_earlier(attempt: Attempt, evidence: PublishedEvidence) -> EarlierAttempt:
    return EarlierAttempt(
        number=attempt.number,
        outcome=attempt.result.outcome,
        evidence_path=evidence.path,
        evidence_sha256=evidence.sha256,
    )


def _publish_last(report: RunReport, error: BaseException | None, run: ProcessRun) -> RunOutcome:
    """Publishes the evidence of the last attempt, run.json last; a run without published evidence has failed."""
    prepared = run.prepared
    try:
        evidence = _publish(report, run)
    except Exception as publication:  # noqa: BLE001 - evidence writing must not hide what became of the load
        if error is not None:
            return RunOutcome(report=_with_warning(report), prepared=prepared, evidence=None, error=error)
        failed = _without_evidence(report, publication)
        with suppress(Exception):
            _publish(failed, run)  # run.json may stand there and say passed
        return RunOutcome(report=failed, prepared=prepared, evidence=None, error=publication)
    return RunOutcome(report=report, prepared=prepared, evidence=evidence, error=error)


def _publish(report: RunReport, run: ProcessRun) -> PublishedEvidence:
    assert report.outcome is not None  # run_attempt always states one
    planned, redactor = run.prepared.planned, run.redactor
    sections = run.identity_sections()
    document = {
        "kind": sections.pop("kind"),
        "dpone_version": __version__,
        "load_id": report.outcome.identity.load_id,
        **sections,
        "outcome": outcome_section(report.outcome),
        "report": redactor.value(report.as_json()),
    }
    markdown = redactor.text(run_markdown(report, planned.plan))
    process, identity = planned.plan.process, report.outcome.identity
    return publish_evidence(run.runtime.evidence, process, identity, document, markdown, redactor)


def _with_warning(report: RunReport) -> RunReport:
    """The report of a failed run that says itself that it stands nowhere else."""
    assert report.outcome is not None
    warnings = list(report.outcome.warnings)
    warnings.append("evidence_not_published")
    return replace(report, outcome=replace(report.outcome, warnings=tuple(warnings)))


def _without_evidence(report: RunReport, publication: Exception) -> RunReport:
    """Returns the report of a committed load whose run.json is missing: it failed after the commit, which stays."""
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
