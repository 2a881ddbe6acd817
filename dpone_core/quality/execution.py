"""QualityGateExecution: evaluates the gates of one load once, issues the receipt, and accepts that receipt and no
other.

States: OPEN > ISSUED > PAYLOAD_ACCEPTED > STATE_ACCEPTED. The processor passes the object to the coordinator. It
protects against mistakes inside one process; it is no signature and no fence across processes. After any misuse it
accepts nothing more. Contract: RCPT-07, RCPT-11, RCPT-12, RCPT-14, RCPT-23.
"""

from __future__ import annotations

from enum import StrEnum
from threading import Lock

from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.outcome import QualityGateFailureOutcome
from dpone_core.model.vocabulary import Boundary, LoadPath
from dpone_core.quality.failure import QualityGateFailure
from dpone_core.quality.gates import QualitySideSnapshot
from dpone_core.quality.receipt import (
    MAX_IDENTITY_CHARACTERS,
    QualityGateReceipt,
    QualityGateReceiptError,
    QualityGateReceiptInvalidError,
    QualityGateReceiptMismatchError,
    is_inert,
    verify_receipt,
)
from dpone_core.quality.runner import QualityGateRunner
from dpone_core.quality.scope import QualityScopeSummary
from dpone_core.quality.snapshot import QualityExecutionSnapshot, QualityPolicyDriftError


class ExecutionState(StrEnum):
    """FAILED: a gate blocked the load. INVALID: the execution was misused, or its policy drifted. Both are final."""

    OPEN = "open"
    ISSUED = "issued"
    PAYLOAD_ACCEPTED = "payload_accepted"
    STATE_ACCEPTED = "state_accepted"
    FAILED = "failed"
    INVALID = "invalid"


