"""Records the steps and decisions of one attempt in order, and writes each to the audit tables when audit is on.

A step that cannot be written raises EvidenceWriteError. What that means depends on the side of the commit, which only
the caller knows.
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
    """A step row or the status row of the load could not be written; the sink's error is in `__cause__`."""

    code = "load_evidence_failed"


@dataclass(slots=True)
class OpenStep:
    """The details and status of a step while its block runs; the block may change both."""

    details: dict[str, object] = field(default_factory=dict)
    status: StepOutcome = StepOutcome.SUCCEEDED


@dataclass(slots=True, kw_only=True)
class StepLog:
    """The steps of one attempt so far, for one thread. Without `audit` they are kept in memory only."""

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
        """Runs the block as one step and records it: succeeded, or failed with the code of its exception.

        With `announced` a `running` row with these details is durable before the block begins.
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
            self.record_failure(step_id, phase, kind, started_at, opened.details, error)
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
        """Records an observation or a decision as a step: a moment, or the time since `started_at`."""
        now = self.clock.utc_now()
        self._add(step_id, phase, kind, status, started_at or now, now, details)

    def record_success(
        self,
        step_id: str,
        phase: str,
        kind: str,
        started_at: datetime,
        finished_at: datetime,
        details: dict[str, object],
    ) -> None:
        """Records a step that ended at `finished_at`, when the order of the lifecycle puts its record later."""
        self._add(step_id, phase, kind, StepOutcome.SUCCEEDED, started_at, finished_at, details)

    def record_failure(
        self,
        step_id: str,
        phase: str,
        kind: str,
        started_at: datetime,
        details: dict[str, object],
        error: BaseException,
    ) -> None:
        """Records a step that `error` has just ended. A failure to write it becomes a warning and never hides
        `error`.
        """
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

    def record_decision(self, decision: RuntimeDecision) -> None:
        """Records a decision of the planner as a step of kind `runtime_decision`."""
        self.note(decision.decision_id, decision.phase, "runtime_decision", StepOutcome.SUCCEEDED, decision.as_json())

    def record_governance_failure(self, error: BaseException, details: dict[str, object], *, evidence: bool) -> None:
        """Records the step `load_governance_failed`. A failure to write it becomes a warning, never hides `error`."""
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

    def record_start(self, source: TableName | None) -> None:
        """Creates the audit tables and writes the `started` row. Call it before anything is mutated."""
        if self.audit is not None:
            self.audit.open()
        target = self.plan.target
        self.record_load_status(
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
        """Whether the audit row of this load was written, or at least tried."""
        return bool(self._load_row)

    def record_load_status(self, status: LoadStatus, **columns: ControlValue) -> None:
        """Replaces the load's row by one with this status; columns given before are kept. Raises EvidenceWriteError."""
        if self.audit is None:
            return
        at = self.clock.utc_now()
        self._load_row.setdefault(f"{status.value}_at", at)
        self._load_row.update(columns)
        try:
            self.audit.record_load(self.identity, status, self._load_row, at)
        except DponeError as error:
            raise EvidenceWriteError(
                f"the audit row of this load could not be written with status '{status.value}'"
            ) from error

    def record_load_failure(self, error: BaseException) -> None:
        """Writes the failure into the audit row. Best effort: a failure to write it becomes a warning.

        A load that is recorded as committed keeps that status, for example when its post-hook fails; the code is added.
        """
        committed = f"{LoadStatus.COMMITTED.value}_at" in self._load_row
        try:
            if committed:
                self.record_load_status(
                    LoadStatus.COMMITTED, error_message=code_of(error), failed_at=self.clock.utc_now()
                )
            else:
                self.record_load_status(LoadStatus.FAILED, error_message=code_of(error))
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
            raise EvidenceWriteError(f"the audit row of step '{step.step_id}' could not be written") from error

    def _write_quietly(self, step: LoadStep) -> None:
        try:
            self._write(step)
        except EvidenceWriteError:
            self.warnings.append("failed_step_not_recorded")


def code_of(error: BaseException) -> str:
    """The stable code of any exception: its own, `DPONE_RUN_INTERRUPTED`, or the code of internal errors."""
    if isinstance(error, KeyboardInterrupt):
        return "DPONE_RUN_INTERRUPTED"
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else DponeError.code
