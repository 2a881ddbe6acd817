"""The capabilities of an opened connector, as one value. An absent capability is None; planning has already allowed for
it."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_core.ports.control import ControlTables
from dpone_core.ports.metrics import MetricProbe
from dpone_core.ports.ranges import RangeSourcePort, RangeStagingPort
from dpone_core.ports.rules import StagedRulesPort
from dpone_core.ports.sink import (
    LegacyLoadPort,
    PublicationPort,
    RevocationPort,
    StagedLoadPort,
    StagedRowsPort,
    TargetPort,
)
from dpone_core.ports.source import SourcePort
from dpone_core.ports.statements import StatementPort


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePorts:
    source: SourcePort
    metrics: MetricProbe | None
    statements: StatementPort | None
    ranges: RangeSourcePort | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPorts:
    """The capabilities of a sink. Exactly one of `staged` and `legacy` is set, as the descriptor's load path says.
    `staged_rows` reads staged rows back for gates that compare values; `rules` judges columns of staged rows;
    `publications` finds out what a load of a dead
    process did to the target; `revocation` keeps earlier loads from publishing late."""

    staged: StagedLoadPort | None
    target: TargetPort
    metrics: MetricProbe | None
    control: ControlTables | None
    statements: StatementPort | None
    legacy: LegacyLoadPort | None = None
    staged_rows: StagedRowsPort | None = None
    publications: PublicationPort | None = None
    ranges: RangeStagingPort | None = None
    revocation: RevocationPort | None = None
    rules: StagedRulesPort | None = None
