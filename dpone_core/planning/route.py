"""Which way a load goes, decided from what the connectors declare. Undeclared = refused, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_core.errors import ETLConfigurationError
from dpone_core.model.connector import ConnectorDescriptor, Finaliser, SinkTraits, SourceTraits
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.vocabulary import FinalizationPhase, LoadPath


class RouteRefusedError(ETLConfigurationError):
    """The chosen connectors cannot do what the manifest asks; the message names the field."""

    code = "DPONE_ROUTE_REFUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    source: SourceTraits
    sink: SinkTraits
    finaliser: Finaliser
    load_path: LoadPath
    finalization_phase: FinalizationPhase


def choose_route(config: LoadConfig, source: ConnectorDescriptor, sink: ConnectorDescriptor) -> Route:
    """Raises RouteRefusedError naming the authored field that cannot be served."""
    if source.source is None:
        raise RouteRefusedError(f"source.type: connector '{source.type}' cannot be read from")
    if sink.sink is None:
        raise RouteRefusedError(f"sink.type: connector '{sink.type}' cannot be loaded into")
    mode = config.sink.strategy.mode
    finaliser = sink.sink.finaliser_for(mode)
    if finaliser is None:
        offered = ", ".join(f.strategy for f in sink.sink.finalisers)
        raise RouteRefusedError(
            f"sink.strategy.mode: '{mode}' has no finaliser on sink '{sink.type}'", fix=f"use one of: {offered}"
        )
    if config.source.format is not None and config.source.format not in source.source.formats:
        raise RouteRefusedError(
            f"source.options.format: '{config.source.format}' cannot be read",
            fix=f"use one of: {', '.join(source.source.formats)}",
        )
    if config.source.incremental is not None and not source.source.incremental:
        raise RouteRefusedError(f"source.options.incremental: connector '{source.type}' has no cursor")
    phase = (
        FinalizationPhase.PRE_FINALIZE
        if sink.sink.load_path is LoadPath.STAGED
        else FinalizationPhase.LEGACY_POST_FINALIZE
    )
    asked = config.sink.governance.finalization_phase
    if asked is not None and asked is not phase:
        raise RouteRefusedError(
            f"sink.options.load_governance.finalization_phase: sink '{sink.type}' finalizes {phase}, not {asked}",
            fix=f"remove the field or write {phase}",
        )
    return Route(
        source=source.source,
        sink=sink.sink,
        finaliser=finaliser,
        load_path=sink.sink.load_path,
        finalization_phase=phase,
    )
