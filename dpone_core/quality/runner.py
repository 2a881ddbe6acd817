"""The canonical runner: the only code that mints a bound report.

In a load only QualityGateExecution calls it. Source: S0 "bind receipts to the evaluated gate policy".
"""

from __future__ import annotations

from dpone_core.quality.gates import QualitySideSnapshot, judge
from dpone_core.quality.policy import QualityGatePolicy
from dpone_core.quality.report import QualityGateReport


class QualityGateRunner:
    """Judges every gate of a policy, in order, against one pair of side snapshots."""

    def run(
        self, policy: QualityGatePolicy, *, source: QualitySideSnapshot, target: QualitySideSnapshot
    ) -> QualityGateReport:
        """A bound report, blocking or not; the caller raises."""
        return QualityGateReport(
            tuple(judge(gate, source=source, target=target) for gate in policy.gates),
            policy_fingerprint=policy.policy_fingerprint,
            gate_contract=policy.contract,
        )
