"""Renders a LoadPlan as JSON, text and Markdown for the person who approves it."""

from __future__ import annotations

from typing import Final

from dpone_core.model.column_rules import (
    AcceptedValuesRule,
    ColumnRule,
    FreshnessRule,
    StatementRule,
    canonical_rule,
)
from dpone_core.model.hook import HookDefinition
from dpone_core.model.load_config import IncrementalConfig
from dpone_core.model.load_plan import LoadPlan, TargetPlan
from dpone_core.model.vocabulary import GateType, StrategyMode
from dpone_core.quality.gates import QualityGate
from dpone_core.quality.snapshot import QualityExecutionSnapshot

PLAN_KIND: Final = "dpone.plan.v1"
PLAN_SET_KIND: Final = "dpone.plan_set.v1"
_REPLACE: Final = StrategyMode.PARTITION_REPLACE
HOOK_GRAPH_KIND: Final = "dpone.hook_graph.v1"


def plan_json(plan: LoadPlan, snapshot: QualityExecutionSnapshot) -> dict[str, object]:
    """The plan in the published shape dpone.plan.v1: equal plans give equal documents, without secrets and SQL text."""
    acceptance = snapshot.acceptance
    return {
        "kind": PLAN_KIND,
        "manifest": plan.manifest,
        "process": plan.process,
        "route": {
            "source": plan.source.type.value,
            "dataset": plan.source.dataset,
            "reader": plan.source.reader,
            "columns": _columns(plan),
            "sink": plan.target.type.value,
            "load_path": plan.load_path.value,
            "finalization_phase": plan.finalization_phase.value,
            "physical_sides": [side.value for side in plan.physical_sides],
        },
        "strategy": {
            "mode": plan.target.strategy.value,
            "unique_key": list(plan.target.unique_key),
            "cursor_column": plan.source.incremental.cursor_column if plan.source.incremental else None,
            **({"lookback": _lookback(plan.source.incremental)} if plan.source.incremental else {}),
            "state": plan.state.value,
            **({"allow_empty": plan.target.allow_empty} if plan.target.strategy is _REPLACE else {}),
        },
        **_partitioning(plan),
        **_special_values(plan),
        **({"source_rows": "visible"} if plan.source.visible_rows else {}),
        "targets": [_target(target) for target in plan.targets],
        "delivery": delivery_semantics(plan),
        "hooks": {
            "pre_hook": [_hook(hook) for hook in plan.pre_hooks],
            "post_hook": [_hook(hook) for hook in plan.post_hooks],
        },
        "quality": {
            "policy_snapshot_id": snapshot.policy_snapshot_id,
            "policy_fingerprint": snapshot.gates.policy_fingerprint,
            "gates": [_gate(gate) for gate in snapshot.gates.gates],
            "acceptance": acceptance.canonical(),
        },
        "audit_schema": plan.audit_schema,
        "connections": sorted(
            {
                ref
                for ref in (
                    plan.source.connection_ref,
                    plan.target.connection_ref,
                    *(hook.connection_ref for hook in (*plan.pre_hooks, *plan.post_hooks)),
                )
                if ref
            }
        ),
        "warnings": list(plan.warnings),
    }


def _gate(gate: QualityGate) -> dict[str, object]:
    """What a gate demands, in the words of the manifest; the fields of its type and no others."""
    shown: dict[str, object] = {"gate_id": gate.id, "type": str(gate.type), "severity": gate.severity.value}
    match gate.type:
        case GateType.ROW_COUNT_RECONCILIATION:
            shown["tolerance"] = {"mode": gate.tolerance_mode.value, "value": gate.tolerance_value}
        case GateType.MIN_ROWS:
            shown |= {"side": gate.side.value, "threshold": gate.threshold}
        case GateType.TYPED_HASH_RECONCILIATION:
            shown["mode"] = gate.hash_mode.value
    return shown if gate.rule is None else shown | _rule(gate, gate.rule)


def _rule(gate: QualityGate, rule: ColumnRule) -> dict[str, object]:
    """A rule about columns: accepted values by their number and a statement by its hash, because a plan is kept as
    evidence. Freshness has no tolerance.
    """
    shown = canonical_rule(rule)
    if isinstance(rule, AcceptedValuesRule):
        shown = {name: value for name, value in shown.items() if name != "values"} | {
            "number_of_values": len(rule.values)
        }
    if isinstance(rule, StatementRule):
        shown = {"sql_sha256": gate.sql_sha256, "expect": rule.expect.value}
    if isinstance(rule, FreshnessRule):
        return shown
    return shown | {"tolerance": {"mode": gate.tolerance_mode.value, "value": gate.tolerance_value}}


def _lookback(incremental: IncrementalConfig) -> str | None:
    return str(incremental.lookback) if incremental.lookback else None


def _columns(plan: LoadPlan) -> object:
    """The columns that the manifest declares, by name and type; a source that names its own is asked by the run."""
    declared = plan.source.columns
    return {column.name: str(column.type) for column in declared} if declared else "those of the source, asked at run"


