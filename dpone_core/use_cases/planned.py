"""A process that passed planning: configuration, plan and the policy snapshot of its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpone_core.acceptance.recorder import unavailable_sides
from dpone_core.declared.registry import descriptor_of
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.vocabulary import GateType, Side
from dpone_core.planning.fan_out import refuse_fan_out
from dpone_core.planning.planner import plan_load
from dpone_core.planning.route import RouteRefusedError
from dpone_core.ports.hooks import HookProvider
from dpone_core.quality.snapshot import QualityExecutionSnapshot
from dpone_core.wiring.hook_providers import third_party_providers


class SideUnavailableError(RouteRefusedError):
    """Required acceptance asks for a side this route cannot have; the code is S0's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProcess:
    """What `plan` shows: no connection was resolved or opened. `hook_providers` are those of installed packages."""

    config: LoadConfig
    plan: LoadPlan
    snapshot: QualityExecutionSnapshot
    hook_providers: Mapping[str, HookProvider] = field(default_factory=dict)


def refuse_unresumable(snapshot: QualityExecutionSnapshot) -> None:
    """What an attempt that only resumes could never show: staged rows, which are gone, and a hash over all ranges."""
    if snapshot.acceptance.is_required and Side.STAGED in snapshot.acceptance.requested_sides:
        raise SideUnavailableError(
            "acceptance requires staged, which a resumed transfer no longer has",
            path=("quality", "acceptance", "capture", "staged"),
            code="staged_acceptance_metric_unavailable",
            fix="set quality.acceptance.capture.staged: false, or mode: warn_only",
        )
    if any(gate.type is GateType.TYPED_HASH_RECONCILIATION for gate in snapshot.gates.gates):
        raise RouteRefusedError(
            "typed_hash_reconciliation has no meaning across key ranges",
            path=("quality", "gates"),
            fix="remove the gate, or source.options.partitioning",
        )


def plan_process(config: LoadConfig) -> PlannedProcess:
    """Raises ETLConfigurationError of many codes; a required side that cannot be measured carries S0's code."""
    snapshot = QualityExecutionSnapshot.from_load_config(config)
    plan = plan_load(config, descriptor_of(config.source.type), descriptor_of(config.sink.type))
    if snapshot.acceptance.is_required:
        missing = unavailable_sides(
            snapshot.acceptance, plan.load_path, plan.source.has_metric_probe, plan.target.has_metric_probe
        )
        if missing:
            sides = ", ".join(side.side.value for side in missing)
            raise SideUnavailableError(
                f"acceptance requires {sides}, which this route cannot measure",
                path=("quality", "acceptance"),
                code=missing[0].code,
                fix=f"set quality.acceptance.capture.{missing[0].side.value}: false, or mode: warn_only",
            )
    if plan.source.partitioning is not None:
        refuse_unresumable(snapshot)
        if plan.source.partitioning.mapped:
            refuse_fan_out(config, descriptor_of(config.sink.type))
    return PlannedProcess(config=config, plan=plan, snapshot=snapshot, hook_providers=third_party_providers(config))