class QualityGateExecution:
    """Evaluates the gates of one snapshot for one run_id and load_id. Thread safe; every step can happen once."""

    def __init__(self, snapshot: QualityExecutionSnapshot, identity: LoadIdentity) -> None:
        for text in (identity.run_id, identity.load_id):
            if not isinstance(text, str) or not 1 <= len(text) <= MAX_IDENTITY_CHARACTERS:
                raise QualityGateReceiptInvalidError(
                    f"run_id and load_id must be texts of 1 to {MAX_IDENTITY_CHARACTERS} characters"
                )
        self._snapshot = snapshot
        self._identity = identity
        self._runner = QualityGateRunner()
        self._lock = Lock()
        self._state = ExecutionState.OPEN
        self._load_path: LoadPath | None = None
        self._issued: QualityGateReceipt | None = None
        self._accepted: QualityGateReceipt | None = None

    @property
    def snapshot(self) -> QualityExecutionSnapshot:
        return self._snapshot

    @property
    def state(self) -> ExecutionState:
        return self._state

    def select_path(self, load_path: LoadPath) -> None:
        """Sets the load path, once. It determines the boundary at which the gates must be evaluated."""
        with self._lock:
            if self._state is not ExecutionState.OPEN or self._load_path is not None:
                raise self._invalidate(
                    QualityGateReceiptInvalidError(
                        "the load path of an execution can be selected once, before the gates are evaluated"
                    )
                )
            if not isinstance(load_path, LoadPath):
                raise self._invalidate(QualityGateReceiptInvalidError("the load path must be a LoadPath"))
            self._load_path = load_path

    def revalidate(self, config: LoadConfig) -> None:
        """Raises QualityPolicyDriftError, and ends this execution, when the policy of `config` has changed."""
        with self._lock:
            try:
                self._snapshot.revalidate(config)
            except QualityPolicyDriftError:
                if self._state is not ExecutionState.FAILED:
                    self._state = ExecutionState.INVALID
                raise

    def evaluate(
        self,
        *,
        boundary: Boundary,
        source: QualitySideSnapshot,
        target: QualitySideSnapshot,
        scope_summary: QualityScopeSummary | None = None,
        outcome: QualityGateFailureOutcome | None = None,
    ) -> QualityGateReceipt:
        """Evaluates the gates, once, and issues the receipt.

        Raises QualityGateFailure(report, outcome) when a gate blocks; no receipt is issued then. `outcome` comes from
        the coordinator, which knows the state of the target. Raises QualityGateReceiptInvalidError for a second call,
        without a selected path, at another boundary than that of the path, and for a scope whose rows differ from the
        snapshots.
        """
        with self._lock:
            self._require(ExecutionState.OPEN)
            if self._load_path is None or boundary is not self._load_path.boundary:
                raise self._invalidate(
                    QualityGateReceiptInvalidError("the selected load path evaluates its gates at another boundary")
                )
            if not _is_one_scope(source, target, scope_summary):
                raise self._invalidate(
                    QualityGateReceiptInvalidError(
                        "gates need two side snapshots, and a scope that states the same rows"
                    )
                )
            report = self._runner.run(self._snapshot.gates, source=source, target=target)
            if not report.passed:
                self._state = ExecutionState.FAILED
                raise QualityGateFailure(report, outcome)
            self._issued = QualityGateReceipt(
                report,
                boundary,
                scope_summary,
                self._snapshot.policy_snapshot_id,
                self._identity.run_id,
                self._identity.load_id,
            )
            self._state = ExecutionState.ISSUED
            return self._issued

    def accept_payload(self, receipt: QualityGateReceipt | None) -> None:
        """Accepts the receipt for the payload, once. The load service calls it before evidence of success is written.

        Raises one of the three receipt errors and ends the execution unless it is the issued receipt. Under a policy
        without gates, None and an empty receipt without fingerprint are accepted too.
        """
        with self._lock:
            if self._is_inert_here(receipt):
                self._require(ExecutionState.OPEN, ExecutionState.ISSUED)
            else:
                self._require_content(receipt)
                self._require(ExecutionState.ISSUED)
                self._require_authority(receipt)
            self._accepted = receipt
            self._state = ExecutionState.PAYLOAD_ACCEPTED

    def accept_state(self, receipt: QualityGateReceipt | None) -> None:
        """Accepts the same receipt for source state, once. The processor calls it just before source state is saved."""
        with self._lock:
            if not self._is_inert_here(receipt):
                self._require_content(receipt)
            self._require(ExecutionState.PAYLOAD_ACCEPTED)
            if receipt is not self._accepted:
                raise self._invalidate(
                    QualityGateReceiptMismatchError(
                        "expected the receipt that was accepted for the payload, got another one"
                    )
                )
            self._state = ExecutionState.STATE_ACCEPTED

    def evidence(self) -> dict[str, object] | None:
        """JSON of the accepted receipt, None without gates. Raises before acceptance and after misuse."""
        with self._lock:
            if self._state not in (ExecutionState.PAYLOAD_ACCEPTED, ExecutionState.STATE_ACCEPTED):
                raise QualityGateReceiptInvalidError("a quality receipt has evidence only after it was accepted")
            if self._accepted is None or self._accepted is not self._issued:
                return None
            return self._accepted.as_json()

    def _is_inert_here(self, receipt: object) -> bool:
        return self._snapshot.gates.is_empty and is_inert(receipt)

    def _require(self, *states: ExecutionState) -> None:
        if self._state not in states:
            raise self._invalidate(
                QualityGateReceiptInvalidError(
                    f"a quality execution in state {self._state.value} cannot do this, "
                    f"which needs state {' or '.join(state.value for state in states)}"
                )
            )

    def _require_content(self, receipt: QualityGateReceipt | None) -> None:
        """Checks the content of the receipt.

        Called before the state is checked, so that a bad receipt is named as such.
        """
        boundary = None if self._load_path is None else self._load_path.boundary
        try:
            verify_receipt(receipt, self._snapshot.gates, boundary)
        except QualityGateReceiptError as error:
            raise self._invalidate(error) from None

    def _require_authority(self, receipt: QualityGateReceipt | None) -> None:
        """Requires the very object that was issued: an equal receipt from elsewhere does not count."""
        if receipt is not self._issued:
            raise self._invalidate(
                QualityGateReceiptMismatchError("expected the receipt that this execution issued, got another one")
            )

    def _invalidate(self, error: QualityGateReceiptError) -> QualityGateReceiptError:
        """Ends the execution, in state INVALID unless it is FAILED already. Returns `error` for the caller to raise."""
        if self._state is not ExecutionState.FAILED:
            self._state = ExecutionState.INVALID
        return error


def _is_one_scope(source: object, target: object, scope_summary: object) -> bool:
    """Whether both sides are snapshots, and the scope, if any, states the same rows as they do."""
    if not isinstance(source, QualitySideSnapshot) or not isinstance(target, QualitySideSnapshot):
        return False
    if scope_summary is None:
        return True
    if not isinstance(scope_summary, QualityScopeSummary):
        return False
    return (scope_summary.source_rows, scope_summary.target_rows) == (source.row_count, target.row_count)
