"""The step receipt as a projection: what a command did and how it ended, in the form that Airflow verifies.

Pure: reads no clock, file or environment. `cli.step` gives it the facts of the exit and writes what it returns. It
judges nothing: whether the step succeeded was decided before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from dpone_core.contracts.step_receipt import (
    EvidenceReference,
    StepCounters,
    StepIdentity,
    StepReceipt,
    StepResult,
    seal,
    upstream_fingerprint,
)
from dpone_core.errors import DponeError, ETLExecutionError
from dpone_core.evidence.gate_words import failed_gate_line
from dpone_core.evidence.json_view import JsonView
from dpone_core.evidence.outcome import FailureFacts, LoadOutcome, failure_facts
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunInvocation
from dpone_core.model.fingerprint import is_fingerprint
from dpone_core.model.vocabulary import RetryClassification, StepKind, StepStatus
from dpone_core.version import __version__

if TYPE_CHECKING:  # the executions are told apart by their `kind`, so that a receipt imports none of their machinery
    from dpone_core.use_cases.fan_out import TransferExecution
    from dpone_core.use_cases.hooks import HooksExecution
    from dpone_core.use_cases.run import RunExecution
    from dpone_core.use_cases.verify import BundleVerification

StepExecution: TypeAlias = "RunExecution | HooksExecution | TransferExecution | BundleVerification | RefusedStep"
UPSTREAM_ENV: Final = "DPONE_UPSTREAM"
"""JSON object: step id -> digest of its receipt, null where it left none."""

_STATUS_OF_EXIT: Final = {
    0: StepStatus.SUCCEEDED,
    2: StepStatus.REFUSED,
    130: StepStatus.INTERRUPTED,
    143: StepStatus.INTERRUPTED,
}


class ReceiptNotWrittenError(ETLExecutionError):
    """The receipt could not be made or written; the step must not look successful."""

    code = "DPONE_RECEIPT_NOT_WRITTEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedStep:
    """A step that was refused before it did anything. `invocation` None = the refusal is about the identity itself."""

    kind: StepKind
    invocation: RunInvocation | None
    refusal: DponeError


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExit:
    """How a command ended. `error` is what it raised, None where its execution says all.

    `kind`, `pack_fingerprint` (as given on the command line, maybe malformed) and `env` are what is known of a step
    that ended before it had an invocation.
    """

    kind: StepKind
    pack_fingerprint: str | None
    env: Mapping[str, str]
    exit_code: int
    error: BaseException | None
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatement:
    """The sealed receipt, and the one line a person reads first in the pod's termination message."""

    receipt: StepReceipt
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _StepFacts:
    """What an execution says for its receipt; None = not known. `counters` are those of a step without an outcome."""

    identity: StepIdentity
    outcome: LoadOutcome | None = None
    counters: StepCounters | None = None
    evidence: EvidenceReference | None = None
    retry: RetryClassification | None = None
    failure: FailureFacts | None = None


def project_step(execution: StepExecution | None, end: StepExit, redactor: Redactor) -> StepStatement:
    """Returns the receipt of one exit, redacted. `execution` None = the command ended before it did anything.

    Raises ReceiptNotWrittenError where the facts contradict each other.
    """
    facts = _facts_of(execution, end)
    failure = facts.failure if end.error is None else failure_facts(end.error)
    try:
        receipt = seal(
            dpone_version=__version__,
            identity=replace(_redacted(facts.identity, redactor), upstream=_upstream(end.env)),
            result=_result(facts, end, failure),
            counters=facts.counters or _counters(facts.outcome),
            evidence=facts.evidence,
        )
    except DponeError as error:
        raise ReceiptNotWrittenError(f"the facts of this step make no receipt: {error.message}") from error
    line = f"{receipt.status.value}: {receipt.step_id or receipt.kind.value}" if failure is None else failure.line
    found = None if facts.outcome is None else failed_gate_line(JsonView(facts.outcome.quality_gates))
    return StepStatement(receipt=receipt, line=redactor.text(line if found is None else f"{line}; {found}"))


