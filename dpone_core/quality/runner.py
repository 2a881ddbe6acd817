"""QualityGateRunner: evaluates all gates of a policy into a report that names the policy.

In a load only QualityGateExecution calls it. Contract: RCPT-06, RCPT-23.
"""

from __future__ import annotations

from dpone_core.quality.gates import QualitySideSnapshot, evaluate_gate
from dpone_core.quality.policy import QualityGatePolicy
from dpone_core.quality.report import QualityGateReport


class QualityGateRunner:
    """Evaluates every gate of a policy, in order, over one pair of side snapshots."""

    def run(
        self, policy: QualityGatePolicy, *, source: QualitySideSnapshot, target: QualitySideSnapshot
    ) -> QualityGateReport:
        """The report with fingerprint and contract of the policy, passed or not. Does not raise for a failed gate."""
        return QualityGateReport(
            tuple(evaluate_gate(gate, source=source, target=target) for gate in policy.gates),
            policy_fingerprint=policy.policy_fingerprint,
            gate_contract=policy.contract,
        )
