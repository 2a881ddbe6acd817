"""The record of one automatic choice: what was requested, what was selected and why (LIFE-19)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

DECISION_SCHEMA: Final = "dpone.runtime.decision_audit.v1"


NOT_TAKEN: Final[Mapping[str, str]] = {
    "native_acceleration": "left_to_connector",
    "export_optimizer": "read_as_written",
    "source_materialization": "no_work_tables",
}
"""Categories in which a plan has nothing to choose, each with the reason: they are told, so that none is missed.

A connector has one reader; those of MySQL and SQL Server choose between two when they open and say so in the log. A
table or query is read as it is written, in one scan or in the key ranges that the manifest asks for. Nothing is written
to a source but by hooks.
"""


class ReleaseGate(StrEnum):
    """Whether a choice is as requested (`green`), worth a look (`warning`) or must stop the load (`blocked`)."""

    GREEN = "green"
    WARNING = "warning"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeDecision:
    """One recorded choice. `details` holds names, counts and hashes only, never rows, SQL or secrets."""

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
        """The decision in the published shape dpone.runtime.decision_audit.v1."""
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
    """Returns `{schema_version, total, by_release_gate, decisions, not_taken}` over the decisions of one run.

    `not_taken` lists `{category, reason}` where there was nothing to choose.
    """
    listed = tuple(decisions)
    return {
        "schema_version": DECISION_SCHEMA,
        "total": len(listed),
        "by_release_gate": {gate.value: sum(d.release_gate is gate for d in listed) for gate in ReleaseGate},
        "decisions": [decision.as_json() for decision in listed],
        "not_taken": [{"category": category, "reason": reason} for category, reason in NOT_TAKEN.items()],
    }
