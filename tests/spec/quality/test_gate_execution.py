"""Only the receipt that this very execution issued authorises a load, and its forgeries do not (RCPT-07, RCPT-11)."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dpone_core.model.vocabulary import Boundary, GateStatus, LoadPath, Severity
from dpone_core.quality.execution import ExecutionState, QualityGateExecution
from dpone_core.quality.failure import QualityGateFailure
from dpone_core.quality.gates import QualityGateResult
from dpone_core.quality.receipt import (
    QualityGateReceipt,
    QualityGateReceiptError,
    QualityGateReceiptInvalidError,
    QualityGateReceiptMismatchError,
    QualityGateReceiptRequiredError,
    StagedQualityGateReceipt,
    report_from_staged_quality_receipt,
    verify_receipt,
)
from dpone_core.quality.report import QualityGateReport
from dpone_core.quality.runner import QualityGateRunner
from dpone_core.quality.scope import QualityScopeSummary
from tests.spec.quality.builders import MIN_ROWS, ROW_COUNT, execution, identity, judged, policy, rows

REQUIRED = QualityGateReceiptRequiredError


MISMATCH = QualityGateReceiptMismatchError


INVALID = QualityGateReceiptInvalidError


OTHER_LOAD = "01KB6Q4X7D8M1T9N3VZ5C2R0AF"


def bound_report() -> QualityGateReport:
    return QualityGateRunner().run(policy(MIN_ROWS), source=rows(1), target=rows(1))


def passing(gate_id: str = "min_rows", **fields: object) -> QualityGateResult:
    result = QualityGateResult(gate_id=gate_id, type="min_rows", status=GateStatus.PASSED, severity=Severity.ERROR)
    return dataclasses.replace(result, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", list(LoadPath))
def test_the_issued_receipt_is_accepted_once_for_payload_and_once_for_state(path: LoadPath) -> None:
    owner = execution(MIN_ROWS, path=path)
    receipt = judged(owner, path.boundary)
    owner.accept_payload(receipt)
    owner.accept_state(receipt)
    assert owner.state is ExecutionState.STATE_ACCEPTED


@pytest.mark.parametrize("path", [LoadPath.STAGED, LoadPath.LEGACY, LoadPath.RESUME, None], ids=lambda path: str(path))
@pytest.mark.parametrize("boundary", [*Boundary, "pre_commit", None])
def test_gates_are_judged_at_the_boundary_of_the_selected_path_only(path: LoadPath | None, boundary: Boundary) -> None:
    owner = execution(MIN_ROWS, path=path)
    if path is not None and boundary is path.boundary:
        judged(owner, boundary)
        return
    with pytest.raises(INVALID):
        judged(owner, boundary)
    assert owner.state is ExecutionState.INVALID


def test_the_path_is_selected_once() -> None:
    owner = execution(MIN_ROWS)
    with pytest.raises(INVALID):
        owner.select_path(LoadPath.LEGACY)
    assert owner.state is ExecutionState.INVALID


def test_a_blocking_judgment_raises_and_issues_nothing() -> None:
    owner = execution(ROW_COUNT)
    with pytest.raises(QualityGateFailure) as failure:
        owner.evaluate(boundary=Boundary.PRE_COMMIT, source=rows(2), target=rows(1))
    assert owner.state is ExecutionState.FAILED
    assert failure.value.report.policy_fingerprint == policy(ROW_COUNT).policy_fingerprint
    with pytest.raises(REQUIRED):
        owner.accept_payload(None)
    with pytest.raises(INVALID):
        owner.accept_payload(
            QualityGateReceipt(
                QualityGateRunner().run(policy(ROW_COUNT), source=rows(1), target=rows(1)), Boundary.PRE_COMMIT
            )
        )
    assert owner.state is ExecutionState.FAILED


def test_warning_gates_alone_still_issue_a_receipt() -> None:
    owner = execution({**ROW_COUNT, "severity": "warning"})
    receipt = owner.evaluate(boundary=Boundary.PRE_COMMIT, source=rows(None), target=rows(1))
    owner.accept_payload(receipt)
    assert receipt.report.results[0].status is GateStatus.WARNING


def test_gates_are_judged_once() -> None:
    owner = execution(MIN_ROWS)
    judged(owner)
    with pytest.raises(INVALID):
        judged(owner)


def summary(**fields: object) -> QualityScopeSummary:
    defaults: dict[str, object] = {
        "digest": "sha256:" + "0" * 64,
        "planned_count": 1,
        "active_count": 1,
        "skipped_committed_count": 0,
        "reactivated_count": 0,
        "source_rows": 1,
        "target_rows": 1,
    }
    return QualityScopeSummary(**{**defaults, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", [summary(source_rows=2), summary(target_rows=None), {"source_rows": 1}, "scope"])
def test_a_scope_that_states_other_rows_is_the_wrong_input(scope: QualityScopeSummary) -> None:
    owner = execution(MIN_ROWS)
    with pytest.raises(INVALID):
        owner.evaluate(boundary=Boundary.PRE_COMMIT, source=rows(1), target=rows(1), scope_summary=scope)


def test_an_input_that_is_no_snapshot_is_refused() -> None:
    owner = execution(MIN_ROWS)
    with pytest.raises(INVALID):
        owner.evaluate(boundary=Boundary.PRE_COMMIT, source=rows(1), target={"row_count": 1})  # type: ignore[arg-type]


Forgery = Callable[[QualityGateReceipt], object]


FORGED: dict[str, tuple[Forgery, type[QualityGateReceiptError], str]] = {
    "none": (lambda issued: None, REQUIRED, "REQUIRED"),
    "unbound": (lambda issued: QualityGateReceipt(QualityGateReport(()), Boundary.PRE_COMMIT), REQUIRED, "REQUIRED"),
    "unbound passing": (
        lambda issued: QualityGateReceipt(QualityGateReport((passing(),)), Boundary.PRE_COMMIT),
        REQUIRED,
        "REQUIRED",
    ),
    "directly constructed": (
        lambda issued: QualityGateReceipt(bound_report(), Boundary.PRE_COMMIT),
        MISMATCH,
        "MISMATCH",
    ),
    "same fields": (
        lambda issued: QualityGateReceipt(
            issued.report, issued.boundary, None, issued.policy_snapshot_id, issued.run_id, issued.load_id
        ),
        MISMATCH,
        "MISMATCH",
    ),
    "replaced": (lambda issued: dataclasses.replace(issued), MISMATCH, "MISMATCH"),
    "copied": (copy.copy, MISMATCH, "MISMATCH"),
    "foreign execution": (lambda issued: judged(execution(MIN_ROWS, load_id=OTHER_LOAD)), MISMATCH, "MISMATCH"),
    "twin execution": (lambda issued: judged(execution(MIN_ROWS)), MISMATCH, "MISMATCH"),
    "other policy": (lambda issued: judged(execution(ROW_COUNT)), MISMATCH, "MISMATCH"),
    "empty policy": (lambda issued: judged(execution()), MISMATCH, "MISMATCH"),
    "other boundary": (
        lambda issued: dataclasses.replace(issued, boundary=Boundary.POST_COMMIT),
        INVALID,
        "INVALID",
    ),
    "boundary as text": (lambda issued: dataclasses.replace(issued, boundary="pre_commit"), INVALID, "INVALID"),
    "scope as mapping": (lambda issued: dataclasses.replace(issued, scope_summary={}), INVALID, "INVALID"),
    "report as mapping": (
        lambda issued: dataclasses.replace(issued, report=issued.report.as_json()),
        INVALID,
        "INVALID",
    ),
    "empty run id": (lambda issued: dataclasses.replace(issued, run_id=""), INVALID, "INVALID"),
    "endless load id": (lambda issued: dataclasses.replace(issued, load_id="x" * 257), INVALID, "INVALID"),
    "mapping": (lambda issued: {"quality_gates": issued.report.as_json()}, INVALID, "INVALID"),
    "report alone": (lambda issued: issued.report, INVALID, "INVALID"),
}


REPORTS: dict[str, tuple[dict[str, object], type[QualityGateReceiptError]]] = {
    "other kind": ({"kind": "dpone.data_quality.gates.v2"}, INVALID),
    "fingerprint without form": ({"policy_fingerprint": "sha256:ABC"}, INVALID),
    "status outside the vocabulary": ({"results": (passing(status="passed"),)}, INVALID),
    "severity outside the vocabulary": ({"results": (passing(severity="error"),)}, INVALID),
    "foreign result": ({"results": ({"status": "passed"},)}, INVALID),
    "missing result": ({"results": ()}, MISMATCH),
    "extra result": ({"results": (passing(), passing("other"))}, MISMATCH),
    "duplicate result": ({"results": (passing(), passing())}, MISMATCH),
    "other gate id": ({"results": (passing("other"),)}, MISMATCH),
    "other severity": ({"results": (passing(severity=Severity.WARNING),)}, MISMATCH),
    "other type": ({"results": (passing(type="not_null"),)}, MISMATCH),
    "empty contract": ({"gate_contract": ()}, MISMATCH),
    "other contract": (
        {"gate_contract": ({"gate_id": "min_rows", "type": "min_rows", "severity": "warning"},)},
        MISMATCH,
    ),
    "other fingerprint": ({"policy_fingerprint": "sha256:" + "0" * 64}, MISMATCH),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_receipt_that_was_not_issued_here_is_refused(name: str) -> None:
    forge, error, suffix = FORGED[name]
    owner = execution(MIN_ROWS)
    issued = judged(owner)
    with pytest.raises(error) as refused:
        owner.accept_payload(forge(issued))  # type: ignore[arg-type]
    assert refused.value.code == f"DPONE_QUALITY_GATE_RECEIPT_{suffix}"
    assert owner.state is ExecutionState.INVALID
    with pytest.raises(QualityGateReceiptError):
        owner.accept_payload(issued)


@pytest.mark.parametrize("name", FORGED)
def test_state_takes_only_the_receipt_the_payload_service_took(name: str) -> None:
    forge, error, _ = FORGED[name]
    owner = execution(MIN_ROWS)
    issued = judged(owner)
    owner.accept_payload(issued)
    with pytest.raises(error):
        owner.accept_state(forge(issued))  # type: ignore[arg-type]
    assert owner.state is ExecutionState.INVALID


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_that_does_not_cover_the_policy_is_named_as_such(name: str) -> None:
    changes, error = REPORTS[name]
    owner = execution(MIN_ROWS)
    issued = judged(owner)
    changed = dataclasses.replace(issued.report, **changes)  # type: ignore[arg-type]
    with pytest.raises(error):
        owner.accept_payload(dataclasses.replace(issued, report=changed))


@pytest.mark.parametrize("name", REPORTS)
def test_content_alone_is_judged_without_any_execution(name: str) -> None:
    changes, error = REPORTS[name]
    verify_receipt(QualityGateReceipt(bound_report(), Boundary.PRE_COMMIT), policy(MIN_ROWS), Boundary.PRE_COMMIT)
    changed = dataclasses.replace(bound_report(), **changes)  # type: ignore[arg-type]
    with pytest.raises(error):
        verify_receipt(QualityGateReceipt(changed, Boundary.PRE_COMMIT), policy(MIN_ROWS), Boundary.PRE_COMMIT)


def test_reordered_results_do_not_cover_the_policy() -> None:
    owner = execution(MIN_ROWS, ROW_COUNT)
    issued = judged(owner)
    report = dataclasses.replace(issued.report, results=tuple(reversed(issued.report.results)))
    with pytest.raises(MISMATCH):
        owner.accept_payload(dataclasses.replace(issued, report=report))


LEGACY_EMPTY = QualityGateReceipt(QualityGateReport(()), Boundary.PRE_COMMIT)


@pytest.mark.parametrize("receipt", [None, LEGACY_EMPTY], ids=["none", "legacy empty"])
def test_an_empty_policy_reads_what_older_coordinators_return(receipt: QualityGateReceipt | None) -> None:
    owner = execution()
    owner.accept_payload(receipt)
    owner.accept_state(receipt)
    assert owner.evidence() is None


def test_an_inert_receipt_is_consumed_once_too() -> None:
    owner = execution()
    owner.accept_payload(None)
    with pytest.raises(INVALID):
        owner.accept_payload(None)


def test_a_legacy_receipt_with_results_is_not_inert() -> None:
    with pytest.raises(REQUIRED):
        execution().accept_payload(QualityGateReceipt(QualityGateReport((passing(),)), Boundary.PRE_COMMIT))


@pytest.mark.parametrize("receipt", [None, LEGACY_EMPTY], ids=["none", "legacy empty"])
@pytest.mark.parametrize("is_judged", [True, False])
def test_compatibility_authorises_nothing_under_a_policy(receipt: QualityGateReceipt | None, is_judged: bool) -> None:
    owner = execution(MIN_ROWS)
    if is_judged:
        judged(owner)
    with pytest.raises(REQUIRED):
        owner.accept_payload(receipt)


def test_evidence_exists_only_after_acceptance() -> None:
    owner = execution(MIN_ROWS)
    receipt = judged(owner)
    with pytest.raises(INVALID):
        owner.evidence()
    owner.accept_payload(receipt)
    evidence = owner.evidence()
    assert evidence is not None
    assert (evidence["boundary"], evidence["quality_gates"]) == ("pre_commit", receipt.report.as_json())
    assert evidence["policy_snapshot_id"] == owner.snapshot.policy_snapshot_id


def test_a_receipt_names_its_run_and_load() -> None:
    receipt = judged(execution(MIN_ROWS))
    assert (receipt.run_id, receipt.load_id) == (identity().run_id, identity().load_id)


@pytest.mark.parametrize("text", ["", "x" * 257])
def test_an_execution_needs_a_bounded_identity(text: str) -> None:
    with pytest.raises(INVALID):
        QualityGateExecution(execution().snapshot, identity(run_id=text))


def test_the_staged_names_remain() -> None:
    assert StagedQualityGateReceipt is QualityGateReceipt
    receipt = StagedQualityGateReceipt(QualityGateReport(()), Boundary.PRE_COMMIT)
    assert report_from_staged_quality_receipt(receipt) is receipt.report
    with pytest.raises(INVALID):
        report_from_staged_quality_receipt({"report": receipt.report})  # type: ignore[arg-type]


class ExecutionMachine(RuleBasedStateMachine):
    """Any order of calls: state is accepted only along OPEN > ISSUED > PAYLOAD_ACCEPTED > STATE_ACCEPTED."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = execution(MIN_ROWS)
        self.receipt: QualityGateReceipt | None = None
        self.expected = ExecutionState.OPEN

    def attempt(self, action: Callable[[], None], is_legal: bool, reached: ExecutionState) -> None:
        try:
            action()
        except (QualityGateReceiptError, QualityGateFailure):
            assert not is_legal
            if self.expected is not ExecutionState.FAILED:
                self.expected = ExecutionState.INVALID
        else:
            assert is_legal
            self.expected = reached

    @rule()
    def judge(self) -> None:
        def action() -> None:
            self.receipt = judged(self.owner)

        self.attempt(action, self.expected is ExecutionState.OPEN, ExecutionState.ISSUED)

    @rule()
    def judge_a_failure(self) -> None:
        was_open = self.expected is ExecutionState.OPEN
        try:
            self.owner.evaluate(boundary=Boundary.PRE_COMMIT, source=rows(1), target=rows(0))
        except QualityGateFailure:
            assert was_open
            self.expected = ExecutionState.FAILED
        except QualityGateReceiptError:
            assert not was_open
            if self.expected is not ExecutionState.FAILED:
                self.expected = ExecutionState.INVALID

    @rule()
    def accept_payload(self) -> None:
        legal = self.expected is ExecutionState.ISSUED
        self.attempt(lambda: self.owner.accept_payload(self.receipt), legal, ExecutionState.PAYLOAD_ACCEPTED)

    @rule()
    def accept_state(self) -> None:
        legal = self.expected is ExecutionState.PAYLOAD_ACCEPTED
        self.attempt(lambda: self.owner.accept_state(self.receipt), legal, ExecutionState.STATE_ACCEPTED)

    @rule(forgery=st.sampled_from(sorted(FORGED)), to_state=st.booleans())
    def present_a_forgery(self, forgery: str, to_state: bool) -> None:
        forged = FORGED[forgery][0](self.receipt or judged(execution(MIN_ROWS)))
        accept = self.owner.accept_state if to_state else self.owner.accept_payload
        self.attempt(lambda: accept(forged), False, ExecutionState.INVALID)  # type: ignore[arg-type]

    @invariant()
    def the_state_is_the_expected_one(self) -> None:
        assert self.owner.state is self.expected


TestExecutionMachine = ExecutionMachine.TestCase


TestExecutionMachine.settings = settings(max_examples=60, stateful_step_count=8, deadline=None)
