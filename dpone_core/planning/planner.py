"""Plans one load: takes a LoadConfig and the declarations of both connectors, gives a LoadPlan. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from dpone_core.model.artifacts import STAGING, artifact_prefix
from dpone_core.model.connector import ConnectorDescriptor
from dpone_core.model.decision import ReleaseGate, RuntimeDecision
from dpone_core.model.load_config import LoadConfig, TableName
from dpone_core.model.load_plan import LoadPlan, SourcePlan, TargetPlan
from dpone_core.model.vocabulary import HookPhase, LoadPath, StrategyMode
from dpone_core.planning.hooks import HookGraph, judge_hooks
from dpone_core.planning.lineage import LineageChoice, choose_lineage
from dpone_core.planning.route import Route, RouteRefusedError, choose_route

VISIBLE_ROWS: Final = "source_rows_visible_only"


def plan_load(config: LoadConfig, source: ConnectorDescriptor, sink: ConnectorDescriptor) -> LoadPlan:
    """Plans one process. The run follows the plan without deciding again. Raises RouteRefusedError or
    HookGraphError.
    """
    route = choose_route(config, source, sink)
    refuse_lookback(config)
    hooks = judge_hooks(config)
    lineage = choose_lineage(config.sink.lineage, config.sink.strategy.unique_key)
    target = _target_plan(config, route, lineage)
    return LoadPlan(
        process=config.process,
        manifest=config.manifest,
        load_path=route.load_path,
        finalization_phase=route.finalization_phase,
        source=SourcePlan(
            type=config.source.type,
            connection_ref=config.source.connection_ref,
            dataset=config.source.dataset,
            reader=route.source.reader,
            has_metric_probe=route.source.metric_probe,
            incremental=config.source.incremental,
            partitioning=config.source.partitioning,
            special_values=config.source.special_values,
            columns=config.source.reading.columns,
            visible_rows=config.source.visible_rows,
        ),
        targets=(target,),
        pre_hooks=HookGraph.of(hooks, HookPhase.PRE).ordered,
        post_hooks=HookGraph.of(hooks, HookPhase.POST).ordered,
        state=config.state,
        audit_schema=config.sink.governance.state_schema if config.sink.governance.audit else None,
        decisions=(*_decisions(config, route, lineage), *_row_decisions(config)),
        warnings=(*lineage.warnings, *(warning for each in _row_decisions(config) for warning in each.warnings)),
    )


def refuse_lookback(config: LoadConfig) -> None:
    """Raises RouteRefusedError for a lookback under incremental_append, which would write the repeated rows a second
    time.
    """
    incremental = config.source.incremental
    appends = config.sink.strategy.mode is StrategyMode.INCREMENTAL_APPEND
    if appends and incremental is not None and incremental.lookback > timedelta():
        raise RouteRefusedError(
            "with lookback, incremental_append would write rows of the last load a second time",
            path=("source", "options", "incremental", "lookback"),
            fix="remove lookback; the half-open window already waits for ties of the newest cursor value",
        )


def _target_plan(config: LoadConfig, route: Route, lineage: LineageChoice) -> TargetPlan:
    sink = config.sink
    schema = sink.table.schema or route.sink.default_schema
    staged = route.load_path is LoadPath.STAGED
    return TargetPlan(
        type=sink.type,
        connection_ref=sink.connection_ref,
        table=sink.table,
        staging_schema=sink.staging_schema or schema if staged else None,
        staging_name=artifact_prefix(TableName(schema=schema, name=sink.table.name), STAGING) + "{load}"
        if staged
        else None,
        strategy=sink.strategy.mode,
        unique_key=sink.strategy.unique_key,
        finaliser=route.finaliser,
        physical_design=sink.physical_design,
        schema_evolution=sink.schema_evolution,
        lineage_columns=lineage.columns,
        has_metric_probe=route.sink.metric_probe,
        memory_limit_bytes=route.sink.memory_limit_bytes,
        max_columns=route.sink.max_columns,
        defaults=sink.target_defaults,
        default_schema=route.sink.default_schema,
        allow_empty=sink.strategy.allow_empty,
        order_by=_order_by(config, route),
    )


def _order_by(config: LoadConfig, route: Route) -> tuple[str, ...]:
    """The sorting key that a created target gets: the manifest's, or the key by which a merge finds its rows."""
    strategy, design = config.sink.strategy, config.sink.physical_design
    by_key = route.sink.physical_design and strategy.mode is StrategyMode.INCREMENTAL_MERGE
    return design.order_by or (strategy.unique_key if by_key else ())


def _row_decisions(config: LoadConfig) -> tuple[RuntimeDecision, ...]:
    """The decision to load what the source shows to the role; none where every row is demanded."""
    if not config.source.visible_rows:
        return ()
    return (
        RuntimeDecision(
            decision_id="source.rows",
            phase="extract",
            component="planner",
            category="source_row_security",
            requested="visible",
            selected="visible",
            release_gate=ReleaseGate.WARNING,
            warnings=(VISIBLE_ROWS,),
        ),
    )


def _decisions(config: LoadConfig, route: Route, lineage: LineageChoice) -> tuple[RuntimeDecision, ...]:
    return (
        RuntimeDecision(
            decision_id="load_governance.finalization",
            phase="load_governance",
            component="planner",
            category="finalization",
            requested=str(config.sink.governance.finalization_phase or "auto"),
            selected=route.finalization_phase.value,
            details={"finaliser": route.finaliser.name, "atomic_for": route.finaliser.atomic_for},
        ),
        RuntimeDecision(
            decision_id="source.scan_mode",
            phase="extract",
            component="planner",
            category="source_scan_mode",
            requested="auto",
            selected="single_range" if config.source.partitioning is None else "key_ranges",
            details={"reader": route.source.reader},
        ),
        RuntimeDecision(
            decision_id="sink.ingest",
            phase="stage" if route.load_path is LoadPath.STAGED else "load",
            component="planner",
            category="ingest_selection",
            requested="auto",
            selected="arrow_pump",
            details={"sink": config.sink.type.value},
        ),
        RuntimeDecision(
            decision_id="lineage.columns",
            phase="lineage",
            component="planner",
            category="lineage",
            requested=config.sink.lineage.preset.value if config.sink.lineage.enabled else "off",
            selected=",".join(lineage.columns) or "none",
            release_gate=ReleaseGate.WARNING if lineage.warnings else ReleaseGate.GREEN,
            warnings=lineage.warnings,
        ),
    )
