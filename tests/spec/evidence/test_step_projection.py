"""The step receipt is a projection of what a command did and how it ended; what was refused still says whose it is.

Nothing here writes a file or reads the environment: `project_step` is given both.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dpone_core.errors import ETLConfigurationError, ETLExecutionError
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunArguments, RunInvocation, resolve_invocation
from dpone_core.model.vocabulary import HookPhase, RetryClassification, StepKind
from dpone_core.use_cases.fan_out import TransferExecution
from dpone_core.use_cases.hooks import HooksExecution, HooksReport
from dpone_core.use_cases.step_receipt import ReceiptNotWrittenError, RefusedStep, StepExit, StepStatement, project_step
from tests.spec.builders import Project, append_flow

FINGERPRINT = "sha256:" + "a" * 64
SCHEDULED = {
    "DPONE_STEP_ID": "dpone_run_orders",
    "DPONE_DAG_ID": "orders",
    "DPONE_DAG_RUN_ID": "scheduled-1",
    "DPONE_TRY_NUMBER": "3",
    "DPONE_MAP_INDEX": "1",
    "DPONE_RUN_SPEC_FINGERPRINT": FINGERPRINT,
}
REFUSAL = ETLConfigurationError("there is no such hook", code="DPONE_HOOK_UNKNOWN")
FAILURE = ETLExecutionError("it broke", code="hook_failed")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ended(exit_code: int = 0, **changes: Any) -> StepExit:
    end = StepExit(
        kind=StepKind.LOAD,
        pack_fingerprint=None,
        env={},
        exit_code=exit_code,
        error=None,
        started_at=NOON,
        finished_at=NOON,
    )
    return replace(end, **changes)


def projected(execution: Any, end: StepExit, *secrets: str) -> StepStatement:
    return project_step(execution, end, Redactor(secrets))


def invocation(**arguments: str) -> RunInvocation:
    return resolve_invocation(RunArguments(**arguments), SCHEDULED, "fresh")


def hooks(error: BaseException | None = None, retry: RetryClassification | None = None) -> HooksExecution:
    report = HooksReport(
        manifest="m.yaml",
        process="orders",
        selector=None,
        phase=HookPhase.PRE,
        hook_id=None,
        status="succeeded" if error is None else "failed",
        steps=(),
        retry=retry,
    )
    return HooksExecution(
        report=report, invocation=invocation(), policy_snapshot_id=FINGERPRINT, sql_hash=None, error=error
    )


def transfer(**changes: Any) -> TransferExecution:
    execution = TransferExecution(
        kind=StepKind.TRANSFER_PARTITION,
        process="orders",
        policy_snapshot_id=FINGERPRINT,
        load_id="0" * 26,
        invocation=invocation(),
        transfer_plan=FINGERPRINT,
        partitions=4,
        extracted_rows=7,
        staged_rows=7,
    )
    return replace(execution, **changes)


def test_a_command_that_did_nothing_is_known_by_its_environment_and_its_error() -> None:
    end = ended(2, error=REFUSAL, env=SCHEDULED, kind=StepKind.HOOK, pack_fingerprint=FINGERPRINT)
    statement = projected(None, end)
    receipt = statement.receipt
    assert (receipt.kind, receipt.step_id, receipt.dag_run_id) == (StepKind.HOOK, "dpone_run_orders", "scheduled-1")
    assert (receipt.try_number, receipt.map_index, receipt.pack_fingerprint) == (3, 1, FINGERPRINT)
    assert (receipt.status.value, receipt.error_code) == ("refused", "DPONE_HOOK_UNKNOWN")
    assert statement.line == "DPONE_HOOK_UNKNOWN: there is no such hook"


@pytest.mark.parametrize("name", ["DPONE_TRY_NUMBER", "DPONE_MAP_INDEX", "DPONE_RUN_SPEC_FINGERPRINT"])
def test_a_malformed_variable_of_a_refused_step_costs_no_receipt(name: str) -> None:
    end = ended(2, error=REFUSAL, env={**SCHEDULED, name: "-x"}, pack_fingerprint="not a fingerprint")
    receipt = projected(None, end).receipt
    assert receipt.dag_id == "orders" and receipt.pack_fingerprint is None


@pytest.mark.parametrize("kind", StepKind)
def test_a_refused_step_keeps_the_identity_that_was_asked_for(kind: StepKind) -> None:
    refused = RefusedStep(kind=kind, invocation=invocation(run_id="mine", dag_id="nightly"), refusal=REFUSAL)
    receipt = projected(refused, ended(2, kind=kind, env=SCHEDULED)).receipt
    assert (receipt.kind, receipt.run_id, receipt.dag_id) == (kind, "mine", "nightly")
    assert (receipt.error_code, receipt.run_spec_fingerprint) == ("DPONE_HOOK_UNKNOWN", FINGERPRINT)


def test_hooks_that_failed_say_whether_they_may_be_repeated() -> None:
    retry = RetryClassification.OPERATOR_VERIFICATION_REQUIRED
    statement = projected(hooks(FAILURE, retry), ended(1, kind=StepKind.HOOK))
    receipt = statement.receipt
    assert (receipt.process, receipt.error_code, receipt.retry_classification) == ("orders", "hook_failed", retry)
    assert receipt.target_state is None and statement.line == "hook_failed: it broke"


def test_a_success_has_no_code_and_its_line_names_the_step() -> None:
    statement = projected(hooks(), ended(0, kind=StepKind.HOOK))
    assert statement.receipt.error_code is None
    assert statement.line == "succeeded: dpone_run_orders"


def test_what_was_raised_after_the_work_outweighs_it() -> None:
    receipt = projected(hooks(), ended(1, kind=StepKind.HOOK, error=FAILURE)).receipt
    assert (receipt.status.value, receipt.error_code) == ("failed", "hook_failed")
    assert receipt.policy_snapshot_id == FINGERPRINT


def test_a_staged_range_counts_what_it_read() -> None:
    receipt = projected(transfer(), ended(0, kind=StepKind.TRANSFER_PARTITION)).receipt
    assert (receipt.extracted_rows, receipt.staged_rows, receipt.partitions) == (7, 7, 4)


def test_a_receipt_and_its_line_hold_no_secret() -> None:
    """Neither a message that names one nor an id that the environment states of a step that never began."""
    error = ETLExecutionError("it broke with c4n4ry-p4ssw0rd", code="hook_failed")
    statement = projected(hooks(error), ended(1, kind=StepKind.HOOK), "c4n4ry-p4ssw0rd")
    assert statement.line == "hook_failed: it broke with [REDACTED]"
    receipt = projected(None, ended(2, env={"DPONE_DAG_RUN_ID": "password=c4n4ry"})).receipt
    assert receipt.dag_run_id == receipt.run_id == "password=[REDACTED]"


def test_facts_that_contradict_each_other_make_no_receipt() -> None:
    with pytest.raises(ReceiptNotWrittenError):
        projected(transfer(staged_rows=None), ended(0, kind=StepKind.TRANSFER_PARTITION))


def test_a_run_is_projected_from_its_only_outcome(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.orders()
    project.written(append_flow())
    execution = project.execute("r1")
    receipt = projected(execution, ended(0)).receipt
    (outcome,) = execution.outcomes
    assert outcome.evidence is not None
    assert (receipt.run_id, receipt.process, receipt.inserted_rows) == ("r1", "orders", 2)
    assert (receipt.evidence_path, receipt.evidence_sha256) == (outcome.evidence.path, outcome.evidence.sha256)
    refused = project.execute("r2", manifest="absent.yaml")
    receipt = projected(refused, ended(2)).receipt
    assert (receipt.run_id, receipt.status.value, receipt.process) == ("r2", "refused", None)
