"""LoadOutcome, the facts about one finished attempt, and RunReport, what a run prints and returns.

Shape of RunReport (CLI-08, FAIL-22): `manifest process selector run_id passed result attempts max_attempts
retry_backoff_seconds`. Rows are rows of the attempt, `final_rows` the rows of the target after it; a counter that is
not known is null, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dpone_core.errors import DponeError
from dpone_core.evidence.audit import LoadStep, utc_text
from dpone_core.evidence.gate_words import first_blocking
from dpone_core.evidence.json_view import JsonView
from dpone_core.evidence.throughput import run_throughput
from dpone_core.model.decision import RuntimeDecision, summarise
from dpone_core.model.identity import LoadIdentity
from dpone_core.model.outcome import LoadResult
from dpone_core.model.problem import ManifestInvalidError
from dpone_core.model.vocabulary import (
    Boundary,
    CheckpointState,
    RetryClassification,
    SourceState,
    StrategyMode,
    TargetState,
)
from dpone_core.quality.failure import QualityGateFailure

RUN_SET_KIND: Final = "dpone.run_set.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCounts:
    """Numbers of gates by result. A skipped gate did not judge: it is neither passed nor warned."""

    passed: int = 0
    failed: int = 0
    warned: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceCounts:
    """Whether acceptance was required, how many sides were measured, and how many measurements were warnings."""

    required: bool = False
    sides: int = 0
    warnings: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFacts:
    """What a report says about an exception: stable code, safe message, what to do, and the exit code."""

    code: str
    message: str
    fix: str | None
    exit_code: int

    @property
    def line(self) -> str:
        """Code and message in one line."""
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """The facts about one finished attempt. `failure` is None after success, as are `boundary` and `retry` then.

    `quality_gates` is the JSON of the gate report, None when no gate was evaluated; `window` that of the cursor values
    that were read, None for a load without cursor. `transfer_plan` (a fingerprint) and
    `partitions` (their number) are set for a load that published partitions which other processes staged.
    """

    identity: LoadIdentity
    result: LoadResult
    target_state: TargetState
    checkpoint_state: CheckpointState
    source_state: SourceState
    started_at: datetime
    finished_at: datetime
    failure: FailureFacts | None = None
    boundary: Boundary | None = None
    retry: RetryClassification | None = None
    quality_gates: Mapping[str, object] | None = None
    gate_counts: GateCounts = field(default_factory=GateCounts)
    acceptance: AcceptanceCounts = field(default_factory=AcceptanceCounts)
    strategy: StrategyMode | None = None
    window: Mapping[str, object] | None = None
    steps: tuple[LoadStep, ...] = ()
    decisions: tuple[RuntimeDecision, ...] = ()
    warnings: tuple[str, ...] = ()
    transfer_plan: str | None = None
    partitions: int | None = None

    @property
    def passed(self) -> bool:
        return self.failure is None

    @property
    def duration_seconds(self) -> float:
        return (self.finished_at - self.started_at).total_seconds()

    @property
    def failed_gate(self) -> JsonView:
        """The result of the first gate that blocked the load, as the gate report has it; a view of None without one."""
        return first_blocking(JsonView(self.quality_gates))

    def failure_context(self) -> dict[str, object] | None:
        """The boundary, the states and the retry classification of a failure; None after success."""
        if self.failure is None or self.boundary is None or self.retry is None:
            return None
        return {
            "failure_boundary": self.boundary.value,
            "target_state": self.target_state.value,
            "checkpoint_state": self.checkpoint_state.value,
            "source_state": self.source_state.value,
            "retry_classification": self.retry.value,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAttempt:
    """A failed attempt before the last one of a run, with path and digest of the run.json it published."""

    number: int
    outcome: LoadOutcome
    evidence_path: str
    evidence_sha256: str

    def as_json(self) -> dict[str, object]:
        failure, boundary = self.outcome.failure, self.outcome.boundary
        return {
            "attempt": self.number,
            "load_id": self.outcome.identity.load_id,
            "error_code": None if failure is None else failure.code,
            "failure_boundary": None if boundary is None else boundary.value,
            "evidence_path": self.evidence_path,
            "evidence_sha256": self.evidence_sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts of a report besides the outcome. `manifest` is a relative path or a file name, never absolute."""

    manifest: str
    process: str
    selector: str | None
    run_id: str
    max_attempts: int = 1
    retry_backoff_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run of one process. `outcome` is that of its last attempt, None when it was refused before any attempt.

    `quality_gates` is the gate report of a QualityGateFailure that was raised without a load (FAIL-21). `published` is
    the report of an earlier success of this run, when nothing was done because of it.
    """

    facts: RunFacts
    outcome: LoadOutcome | None
    refusal: FailureFacts | None = None
    problems: tuple[dict[str, object], ...] = ()
    attempts: int = 0
    earlier: tuple[EarlierAttempt, ...] = ()
    quality_gates: Mapping[str, object] | None = None
    published: Mapping[str, object] | None = None

    @property
    def passed(self) -> bool:
        return self.outcome is not None and self.outcome.passed

    @property
    def failure(self) -> FailureFacts | None:
        return self.outcome.failure if self.outcome is not None else self.refusal

    @property
    def exit_code(self) -> int:
        return self.failure.exit_code if self.failure is not None else 0

    @property
    def process(self) -> str:
        return self.facts.process

    @property
    def run_id(self) -> str:
        return self.facts.run_id

    @property
    def result(self) -> LoadResult | None:
        """The counts of the last attempt; None when the run was refused before any."""
        return self.outcome.result if self.outcome is not None else None

    def as_json(self) -> dict[str, object]:
        if self.published is not None:
            return dict(self.published)
        return {
            "manifest": self.facts.manifest,
            "process": self.facts.process,
            "selector": self.facts.selector,
            "run_id": self.facts.run_id,
            "passed": self.passed,
            "result": self._refusal_json() if self.outcome is None else _result(self.outcome, self.earlier),
            "attempts": self.attempts,
            "max_attempts": self.facts.max_attempts,
            "retry_backoff_seconds": self.facts.retry_backoff_seconds,
        }

    def _refusal_json(self) -> dict[str, object]:
        assert self.refusal is not None  # a report without outcome is a refusal
        return {
            "status": "error",
            "inserted_rows": 0,
            "updated_rows": 0,
            "final_rows": None if self.quality_gates is None else 0,
            "extracted_rows": 0,
            "duration_seconds": 0.0,
            "errors": [self.refusal.line],
            "error_code": self.refusal.code,
            **({"quality_gates": dict(self.quality_gates)} if self.quality_gates is not None else {}),
            **({"fix": self.refusal.fix} if self.refusal.fix else {}),
            **({"problems": list(self.problems)} if self.problems else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetReport:
    """The runs of several processes of one manifest, in its order, up to the first failure unless all were to run."""

    runs: tuple[RunReport, ...]

    @property
    def passed(self) -> bool:
        return all(run.passed for run in self.runs)

    @property
    def exit_code(self) -> int:
        """The highest exit code of the runs, so that an interruption outweighs a failure; 0 when all passed."""
        return max((run.exit_code for run in self.runs), default=0)

    def as_json(self) -> dict[str, object]:
        return {"kind": RUN_SET_KIND, "passed": self.passed, "runs": [run.as_json() for run in self.runs]}


def failure_facts(error: BaseException) -> FailureFacts:
    """The facts of any exception. Of a foreign one only the type is shown, never its text."""
    if isinstance(error, DponeError):
        return FailureFacts(
            code=error.code, message=error.message, fix=error.fix, exit_code=int(type(error).exit_class)
        )
    if isinstance(error, KeyboardInterrupt):
        return FailureFacts(code="DPONE_RUN_INTERRUPTED", message="interrupted", fix=None, exit_code=130)
    if getattr(error, "code", None) == "DPONE_RUN_TERMINATED":
        return FailureFacts(code="DPONE_RUN_TERMINATED", message="terminated by signal", fix=None, exit_code=143)
    return FailureFacts(code=DponeError.code, message=f"internal error ({type(error).__name__})", fix=None, exit_code=1)


def build_refusal_report(facts: RunFacts, error: DponeError) -> RunReport:
    """The report of a run that has no outcome: refused before execution, or ended by a gate failure without a load."""
    gates = error.report.as_json() if isinstance(error, QualityGateFailure) else None
    return RunReport(
        facts=facts, outcome=None, refusal=failure_facts(error), problems=problems_of(error), quality_gates=gates
    )


def problems_of(error: BaseException) -> tuple[dict[str, object], ...]:
    """All problems of an invalid manifest with their places; () for any other error."""
    if not isinstance(error, ManifestInvalidError):
        return ()
    return tuple(
        {
            "code": problem.code,
            "path": problem.path,
            "message": problem.message,
            "file": problem.position.file if problem.position else None,
            "line": problem.position.line if problem.position else None,
            "column": problem.position.column if problem.position else None,
            "fix": problem.fix,
        }
        for problem in error.problems
    )


def _result(outcome: LoadOutcome, earlier: tuple[EarlierAttempt, ...]) -> dict[str, object]:
    result = outcome.result
    document: dict[str, object] = {
        "status": "success" if outcome.passed else "error",
        "inserted_rows": result.inserted_rows,
        "updated_rows": result.updated_rows,
        "final_rows": result.final_rows,
        "extracted_rows": result.extracted_rows,
        "duration_seconds": round(outcome.duration_seconds, 6),
        "errors": [] if outcome.failure is None else [outcome.failure.line],
    }
    if outcome.failure is not None:
        document["error_code"] = outcome.failure.code
        if outcome.failure.fix:
            document["fix"] = outcome.failure.fix
        if outcome.quality_gates is not None:
            document["quality_gates"] = dict(outcome.quality_gates)
        document["failure_context"] = outcome.failure_context()
    document["details"] = _details(outcome) | {"earlier_attempts": [attempt.as_json() for attempt in earlier]}
    return document


def _details(outcome: LoadOutcome) -> dict[str, object]:
    result = outcome.result
    counters = {
        "loaded_rows": result.loaded_rows,
        "staging_rows": result.staged_rows,
        "extracted_rows": result.extracted_rows,
    }
    acceptance, converted = result.acceptance_metrics, result.converted_values
    reconciliation: dict[str, object] = {
        "governance_finalization": result.governance_finalization.value if result.governance_finalization else None,
        "source_rows": result.extracted_rows,
        "staged_rows": result.staged_rows,
        "target_rows": result.final_rows,
    }
    if outcome.quality_gates is not None:
        reconciliation["quality_gates"] = dict(outcome.quality_gates)
    if acceptance is not None:
        reconciliation["acceptance_metrics"] = acceptance.as_json()
    return {
        "load_id": outcome.identity.load_id,
        "source_state": outcome.source_state.value,
        "strategy": None if outcome.strategy is None else outcome.strategy.value,
        "started_at": utc_text(outcome.started_at),
        "finished_at": utc_text(outcome.finished_at),
        **({"window": dict(outcome.window)} if outcome.window is not None else {}),
        "run_throughput": run_throughput(counters, outcome.duration_seconds),
        "runtime_decisions": summarise(outcome.decisions),
        "reconciliation_metrics": reconciliation,
        **({"converted_values": [each.as_json() for each in converted]} if converted else {}),
        "warnings": list(outcome.warnings),
        "load_steps": [step.as_json(outcome.identity) for step in outcome.steps],
    }
