"""The gate and acceptance policy of one run, taken before any side effect, and the check that it has not changed.

Contract: SNAP-01, SNAP-03, SNAP-05, SNAP-10.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dpone_core.acceptance.policy import AcceptanceMetricPolicy
from dpone_core.errors import ETLConfigurationError, ETLExecutionError
from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.problem import ManifestInvalidError
from dpone_core.quality.policy import QualityGatePolicy, quality_section

EXECUTION_POLICY_SCHEMA: Final = "dpone.quality.execution-policy.v1"


class QualityPolicyDriftError(ETLExecutionError):
    """The policy in the load configuration is no longer the one the run started with. `current` is None if invalid."""

    code = "DPONE_QUALITY_POLICY_DRIFT"

    def __init__(self, *, expected: str, current: str | None) -> None:
        super().__init__("the quality policy in the load configuration changed after the run had started")
        self.expected = expected
        self.current = current


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityExecutionSnapshot:
    """Gate and acceptance policy with defaults filled in; `policy_snapshot_id` is the `sha256:` fingerprint of both."""

    gates: QualityGatePolicy
    acceptance: AcceptanceMetricPolicy
    policy_snapshot_id: str = field(init=False)

    def __post_init__(self) -> None:
        payload = {
            "schema": EXECUTION_POLICY_SCHEMA,
            "gate_policy_fingerprint": self.gates.policy_fingerprint,
            "acceptance": self.acceptance.canonical(),
        }
        object.__setattr__(self, "policy_snapshot_id", fingerprint(payload))

    @classmethod
    def from_load_config(cls, config: LoadConfig) -> QualityExecutionSnapshot:
        """Both policies, from reading `config.quality` once.

        Raises AcceptanceMetricConfigurationError for a malformed acceptance policy, else ManifestInvalidError.
        """
        try:
            section = quality_section(config.quality)
        except ManifestInvalidError:
            AcceptanceMetricPolicy.from_load_config(config)
            raise
        return cls(
            gates=QualityGatePolicy.from_section(section),
            acceptance=AcceptanceMetricPolicy.from_section(section.acceptance),
        )

    def revalidate(self, config: LoadConfig) -> None:
        """Reads the policy from `config` again. Raises QualityPolicyDriftError when it is another one or invalid."""
        try:
            current = QualityExecutionSnapshot.from_load_config(config).policy_snapshot_id
        except ETLConfigurationError as error:
            raise QualityPolicyDriftError(expected=self.policy_snapshot_id, current=None) from error
        if current != self.policy_snapshot_id:
            raise QualityPolicyDriftError(expected=self.policy_snapshot_id, current=current)
