"""A published choice between alternatives: what was asked, what was taken and why (LIFE-19)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

DECISION_SCHEMA: Final = "dpone.runtime.decision_audit.v1"


class ReleaseGate(StrEnum):
    GREEN = "green"
    WARNING = "warning"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeDecision:
    """`details` holds safe scalars only: names, counts, hashes."""

    decision_id: str
    phase: str
    component: str
    category: str
    requested: str
    selected: str
    fallback_reason: str | None = None
    release_gate: ReleaseGate = ReleaseGate.GREEN
    warnings: tuple[str, ...] = ()
    details: Mapping[str, str | int | bool | None] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return {
            "schema_version": DECISION_SCHEMA,
            "decision_id": self.decision_id,
            "phase": self.phase,
            "component": self.component,
            "category": self.category,
            "requested": self.requested,
            "selected": self.selected,
            "fallback_allowed": self.fallback_reason is not None,
            "fallback_reason": self.fallback_reason,
            "release_gate": self.release_gate.value,
            "warnings": list(self.warnings),
            "blockers": [],
            "details": dict(self.details),
        }


def summarise(decisions: Iterable[RuntimeDecision]) -> dict[str, object]:
    """`{schema_version, total, by_release_gate, decisions}` of one run."""
    listed = tuple(decisions)
    return {
        "schema_version": DECISION_SCHEMA,
        "total": len(listed),
        "by_release_gate": {gate.value: sum(d.release_gate is gate for d in listed) for gate in ReleaseGate},
        "decisions": [decision.as_json() for decision in listed],
    }
