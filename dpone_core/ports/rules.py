"""Judges rules about columns over the staged rows of a load, in the sink's own engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from dpone_core.model.column_rules import ColumnRule, RuleMeasure
from dpone_core.ports.sink import StagedHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRule:
    """One rule of a gate. `reference` is the moment from which a freshness rule counts, in UTC; None for the others.
    `token_values` are the values of the run's interval tokens, for a statement."""

    gate_id: str
    rule: ColumnRule
    reference: datetime | None = None
    token_values: Mapping[str, str] = field(default_factory=dict, repr=False)


class StagedRulesPort(Protocol):
    """Counts rows that break rules. Changes nothing, fetches no rows of the load, and bounds its memory."""

    def judge(self, handle: StagedHandle, asked: Sequence[AskedRule]) -> Mapping[str, RuleMeasure]:
        """The measure of every asked rule, by gate id; the caller checks them again.

        Raises ConnectorError `rule_not_judged` when the engine does not answer.
        """
        ...
