"""Acceptance metrics of one dataset. A probe's answer is untrusted input (ACC-24)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dpone_core.model.load_config import TableName
from dpone_core.model.vocabulary import Side
from dpone_core.ports.source import ExtractRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRequest:
    """Which side and dataset to measure, and which counts. `extract` describes the source side, `table` the staged and
    target sides. `row_count` false or an empty tuple means that the count is not requested. Column names are exact."""

    side: Side
    extract: ExtractRequest | None = None
    table: TableName | None = None
    row_count: bool = True
    null_counts: tuple[str, ...] = ()
    distinct_counts: tuple[str, ...] = ()


class MetricProbe(Protocol):
    def collect(self, request: MetricRequest) -> Mapping[str, object]:
        """`{"row_count": int, "null_counts": {column: int}, "distinct_counts": {column: int}}`, computed by the
        engine in one aggregate query for counts and nulls; no rows are fetched. The caller re-validates all of it."""
        ...
