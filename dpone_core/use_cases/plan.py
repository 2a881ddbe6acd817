"""`plan`: what a run of a manifest would do, decided without a connection. Imports no driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dpone_core.acceptance.recorder import unavailable_sides
from dpone_core.authoring.validate import Finding
from dpone_core.declared.registry import descriptor_of
from dpone_core.manifest.resolve import Manifest, load_manifest
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.vocabulary import GateType, Side
from dpone_core.planning.column_rules import refuse_unjudged_rules
from dpone_core.planning.fan_out import refuse_fan_out
from dpone_core.planning.planner import plan_load
from dpone_core.planning.presentation import PLAN_SET_KIND, plan_json
from dpone_core.planning.route import RouteRefusedError
from dpone_core.ports.hooks import HookProvider
from dpone_core.quality.snapshot import QualityExecutionSnapshot
from dpone_core.wiring.hook_providers import find_third_party_providers

__all__ = [
    "PLAN_SET_KIND",
    "PlannedProcess",
    "SideUnavailableError",
    "plan",
    "plan_authored",
    "plan_process",
    "route_finding",
]


class SideUnavailableError(RouteRefusedError):
    """Required acceptance asks for the metrics of a side that this route cannot measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProcess:
    """A process that passed planning. No connection was resolved. `hook_providers` are those of installed packages."""

    config: LoadConfig
    plan: LoadPlan
    snapshot: QualityExecutionSnapshot
    hook_providers: Mapping[str, HookProvider] = field(default_factory=dict)


def plan(path: Path, selector: str | None, root: Path | None) -> list[dict[str, object]]:
    """Returns one plan document per process in authored order. Raises ETLConfigurationError.

    `root` bounds every file that is read; None = found from the manifest.
    """
    manifest = load_manifest(path, project_root=root)
    planned = [plan_authored(manifest, config) for config in manifest.select(selector)]
    return [plan_json(process.plan, process.snapshot) for process in planned]


def plan_authored(manifest: Manifest, config: LoadConfig) -> PlannedProcess:
    """Plans one process of a manifest; a refusal says where the refused field stands in it."""
    try:
        return plan_process(config)
    except RouteRefusedError as error:
        raise error.placed(manifest.problem_of(config.process, route_finding(error)).position) from None


def route_finding(error: RouteRefusedError) -> Finding:
    return Finding(code=error.code, message=error.reason, path=error.path, fix=error.fix)


def plan_process(config: LoadConfig) -> PlannedProcess:
    """Decides route, load path and policy of one process. Raises ETLConfigurationError of many codes.

    A required acceptance side that cannot be measured raises SideUnavailableError with the code of that side.
    """
    snapshot = QualityExecutionSnapshot.from_load_config(config)
    plan = plan_load(config, descriptor_of(config.source.type), descriptor_of(config.sink.type))
    if snapshot.acceptance.is_required:
        missing = unavailable_sides(
            snapshot.acceptance, plan.load_path, plan.source.has_metric_probe, plan.target.has_metric_probe
        )
        if missing:
            sides = ", ".join(side.side.value for side in missing)
            raise SideUnavailableError(
                f"quality.acceptance asks for metrics of {sides}, which this pair of source and sink cannot measure",
                path=("quality", "acceptance"),
                code=missing[0].code,
                fix=f"set quality.acceptance.capture.{missing[0].side.value}: false, or mode: warn_only",
            )
    refuse_unjudged_rules(snapshot.gates, plan)
    if plan.source.partitioning is not None:
        _refuse_unresumable(snapshot)
        if plan.source.partitioning.mapped:
            refuse_fan_out(config, descriptor_of(config.sink.type))
    return PlannedProcess(
        config=config, plan=plan, snapshot=snapshot, hook_providers=find_third_party_providers(config)
    )


def _refuse_unresumable(snapshot: QualityExecutionSnapshot) -> None:
    """Raises RouteRefusedError for quality rules that an attempt which only resumes a transfer cannot keep.

    Staged rows are gone by then, and no typed hash covers all key ranges.
    """
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