def _redacted(identity: StepIdentity, redactor: Redactor) -> StepIdentity:
    """Names and ids of a run that began are no secrets; what the environment said of a refused one may be anything."""

    def redacted(text: str | None) -> str | None:
        return None if text is None else redactor.text(text)

    return replace(
        identity,
        step_id=redacted(identity.step_id),
        process=redacted(identity.process),
        dag_id=redacted(identity.dag_id),
        dag_run_id=redacted(identity.dag_run_id),
        run_id=redacted(identity.run_id),
    )


def _facts_of(execution: StepExecution | None, end: StepExit) -> _StepFacts:
    if execution is None:
        return _StepFacts(identity=_scheduled_identity(end))
    if isinstance(execution, RefusedStep):
        return _refusal_facts(execution.invocation, execution.refusal, end)
    if execution.kind is StepKind.LOAD:
        return _run_facts(execution, end)
    if execution.kind is StepKind.HOOK:
        return _hooks_facts(execution, end)
    if execution.kind is StepKind.BUNDLE_VERIFY:
        return _StepFacts(identity=_invoked_identity(execution.invocation, end))
    return _transfer_facts(execution, end)


def _refusal_facts(invocation: RunInvocation | None, refusal: DponeError, end: StepExit) -> _StepFacts:
    identity = _scheduled_identity(end)
    if invocation is not None:
        invoked = _invoked_identity(invocation, end)
        identity = replace(invoked, run_spec_fingerprint=identity.run_spec_fingerprint)
    return _StepFacts(identity=identity, failure=failure_facts(refusal))


def _run_facts(execution: RunExecution, end: StepExit) -> _StepFacts:
    """A run with a receipt is of one process, so its last outcome is its only one."""
    if execution.refusal is not None:
        return _refusal_facts(execution.invocation, execution.refusal, end)
    done = execution.outcomes[-1]
    load, invocation = done.report.outcome, execution.invocation
    assert load is not None and invocation is not None  # an executed run has both
    planned = done.prepared.planned
    identity = replace(
        _invoked_identity(invocation, end),
        process=planned.plan.process,
        load_id=load.identity.load_id,
        policy_snapshot_id=planned.snapshot.policy_snapshot_id,
        transfer_plan=load.transfer_plan,
        partitions=load.partitions,
        strategy=load.strategy,
    )
    evidence = done.evidence
    return _StepFacts(
        identity=identity,
        outcome=load,
        evidence=None if evidence is None else EvidenceReference(path=evidence.path, sha256=evidence.sha256),
        failure=load.failure,
    )


def _hooks_facts(execution: HooksExecution, end: StepExit) -> _StepFacts:
    identity = replace(
        _invoked_identity(execution.invocation, end),
        process=execution.report.process,
        policy_snapshot_id=execution.policy_snapshot_id,
        sql_hash=execution.sql_hash,
    )
    return _StepFacts(identity=identity, retry=execution.report.retry, failure=_failure(execution.error))


def _transfer_facts(execution: TransferExecution, end: StepExit) -> _StepFacts:
    identity = replace(
        _invoked_identity(execution.invocation, end),
        process=execution.process,
        load_id=execution.load_id,
        policy_snapshot_id=execution.policy_snapshot_id,
        transfer_plan=execution.transfer_plan,
        partitions=execution.partitions,
    )
    return _StepFacts(
        identity=identity,
        counters=StepCounters(extracted_rows=execution.extracted_rows, staged_rows=execution.staged_rows),
        retry=execution.retry,
        failure=_failure(execution.error),
    )


def _failure(error: BaseException | None) -> FailureFacts | None:
    return None if error is None else failure_facts(error)


