"""The one object that may judge a load and vouch for the judgment: OPEN > ISSUED > PAYLOAD_ACCEPTED > STATE_ACCEPTED.

An object capability inside one trusted process, not a signature and not a durable replay fence. It is passed
explicitly from the processor to the coordinator. Any misuse ends it: an execution that once refused never accepts.
Source: S0 "execution snapshot, authority and replay".
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
    """FAILED: the gates blocked. INVALID: the execution was misused or its policy drifted. Both are final."""

    OPEN = "open"
    ISSUED = "issued"
    PAYLOAD_ACCEPTED = "payload_accepted"
    STATE_ACCEPTED = "state_accepted"
    FAILED = "failed"
    INVALID = "invalid"


class QualityGateExecution:
    """Binds one snapshot to one run_id and load_id. Thread safe; every step can happen once."""

    def __init__(self, snapshot: QualityExecutionSnapshot, identity: LoadIdentity) -> None:
        for text in (identity.run_id, identity.load_id):
            if not isinstance(text, str) or not 1 <= len(text) <= MAX_IDENTITY_CHARACTERS:
                raise QualityGateReceiptInvalidError("run_id and load_id are texts of 1 to 256 characters")
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
        """Fixes, once, which runtime path runs and thereby the boundary every receipt must carry."""
        with self._lock:
            if self._state is not ExecutionState.OPEN or self._load_path is not None:
                raise self._invalidated(QualityGateReceiptInvalidError("the load path was selected before"))
            if not isinstance(load_path, LoadPath):
                raise self._invalidated(QualityGateReceiptInvalidError("unknown load path"))
            self._load_path = load_path

    def revalidate(self, config: LoadConfig) -> None:
        """Raises QualityPolicyDriftError, and ends this execution, when `config` states another policy now."""
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
        """Judges once and issues the authoritative receipt.

        A blocking report raises QualityGateFailure(report, outcome) and is never issued; `outcome` comes from the
        coordinator that owns the mutation boundary. A second call, no selected path, a foreign boundary or a
        scope that states other rows than the snapshots raises QualityGateReceiptInvalidError.
        """
        with self._lock:
            self._require(ExecutionState.OPEN)
            if self._load_path is None or boundary is not self._load_path.boundary:
                raise self._invalidated(QualityGateReceiptInvalidError("gates are judged at another boundary"))
            if not _is_judgeable(source, target, scope_summary):
                raise self._invalidated(QualityGateReceiptInvalidError("gates judge snapshots of one scope only"))
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
        """The load service takes the receipt, once, before success evidence is written.

        Raises one of the three receipt errors and ends the execution. Under an empty policy None and a legacy
        unbound empty receipt are accepted as they are.
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
        """The processor takes the same receipt, once, immediately before source state is persisted."""
        with self._lock:
            if not self._is_inert_here(receipt):
                self._require_content(receipt)
            self._require(ExecutionState.PAYLOAD_ACCEPTED)
            if receipt is not self._accepted:
                raise self._invalidated(QualityGateReceiptMismatchError("this is not the accepted receipt"))
            self._state = ExecutionState.STATE_ACCEPTED

    def evidence(self) -> dict[str, object] | None:
        """JSON of the accepted receipt, None for an inert one; raises before acceptance and after any misuse."""
        with self._lock:
            if self._state not in (ExecutionState.PAYLOAD_ACCEPTED, ExecutionState.STATE_ACCEPTED):
                raise QualityGateReceiptInvalidError("evidence exists only of an accepted receipt")
            if self._accepted is None or self._accepted is not self._issued:
                return None
            return self._accepted.as_json()

    def _is_inert_here(self, receipt: object) -> bool:
        return self._snapshot.gates.is_empty and is_inert(receipt)

    def _require(self, *states: ExecutionState) -> None:
        if self._state not in states:
            raise self._invalidated(
                QualityGateReceiptInvalidError(f"a quality execution in state {self._state.value} cannot do this")
            )

    def _require_content(self, receipt: QualityGateReceipt | None) -> None:
        """Before the state is asked, so that a missing or malformed receipt is named as such."""
        boundary = None if self._load_path is None else self._load_path.boundary
        try:
            verify_receipt(receipt, self._snapshot.gates, boundary)
        except QualityGateReceiptError as error:
            raise self._invalidated(error) from None

    def _require_authority(self, receipt: QualityGateReceipt | None) -> None:
        """Identity is the authority: an equal-looking receipt of anyone else is another receipt."""
        if receipt is not self._issued:
            raise self._invalidated(QualityGateReceiptMismatchError("this execution did not issue the receipt"))

    def _invalidated(self, error: QualityGateReceiptError) -> QualityGateReceiptError:
        """Ends the execution; a failed judgment stays visible as FAILED."""
        if self._state is not ExecutionState.FAILED:
            self._state = ExecutionState.INVALID
        return error


def _is_judgeable(source: object, target: object, scope_summary: object) -> bool:
    """Two side snapshots, and a scope, if any, that states the very rows they hold."""
    if not isinstance(source, QualitySideSnapshot) or not isinstance(target, QualitySideSnapshot):
        return False
    if scope_summary is None:
        return True
    if not isinstance(scope_summary, QualityScopeSummary):
        return False
    return (scope_summary.source_rows, scope_summary.target_rows) == (source.row_count, target.row_count)
