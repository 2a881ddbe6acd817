"""The failure a blocking report raises, with the outcome only the owner of the mutation boundary can state.

Source: S0 "Post-commit failure outcome".
"""

from __future__ import annotations

from dpone_core.errors import ETLExecutionError
from dpone_core.model.outcome import QualityGateFailureOutcome
from dpone_core.quality.report import QualityGateReport


class QualityGateFailure(ETLExecutionError):
    """At least one error gate did not pass. Without `outcome` no claim about the target is made.

    Raises TypeError for an outcome that is not a QualityGateFailureOutcome: mappings are never authoritative.
    """

    code = "DPONE_QUALITY_GATES_FAILED"

    def __init__(self, report: QualityGateReport, outcome: QualityGateFailureOutcome | None = None) -> None:
        if outcome is not None and not isinstance(outcome, QualityGateFailureOutcome):
            raise TypeError("outcome must be a QualityGateFailureOutcome")
        super().__init__("quality gates failed")
        self.report = report
        self.outcome = outcome

    def with_outcome(self, outcome: QualityGateFailureOutcome) -> QualityGateFailure:
        """The same failure, enriched; an outcome that is already there stays."""
        return QualityGateFailure(self.report, self.outcome or outcome)

    def failure_context(self) -> dict[str, str] | None:
        """The additive `failure_context` of a run report, None for the old constructor."""
        return None if self.outcome is None else self.outcome.failure_context()
