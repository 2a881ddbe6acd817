"""Chooses how a load runs from what the connectors declare. What is not declared is refused before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dpone_core.errors import ETLConfigurationError
from dpone_core.model.connector import ConnectorDescriptor, Finaliser, SinkTraits, SourceTraits
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.problem import Position
from dpone_core.model.vocabulary import FinalizationPhase, LoadPath, StrategyMode

FieldPath = tuple[str | int, ...]


class RouteRefusedError(ETLConfigurationError):
    """These connectors cannot do what the manifest requests. `path` is the authored field, `reason` the message
    without it.
    """

    code = "DPONE_ROUTE_REFUSED"

    def __init__(self, message: str, *, path: FieldPath, code: str | None = None, fix: str | None = None) -> None:
        self.path = path
        self.reason = message
        super().__init__(f"{'.'.join(str(part) for part in path)}: {message}", code=code, fix=fix)

    def placed(self, position: Position | None) -> RouteRefusedError:
        """The same error with the place of the field in front of its message."""
        if position is not None:
            self.message = f"{position}: {self.message}"
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The chosen traits of source and sink, the finaliser and the load path."""

    source: SourceTraits
    sink: SinkTraits
    finaliser: Finaliser
    load_path: LoadPath
    finalization_phase: FinalizationPhase


_RANGED: Final = (StrategyMode.FULL_REFRESH, StrategyMode.INCREMENTAL_APPEND, StrategyMode.PARTITION_REPLACE)


def refuse_partitioning(config: LoadConfig, source: ConnectorDescriptor, sink: ConnectorDescriptor) -> None:
    """Raises RouteRefusedError unless source, sink and strategy can transfer key ranges; does nothing without
    partitioning.
    """
    path = ("source", "options", "partitioning")
    if config.source.partitioning is None:
        return
    for side, traits in ((source, source.source), (sink, sink.sink)):
        if traits is None or not traits.key_ranges:
            raise RouteRefusedError(
                f"connector '{side.type}' cannot transfer key ranges",
                path=path,
                fix="remove it; then one reader reads everything",
            )
    _refuse_unranged_format(config, source)
    mode = config.sink.strategy.mode
    if sink.sink is not None and sink.sink.load_path is LoadPath.LEGACY:
        _refuse_legacy_ranges(config, sink.type)
    if mode not in _RANGED:
        raise RouteRefusedError(
            f"strategy '{mode}' cannot publish key ranges",
            path=path,
            fix=f"remove it, or use one of: {', '.join(_RANGED)}",
        )
    _refuse_divided_partitions(config)


def _refuse_divided_partitions(config: LoadConfig) -> None:
    """A range replaces the target partitions of its rows, so no target partition may have rows in two ranges."""
    partition, split = config.sink.physical_design.partition_by, config.source.partitioning
    if config.sink.strategy.mode is not StrategyMode.PARTITION_REPLACE or partition is None or split is None:
        return
    if partition.column != split.column:
        raise RouteRefusedError(
            f"ranges of '{split.column}' would divide the target's partitions by '{partition.column}'",
            path=("source", "options", "partitioning", "column"),
            fix=f"write column: {partition.column}, or remove partitioning",
        )


def _refuse_unranged_format(config: LoadConfig, source: ConnectorDescriptor) -> None:
    asked = config.source.format
    if asked is not None and source.source is not None and asked not in source.source.ranged_formats:
        raise RouteRefusedError(
            f"{asked} files cannot be split into key ranges",
            path=("source", "options", "partitioning"),
            fix="remove it; one reader is used",
        )


def _refuse_legacy_ranges(config: LoadConfig, sink: str) -> None:
    """A sink without staging shows each range as soon as it is written, so it cannot replace a whole target."""
    path = ("source", "options", "partitioning")
    if config.sink.strategy.mode is not StrategyMode.INCREMENTAL_APPEND:
        raise RouteRefusedError(
            f"sink '{sink}' publishes each range separately, which is correct for incremental_append only",
            path=path,
            fix="remove it, or use incremental_append",
        )
    if config.source.partitioning is not None and config.source.partitioning.workers > 1:
        raise RouteRefusedError(
            f"sink '{sink}' can write one range at a time only", path=(*path, "workers"), fix="write workers: 1"
        )


def refuse_special_values(config: LoadConfig, source: ConnectorDescriptor) -> None:
    """Raises RouteRefusedError for a rule about a value that the source's engine does not have or cannot convert."""
    known = () if source.source is None else source.source.special_values
    for rule in config.source.special_values:
        if rule.value not in known:
            raise RouteRefusedError(
                f"source '{source.type}' cannot convert '{rule.value}', which a rule of column '{rule.column}' needs",
                path=("source", "options", "special_values"),
                fix=f"use one of: {', '.join(known)}" if known else "remove it, or convert the values in options.query",
            )


def choose_route(config: LoadConfig, source: ConnectorDescriptor, sink: ConnectorDescriptor) -> Route:
    """Chooses the route. Raises RouteRefusedError naming the authored field that these connectors cannot serve."""
    if source.source is None:
        raise RouteRefusedError(f"connector '{source.type}' cannot be read from", path=("source", "type"))
    if sink.sink is None:
        raise RouteRefusedError(f"connector '{sink.type}' cannot be loaded into", path=("sink", "type"))
    mode = config.sink.strategy.mode
    finaliser = sink.sink.finaliser_for(mode)
    if finaliser is None:
        raise RouteRefusedError(
            f"sink '{sink.type}' does not support strategy '{mode}'",
            path=("sink", "strategy", "mode"),
            fix=f"use one of: {', '.join(f.strategy for f in sink.sink.finalisers)}",
        )
    if config.source.format is not None and config.source.format not in source.source.formats:
        raise RouteRefusedError(
            f"source '{source.type}' cannot read format '{config.source.format}'",
            path=("source", "options", "format"),
            fix=f"use one of: {', '.join(source.source.formats)}",
        )
    if config.source.incremental is not None and not source.source.incremental:
        raise RouteRefusedError(
            f"source '{source.type}' cannot read by a cursor", path=("source", "options", "incremental")
        )
    refuse_partitioning(config, source, sink)
    refuse_special_values(config, source)
    phase = (
        FinalizationPhase.PRE_FINALIZE
        if sink.sink.load_path is LoadPath.STAGED
        else FinalizationPhase.LEGACY_POST_FINALIZE
    )
    asked = config.sink.governance.finalization_phase
    if asked is not None and asked is not phase:
        raise RouteRefusedError(
            f"sink '{sink.type}' publishes by {phase}, and the manifest says {asked}",
            path=("sink", "options", "load_governance", "finalization_phase"),
            fix=f"remove the field or write {phase}",
        )
    return Route(
        source=source.source,
        sink=sink.sink,
        finaliser=finaliser,
        load_path=sink.sink.load_path,
        finalization_phase=phase,
    )
