"""The exception for a load whose gates did not pass, with the state of the target where the raiser knows it.

Contract: FAIL-01, FAIL-03, FAIL-04, FAIL-25.
"""

from __future__ import annotations

from dpone_core.errors import ETLExecutionError
from dpone_core.model.outcome import QualityGateFailureOutcome
from dpone_core.quality.report import QualityGateReport


class QualityGateFailure(ETLExecutionError):
    """At least one gate of severity error did not pass. Without `outcome` nothing is said about the target.

    Raises TypeError for an outcome that is not a QualityGateFailureOutcome, such as a mapping.
    """

    code = "DPONE_QUALITY_GATES_FAILED"

    def __init__(self, report: QualityGateReport, outcome: QualityGateFailureOutcome | None = None) -> None:
        if outcome is not None and not isinstance(outcome, QualityGateFailureOutcome):
            raise TypeError("outcome must be a QualityGateFailureOutcome")
        super().__init__("quality gates failed")
        self.report = report
        self.outcome = outcome

    def with_outcome(self, outcome: QualityGateFailureOutcome) -> QualityGateFailure:
        """The same failure with `outcome`, unless it already has one."""
        return QualityGateFailure(self.report, self.outcome or outcome)

    def failure_context(self) -> dict[str, str] | None:
        """The `failure_context` of a run report; None without an outcome."""
        return None if self.outcome is None else self.outcome.failure_context()
