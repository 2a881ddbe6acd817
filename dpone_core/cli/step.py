"""The step receipt of every exit: to --receipt-path atomically, and into the pod's termination message.

Not a judgment: whether the step succeeded was decided before; the receipt says it in a form Airflow can verify.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from dpone_core.contracts.step_receipt import (
    EvidenceReference,
    StepCounters,
    StepIdentity,
    StepReceipt,
    StepResult,
    seal,
    termination_message,
)
from dpone_core.errors import DponeError, ETLExecutionError
from dpone_core.evidence.outcome import LoadOutcome, failure_facts
from dpone_core.model.fingerprint import is_fingerprint
from dpone_core.model.vocabulary import RetryClassification, StepKind, StepStatus
from dpone_core.version import __version__

TERMINATION_LOG: Final = "DPONE_TERMINATION_LOG"
_DEFAULT_TERMINATION_LOG: Final = "/dev/termination-log"


class ReceiptNotWrittenError(ETLExecutionError):
    """The receipt could not be written; the step must not look successful."""

    code = "DPONE_RECEIPT_NOT_WRITTEN"


def environment_identity(environment: Mapping[str, str]) -> StepIdentity:
    """Ids as the scheduler's environment states them, read leniently: a refused step must still say whose it is."""

    def text(name: str) -> str | None:
        value = environment.get(name, "").strip()
        return value or None

    def integer(name: str, default: int) -> int:
        value = environment.get(name, "").strip()
        return int(value) if value.lstrip("-").isdecimal() and value.isascii() else default

    fingerprint = text("DPONE_RUN_SPEC_FINGERPRINT")
    return StepIdentity(
        kind=StepKind.LOAD,
        step_id=text("DPONE_STEP_ID"),
        dag_id=text("DPONE_DAG_ID"),
        dag_run_id=text("DPONE_DAG_RUN_ID"),
        run_id=text("DPONE_DAG_RUN_ID"),
        try_number=max(0, integer("DPONE_TRY_NUMBER", 1)),
        map_index=max(-1, integer("DPONE_MAP_INDEX", -1)),
        run_spec_fingerprint=fingerprint if is_fingerprint(fingerprint) else None,
    )


@dataclass(slots=True, kw_only=True)
class StepFacts:
    """What a command learned for its receipt, filled in as it goes; None = not known when it ended.

    `counters` are those of a step without an outcome.
    """

    identity: StepIdentity = field(default_factory=lambda: environment_identity(os.environ))
    outcome: LoadOutcome | None = None
    counters: StepCounters | None = None
    evidence: EvidenceReference | None = None
    retry: RetryClassification | None = None
    error_code: str | None = None
    error_line: str | None = None


def write_receipt(
    path: str, facts: StepFacts, exit_code: int, error: BaseException | None, times: tuple[datetime, datetime]
) -> StepReceipt:
    """Temporary file and rename; the termination message in place, best effort. Raises ReceiptNotWrittenError."""
    receipt = _receipt(facts, exit_code, error, times)
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(receipt.encode())
        os.replace(temporary, target)
    except OSError as failure:
        with suppress(OSError):  # the directory itself may be what refuses
            temporary.unlink()
        raise ReceiptNotWrittenError("the step receipt could not be written") from failure
    _write_termination_message(facts, receipt)
    return receipt


def _receipt(
    facts: StepFacts, exit_code: int, error: BaseException | None, times: tuple[datetime, datetime]
) -> StepReceipt:
    code = facts.error_code
    if error is not None:
        failure = failure_facts(error)
        code, facts.error_line = failure.code, failure.line
    if exit_code == 0:
        code = None
    try:
        return seal(
            dpone_version=__version__,
            identity=facts.identity,
            result=_result(facts, exit_code, code, times),
            counters=facts.counters or _counters(facts.outcome),
            evidence=facts.evidence,
        )
    except DponeError as failure:
        raise ReceiptNotWrittenError(f"the facts of this step make no receipt: {failure.message}") from failure


def _result(facts: StepFacts, exit_code: int, code: str | None, times: tuple[datetime, datetime]) -> StepResult:
    outcome = facts.outcome
    status = {0: StepStatus.SUCCEEDED, 2: StepStatus.REFUSED, 130: StepStatus.INTERRUPTED, 143: StepStatus.INTERRUPTED}
    return StepResult(
        status=status.get(exit_code, StepStatus.FAILED),
        exit_code=exit_code,
        started_at=times[0],
        finished_at=times[1],
        error_code=code if code is not None or exit_code == 0 else DponeError.code,
        failure_boundary=outcome.boundary if outcome else None,
        target_state=outcome.target_state if outcome else None,
        checkpoint_state=outcome.checkpoint_state if outcome else None,
        source_state=outcome.source_state if outcome else None,
        retry_classification=outcome.retry if outcome else facts.retry,
    )


def _counters(outcome: LoadOutcome | None) -> StepCounters:
    if outcome is None:
        return StepCounters()
    result, acceptance = outcome.result, outcome.result.acceptance_metrics
    return StepCounters(
        extracted_rows=result.extracted_rows,
        staged_rows=result.staged_rows,
        inserted_rows=result.inserted_rows,
        updated_rows=result.updated_rows,
        final_rows=result.final_rows,
        gates_passed=outcome.gate_counts.passed,
        gates_failed=outcome.gate_counts.failed,
        gates_warned=outcome.gate_counts.warned,
        acceptance_required=outcome.acceptance_required,
        acceptance_sides=len(acceptance.snapshots) if acceptance else 0,
        acceptance_warnings=acceptance.warnings if acceptance else 0,
    )


def _write_termination_message(facts: StepFacts, receipt: StepReceipt) -> None:
    """In place: a rename over Kubernetes' bind mount fails. Absent outside a pod, and then nothing is written."""
    path = Path(os.environ.get(TERMINATION_LOG) or _DEFAULT_TERMINATION_LOG)
    line = facts.error_line or f"{receipt.status.value}: {receipt.step_id or receipt.kind.value}"
    try:
        if path.is_file():
            path.write_bytes(termination_message(line, receipt))
    except OSError:
        return
