"""The bundles of capabilities a session hands down. An absent capability is None and was decided at planning."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_core.ports.control import ControlTables
from dpone_core.ports.metrics import MetricProbe
from dpone_core.ports.ranges import RangeSourcePort, RangeStagingPort
from dpone_core.ports.sink import LegacyLoadPort, PublicationPort, StagedLoadPort, StagedRowsPort, TargetPort
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
    """Exactly one of `staged` and `legacy` is there, as the descriptor's load path says; `staged_rows` reads staging
    back for gates that compare values; `publications` says what became of loads whose process died."""

    staged: StagedLoadPort | None
    target: TargetPort
    metrics: MetricProbe | None
    control: ControlTables | None
    statements: StatementPort | None
    legacy: LegacyLoadPort | None = None
    staged_rows: StagedRowsPort | None = None
    publications: PublicationPort | None = None
    ranges: RangeStagingPort | None = None
