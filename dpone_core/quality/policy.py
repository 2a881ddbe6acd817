"""The gates of a load in order, with defaults filled in, and the fingerprint by which reports name them.

The fingerprint leaves out aliases, metrics, times, run ids, SQL text and acceptance. Contract: RCPT-01, RCPT-02,
RCPT-03, RCPT-04, RCPT-05.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dpone_core.authoring.quality import (
    AcceptedValuesGate,
    CustomSqlGate,
    FreshnessGate,
    GateSection,
    MinRowsGate,
    NotNullGate,
    QualitySection,
    RowCountGate,
    TypedHashGate,
    UniqueGate,
)
from dpone_core.authoring.source import duration_of
from dpone_core.authoring.validate import VALUE_INVALID, WRONG_TYPE, validate
from dpone_core.model.column_rules import (
    AcceptedValuesRule,
    FreshnessRule,
    NotNullRule,
    StatementRule,
    UniqueRule,
    canonical_rule,
)
from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.problem import ManifestInvalidError, Problem
from dpone_core.model.sql import SqlText
from dpone_core.model.vocabulary import GateType, Side
from dpone_core.quality.compat import gate_from_check
from dpone_core.quality.gates import QualityGate


@dataclass(frozen=True, slots=True, kw_only=True)
class GateContractEntry:
    """Id, type and severity of one gate, as every report of the policy must state them."""

    gate_id: str
    type: str
    severity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityGatePolicy:
    """The gates in the order of the manifest, followed by the gates of deprecated checks."""

    gates: tuple[QualityGate, ...] = ()
    policy_fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        gates = [_canonical(ordinal, gate) for ordinal, gate in enumerate(self.gates)]
        object.__setattr__(self, "policy_fingerprint", fingerprint({"gates": gates}))

    @property
    def is_empty(self) -> bool:
        return not self.gates

    @property
    def contract(self) -> tuple[GateContractEntry, ...]:
        """The entries that a report of this policy must state, in policy order."""
        return tuple(
            GateContractEntry(gate_id=gate.id, type=str(gate.type), severity=gate.severity.value) for gate in self.gates
        )

    @classmethod
    def from_section(cls, section: QualitySection) -> QualityGatePolicy:
        """Raises ManifestInvalidError for a section whose contract nobody has read: its gates would be missing."""
        if section.contract is not None:
            raise ManifestInvalidError(
                [Problem(code=VALUE_INVALID, message="the data contract was not read", path="quality.contract")]
            )
        gates = [_gate(authored) for authored in section.gates]
        gates += [gate_from_check(check, section.mode) for check in section.checks]
        return cls(gates=tuple(gates))


def quality_section(quality: object) -> QualitySection:
    """Validates the `quality` mapping of a manifest, which is read once.

    Raises ManifestInvalidError with every problem, at paths below `quality`.
    """
    if not isinstance(quality, Mapping):
        raise ManifestInvalidError([Problem(code=WRONG_TYPE, message="expected a mapping", path="quality")])
    section = validate(QualitySection, quality)
    if isinstance(section, tuple):
        raise ManifestInvalidError([_below_quality(problem) for problem in section])
    return section


def _below_quality(problem: Problem) -> Problem:
    return replace(problem, path=f"quality.{problem.path}" if problem.path else "quality")


def _gate(authored: GateSection) -> QualityGate:
    common = QualityGate(id=authored.id, type=GateType(authored.type), severity=authored.severity)
    if isinstance(authored, RowCountGate):
        return replace(common, tolerance_mode=authored.tolerance.mode, tolerance_value=authored.tolerance.value)
    if isinstance(authored, MinRowsGate):
        return replace(common, side=Side(authored.side), threshold=authored.threshold)
    if isinstance(authored, TypedHashGate):
        return replace(common, hash_mode=authored.mode)
    if isinstance(authored, CustomSqlGate):
        return _statement_gate(authored, common)
    return _rule_gate(authored, common)


def _statement_gate(authored: CustomSqlGate, common: QualityGate) -> QualityGate:
    """The text of a file is put in its place before a policy is made of the section: without it nothing is judged."""
    gate = replace(
        common,
        side=Side(authored.side),
        tolerance_mode=authored.tolerance.mode,
        tolerance_value=authored.tolerance.value,
    )
    if authored.sql is None:
        return gate
    sql = SqlText(text=authored.sql)
    return replace(gate, sql_sha256=sql.sql_hash, rule=StatementRule(sql=sql, expect=authored.expect))


def _rule_gate(
    authored: NotNullGate | UniqueGate | AcceptedValuesGate | FreshnessGate, common: QualityGate
) -> QualityGate:
    if isinstance(authored, FreshnessGate):
        seconds = int(duration_of(authored.max_age).total_seconds())
        rule = FreshnessRule(column=authored.column, max_age_seconds=seconds, reference=authored.reference)
        return replace(common, rule=rule)
    tolerated = replace(common, tolerance_mode=authored.tolerance.mode, tolerance_value=authored.tolerance.value)
    if isinstance(authored, NotNullGate):
        return replace(tolerated, rule=NotNullRule(columns=authored.columns))
    if isinstance(authored, UniqueGate):
        return replace(tolerated, rule=UniqueRule(columns=authored.columns, within=authored.within))
    return replace(
        tolerated,
        rule=AcceptedValuesRule(column=authored.column, values=authored.values, allow_null=authored.allow_null),
    )


def _canonical(ordinal: int, gate: QualityGate) -> dict[str, object]:
    canonical: dict[str, object] = {
        "ordinal": ordinal,
        "id": gate.id,
        "type": str(gate.type),
        "severity": gate.severity.value,
        "side": gate.side.value,
        "threshold": gate.threshold,
        "tolerance_mode": gate.tolerance_mode.value,
        "tolerance_value": gate.tolerance_value + 0.0,
        "hash_mode": gate.hash_mode.value,
    }
    if gate.sql_sha256 is not None:
        canonical["sql_sha256"] = gate.sql_sha256
    return canonical | canonical_rule(gate.rule)
