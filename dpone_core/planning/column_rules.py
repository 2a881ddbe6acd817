"""Where rules about columns can be judged: over the staged rows of one load, before they are public; in a sink without
staging over the rows that it has written.

What cannot be judged on the planned route is refused by check, plan and run alike. Contract: GATE-29.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpone_core.model.column_rules import FreshnessReference, FreshnessRule, RuleScope, StatementRule, UniqueRule
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.vocabulary import LoadPath, Side, StrategyMode
from dpone_core.planning.route import RouteRefusedError
from dpone_core.quality.gates import QualityGate
from dpone_core.quality.policy import QualityGatePolicy


def refuse_unjudged_rules(policy: QualityGatePolicy, plan: LoadPlan) -> None:
    """Raises RouteRefusedError for the first rule that nothing would judge on this route."""
    for index, gate in _rules(policy):
        reason = _why_not(gate, plan)
        if reason is not None:
            message, fix = reason
            raise RouteRefusedError(message, path=("quality", "gates", index), fix=fix)


def needs_interval(policy: QualityGatePolicy) -> str | None:
    """Id of a gate that counts from the end of the run's interval; None when no gate does."""
    return next(
        (
            gate.id
            for _, gate in _rules(policy)
            if isinstance(gate.rule, FreshnessRule) and gate.rule.reference is FreshnessReference.INTERVAL_END
        ),
        None,
    )


def _rules(policy: QualityGatePolicy) -> Iterator[tuple[int, QualityGate]]:
    for index, gate in enumerate(policy.gates):
        if gate.rule is not None:
            yield index, gate


def _why_not(gate: QualityGate, plan: LoadPlan) -> tuple[str, str] | None:
    if plan.load_path is LoadPath.LEGACY:
        return _why_not_without_staging(gate, plan)
    if plan.source.partitioning is not None and plan.target.strategy is not StrategyMode.FULL_REFRESH:
        return (
            f"{gate.type} is judged over all rows of the load before one is published, and key ranges of"
            f" {plan.target.strategy} are published one by one",
            "load with full_refresh, or remove the gate or source.options.partitioning",
        )
    if gate.side is Side.SOURCE:
        return "no statement is judged over the source", "write side: target, or a hook of kind data_quality_probe"
    return None


def _why_not_without_staging(gate: QualityGate, plan: LoadPlan) -> tuple[str, str] | None:
    """Such a sink judges the rows that it has written, read again, and no others."""
    if isinstance(gate.rule, StatementRule):
        return f"{gate.type} needs an engine, and this sink has none", "load into a sink with staging"
    if plan.source.partitioning is not None:
        return (
            f"{gate.type} is not judged over key ranges in a sink without staging",
            "remove the gate, or source.options.partitioning",
        )
    within = isinstance(gate.rule, UniqueRule) and gate.rule.within is RuleScope.TARGET
    if within and plan.target.strategy is not StrategyMode.FULL_REFRESH:
        return "unique within the target is not judged over files of other loads", "write within: load"
    return None
