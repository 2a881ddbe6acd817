"""The running account of one attempt: its steps and decisions, in order, durable as they happen when audit is on.

Failing to write a step is an evidence failure of the load: it propagates, the caller owns what that means where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from dpone_core.errors import DponeError, ETLExecutionError
from dpone_core.evidence.audit import AuditTrail, LoadStatus, LoadStep, StepOutcome
from dpone_core.model.decision import RuntimeDecision
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.load_config import TableName
from dpone_core.model.load_plan import LoadPlan
from dpone_core.ports.control import ControlValue
from dpone_core.ports.runtime import Clock

GOVERNANCE_PHASE = "load_governance"
GOVERNANCE_KIND = "target_preparation"
EVIDENCE_KIND = "data_quality_evidence"


class EvidenceWriteError(ETLExecutionError):
    """A step or status row could not be made durable; its own cause stays in `__cause__`."""

    code = "load_evidence_failed"


@dataclass(slots=True)
class OpenStep:
    """What the block running a step may still say about it before it is recorded."""

    details: dict[str, object] = field(default_factory=dict)
    status: StepOutcome = StepOutcome.SUCCEEDED


@dataclass(slots=True, kw_only=True)
class StepLog:
    """Owned by one attempt, used by one thread."""

    identity: LoadIdentity
    plan: LoadPlan
    clock: Clock
    audit: AuditTrail | None
    steps: list[LoadStep] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _load_row: dict[str, ControlValue] = field(default_factory=dict)

    @contextmanager
    def step(
        self, step_id: str, phase: str, kind: str, *, announced: Mapping[str, object] | None = None
    ) -> Iterator[OpenStep]:
        """Records the block as one step, failed with its code if it raises.

        With `announced` a durable `running` row with these details stands before the block begins.
        """
        started_at = self.clock.utc_now()
        opened = OpenStep(details=dict(announced or {}))
        if announced is not None:
            self._write(
                LoadStep(
                    step_id=step_id,
                    phase=phase,
                    kind=kind,
                    status=StepOutcome.RUNNING,
                    started_at=started_at,
                    finished_at=started_at,
                    details=dict(opened.details),
                )
            )
        try:
            yield opened
        except BaseException as error:
            self.failed(step_id, phase, kind, started_at, opened.details, error)
            raise
        self._add(step_id, phase, kind, opened.status, started_at, self.clock.utc_now(), opened.details)

    def note(
        self,
        step_id: str,
        phase: str,
        kind: str,
        status: StepOutcome,
        details: dict[str, object],
        *,
        started_at: datetime | None = None,
    ) -> None:
        """Something observed or decided: at this moment, or since `started_at`."""
        now = self.clock.utc_now()
        self._add(step_id, phase, kind, status, started_at or now, now, details)

    def completed(
        self,
        step_id: str,
        phase: str,
        kind: str,
        started_at: datetime,
        finished_at: datetime,
        details: dict[str, object],
    ) -> None:
        """A step whose block ended earlier than it can be recorded, in the order the lifecycle prescribes."""
        self._add(step_id, phase, kind, StepOutcome.SUCCEEDED, started_at, finished_at, details)

    def failed(
        self,
        step_id: str,
        phase: str,
        kind: str,
        started_at: datetime,
        details: dict[str, object],
        error: BaseException,
    ) -> None:
        """A step that `error` ended now; a failure to write it never hides `error`."""
        step = LoadStep(
            step_id=step_id,
            phase=phase,
            kind=kind,
            status=StepOutcome.FAILED,
            started_at=started_at,
            finished_at=self.clock.utc_now(),
            details=details,
            error_code=code_of(error),
        )
        self.steps.append(step)
        self._write_quietly(step)

    def decide(self, decision: RuntimeDecision) -> None:
        self.note(decision.decision_id, decision.phase, "runtime_decision", StepOutcome.SUCCEEDED, decision.as_json())

    def governance_failed(self, error: BaseException, details: dict[str, object], *, evidence: bool) -> None:
        """`load_governance_failed` with boundary, side and code; a failure to write it never hides `error`."""
        now = self.clock.utc_now()
        step = LoadStep(
            step_id="load_governance_failed",
            phase=GOVERNANCE_PHASE,
            kind=EVIDENCE_KIND if evidence else GOVERNANCE_KIND,
            status=StepOutcome.FAILED,
            started_at=now,
            finished_at=now,
            details={**details, "error_code": code_of(error)},
            error_code=code_of(error),
        )
        self.steps.append(step)
        self._write_quietly(step)

    def started(self, source: TableName | None) -> None:
        """The `started` row, before any mutation; opens the audit tables."""
        if self.audit is not None:
            self.audit.open()
        target = self.plan.target
        self.load_status(
            LoadStatus.STARTED,
            process_name=self.plan.process,
            source_schema=source.schema if source is not None else None,
            source_table=source.name if source is not None else self.plan.source.dataset,
            target_schema=target.table.schema,
            target_table=target.table.name,
            strategy=target.strategy.value,
        )

    @property
    def has_started(self) -> bool:
        return bool(self._load_row)

    def load_status(self, status: LoadStatus, **columns: ControlValue) -> None:
        """Supersedes the load's row; columns said before are repeated."""
        if self.audit is None:
            return
        at = self.clock.utc_now()
        self._load_row.setdefault(f"{status.value}_at", at)
        self._load_row.update(columns)
        try:
            self.audit.record_load(self.identity, status, self._load_row, at)
        except DponeError as error:
            raise EvidenceWriteError("the load's status row could not be written") from error

    def load_failed(self, error: BaseException) -> None:
        """Best effort: the audit row of a failed load must not hide why it failed.

        A load recorded as committed stays so: a failed post-hook does not take it back, its code is added.
        """
        committed = f"{LoadStatus.COMMITTED.value}_at" in self._load_row
        try:
            if committed:
                self.load_status(LoadStatus.COMMITTED, error_message=code_of(error), failed_at=self.clock.utc_now())
            else:
                self.load_status(LoadStatus.FAILED, error_message=code_of(error))
        except EvidenceWriteError:
            self.warnings.append("load_status_not_recorded")

    def _add(
        self,
        step_id: str,
        phase: str,
        kind: str,
        status: StepOutcome,
        started_at: datetime,
        finished_at: datetime,
        details: dict[str, object],
    ) -> None:
        step = LoadStep(
            step_id=step_id,
            phase=phase,
            kind=kind,
            status=status,
            started_at=started_at,
            finished_at=finished_at,
            details=details,
        )
        self.steps.append(step)
        self._write(step)

    def _write(self, step: LoadStep) -> None:
        if self.audit is None:
            return
        try:
            self.audit.record_step(self.identity, step)
        except DponeError as error:
            raise EvidenceWriteError(f"step '{step.step_id}' could not be recorded") from error

    def _write_quietly(self, step: LoadStep) -> None:
        try:
            self._write(step)
        except EvidenceWriteError:
            self.warnings.append("failed_step_not_recorded")


def code_of(error: BaseException) -> str:
    """The stable code of any exception; foreign ones are internal errors, interruptions keep their names."""
    if isinstance(error, KeyboardInterrupt):
        return "DPONE_RUN_INTERRUPTED"
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else DponeError.code