def _partitioning(plan: LoadPlan) -> dict[str, object]:
    """Key ranges of a plan that has them: how the source is split and how the ranges become visible."""
    split = plan.source.partitioning
    if split is None:
        return {}
    together = plan.target.strategy is StrategyMode.FULL_REFRESH
    return {
        "partitioning": {
            "column": split.column,
            "num_partitions": split.num_partitions,
            "workers": split.workers,
            "bounds": "given" if split.lower is not None else "asked",
            "checkpoints": split.checkpoints.value,
            **({"airflow": "mapped"} if split.mapped else {}),
            "publication": "once" if together else "range by range",
        }
    }


def _special_values(plan: LoadPlan) -> dict[str, object]:
    """Rules of a plan that has them. NULL is printed as the text NULL, which no authored replacement can be."""
    rules = plan.source.special_values
    shown = [rule.as_json() | {"becomes": rule.becomes or "NULL"} for rule in rules]
    return {"special_values": shown} if rules else {}


def delivery_semantics(plan: LoadPlan) -> dict[str, str]:
    """What a reader of the target may rely on, and what a retry after an unknown commit means."""
    finaliser = plan.target.finaliser
    text = finaliser.delivery
    if plan.target.strategy is StrategyMode.INCREMENTAL_APPEND and plan.source.incremental is not None:
        text += (
            "; rows with saved <= cursor < newest value seen at the start: the newest cursor value waits for the next "
            "run, so ties and late equals are neither lost nor loaded twice; a later smaller cursor is not seen"
        )
    if plan.target.strategy is StrategyMode.INCREMENTAL_MERGE and plan.source.incremental is not None:
        lookback = plan.source.incremental.lookback
        first = f"saved - {lookback}" if lookback else "saved"
        text += (
            f"; rows with cursor >= {first} are read, some of them again, and upserted by key, so ties and late rows "
            "from there on are neither lost nor doubled; a later smaller cursor and deleted rows are not seen"
        )
    if plan.target.strategy is _REPLACE:
        text += "; partitions that no row of the load lies in stay as they are"
    return {"semantics": text, "retry_after_unknown_commit": finaliser.retry_after_unknown.value}


def _target(target: TargetPlan) -> dict[str, object]:
    design = target.physical_design
    partition = design.partition_by
    return {
        "table": str(target.table),
        "staging": f"{target.staging_schema}.{target.staging_name}" if target.staging_name is not None else None,
        "finaliser": {
            "name": target.finaliser.name,
            "atomic_for": target.finaliser.atomic_for,
            "assumes": list(target.finaliser.assumes),
        },
        "order_by": list(target.order_by),
        "partition_by": f"{partition.granularity}({partition.column})" if partition else None,
        "cluster": design.cluster,
        "schema_evolution": target.schema_evolution.value,
        "lineage_columns": list(target.lineage_columns),
        "memory_limit_bytes": target.memory_limit_bytes,
        **({"max_columns": target.max_columns} if target.max_columns is not None else {}),
        **({"target_defaults": list(target.defaults)} if target.defaults else {}),
        **({"file_format": design.file_format} if design.file_format is not None else {}),
    }


def _hook(hook: HookDefinition) -> dict[str, object]:
    """A type without SQL shows its connection and the names of its options in place of connector and SQL."""
    sql = hook.sql
    action: dict[str, object] = (
        {"connector": hook.connector.value, "sql_hash": sql.sql_hash, "sql_file": sql.file}
        if sql is not None
        else {"connection_ref": hook.connection_ref, "options": sorted(hook.options), "sql_hash": None}
    )
    return {
        "id": hook.id,
        "kind": hook.kind.value,
        "type": hook.type,
        **action,
        "mutates_source": hook.mutates_source,
        "retry_policy": hook.retry_policy.value,
        "airflow": hook.airflow.value,
        "depends_on": list(hook.depends_on),
    }


def hook_graph_json(plan: LoadPlan) -> dict[str, object]:
    """Hooks as nodes in execution order and `[before, after]` as edges; the load stands between the two phases."""
    hooks = (*plan.pre_hooks, *plan.post_hooks)
    return {
        "process": plan.process,
        "nodes": [{"node": _node(hook), "phase": hook.phase.value, **_hook(hook)} for hook in hooks],
        "edges": [list(edge) for edge in _edges(plan)],
    }


def _edges(plan: LoadPlan) -> list[tuple[str, str]]:
    """Authored dependencies, and edges to and from the load: from each pre-hook that no other hook waits for, to
    each post-hook that waits for none.
    """
    edges: list[tuple[str, str]] = []
    for hook in (*plan.pre_hooks, *plan.post_hooks):
        edges += [(f"{hook.phase.value}_{needed}", _node(hook)) for needed in hook.depends_on]
    waited_for = {before for before, _ in edges}
    edges += [(_node(hook), "load") for hook in plan.pre_hooks if _node(hook) not in waited_for]
    edges += [("load", _node(hook)) for hook in plan.post_hooks if not hook.depends_on]
    return edges


def _node(hook: HookDefinition) -> str:
    return f"{hook.phase.value}_{hook.id}"