def _invoked_identity(invocation: RunInvocation, end: StepExit) -> StepIdentity:
    """Ids as the scheduler gave them; outside Airflow most are unknown and stay null."""
    return StepIdentity(
        kind=end.kind,
        step_id=invocation.step_id,
        dag_id=invocation.dag_id,
        dag_run_id=invocation.dag_run_id,
        run_id=invocation.run_id,
        try_number=invocation.try_number,
        map_index=invocation.map_index,
        run_spec_fingerprint=invocation.run_spec_fingerprint,
        pack_fingerprint=_fingerprint_or_none(end.pack_fingerprint),
    )


def _scheduled_identity(end: StepExit) -> StepIdentity:
    """Ids as the environment states them, read leniently: a step that was refused must still say whose it is."""

    def text(name: str) -> str | None:
        return end.env.get(name, "").strip() or None

    def integer(name: str, default: int) -> int:
        value = end.env.get(name, "").strip()
        return int(value) if value.lstrip("-").isdecimal() and value.isascii() else default

    return StepIdentity(
        kind=end.kind,
        step_id=text("DPONE_STEP_ID"),
        dag_id=text("DPONE_DAG_ID"),
        dag_run_id=text("DPONE_DAG_RUN_ID"),
        run_id=text("DPONE_DAG_RUN_ID"),
        try_number=max(0, integer("DPONE_TRY_NUMBER", 1)),
        map_index=max(-1, integer("DPONE_MAP_INDEX", -1)),
        run_spec_fingerprint=_fingerprint_or_none(text("DPONE_RUN_SPEC_FINGERPRINT")),
        pack_fingerprint=_fingerprint_or_none(end.pack_fingerprint),
    )


def _fingerprint_or_none(text: str | None) -> str | None:
    """A malformed fingerprint is refused by the check it is for; the receipt must not fail because of it."""
    return text if is_fingerprint(text) else None


def _upstream(env: Mapping[str, str]) -> str | None:
    """Fingerprint of the receipts that the scheduler says this step follows, None where it says nothing sound."""
    try:
        digests = json.loads(env.get(UPSTREAM_ENV, "") or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(digests, dict) or not all(value is None or is_fingerprint(value) for value in digests.values()):
        return None
    return upstream_fingerprint(digests)


def _result(facts: _StepFacts, end: StepExit, failure: FailureFacts | None) -> StepResult:
    outcome, succeeded = facts.outcome, end.exit_code == 0
    gate = outcome.failed_gate if outcome else JsonView(None)
    code = DponeError.code if failure is None else failure.code
    return StepResult(
        status=_STATUS_OF_EXIT.get(end.exit_code, StepStatus.FAILED),
        exit_code=end.exit_code,
        started_at=end.started_at,
        finished_at=end.finished_at,
        error_code=None if succeeded else code,
        failure_boundary=outcome.boundary if outcome else None,
        target_state=outcome.target_state if outcome else None,
        checkpoint_state=outcome.checkpoint_state if outcome else None,
        source_state=outcome.source_state if outcome else None,
        retry_classification=outcome.retry if outcome else facts.retry,
        failed_gate=gate.text("gate_id"),
        gate_failed_rows=gate.count("metrics", "failed_rows"),
        gate_evaluated_rows=gate.count("metrics", "evaluated_rows"),
    )


def _counters(outcome: LoadOutcome | None) -> StepCounters:
    if outcome is None:
        return StepCounters()
    result, acceptance = outcome.result, outcome.acceptance
    return StepCounters(
        extracted_rows=result.extracted_rows,
        staged_rows=result.staged_rows,
        inserted_rows=result.inserted_rows,
        updated_rows=result.updated_rows,
        final_rows=result.final_rows,
        gates_passed=outcome.gate_counts.passed,
        gates_failed=outcome.gate_counts.failed,
        gates_warned=outcome.gate_counts.warned,
        gates_skipped=outcome.gate_counts.skipped,
        acceptance_required=acceptance.required,
        acceptance_sides=acceptance.sides,
        acceptance_warnings=acceptance.warnings,
    )
