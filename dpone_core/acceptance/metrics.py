"""Checks the answer of a metric probe and builds the snapshot from it. Only requested, possible counts are taken over.

Anything else a probe returns (kind, dataset, columns, extra keys, warning text) never enters evidence.
Contract: ACC-24, ACC-25, ACC-26.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dpone_core.model.outcome import AcceptanceMetricSnapshot, count_or_none
from dpone_core.ports.metrics import MetricRequest

SNAPSHOT_INVALID: Final = "acceptance_metric_snapshot_invalid"


class MetricAnswerError(ValueError):
    """The answer of a probe is incomplete, malformed or impossible, or contains a warning."""


def canonical_snapshot(
    request: MetricRequest, answer: object, *, dataset: str, warnings: tuple[str, ...] = ()
) -> AcceptanceMetricSnapshot:
    """The snapshot of the requested counts. Raises MetricAnswerError unless the answer has every one of them."""
    if not isinstance(answer, Mapping):
        raise MetricAnswerError("the probe must answer with a mapping")
    stated = answer.get("warnings")
    if stated is not None and not (isinstance(stated, (list, tuple)) and len(stated) == 0):
        raise MetricAnswerError("the probe answered with a warning, so its counts are not used")
    rows = _count(answer.get("row_count")) if request.row_count else None
    nulls = _counts(answer.get("null_counts"), request.null_counts)
    distincts = _counts(answer.get("distinct_counts"), request.distinct_counts)
    if rows is not None and any(count > rows for count in nulls.values()):
        raise MetricAnswerError("the probe counted more NULL values in a column than rows")
    measured = (*request.null_counts, *request.distinct_counts)
    return AcceptanceMetricSnapshot(
        side=request.side,
        dataset=dataset,
        columns=tuple(dict.fromkeys(measured)),
        row_count=rows,
        null_counts=nulls,
        distinct_counts=distincts,
        warnings=warnings,
    )


def _counts(answered: object, requested: tuple[str, ...]) -> dict[str, int]:
    if not requested:
        return {}
    if not isinstance(answered, Mapping):
        raise MetricAnswerError("the probe answered without the requested column counts")
    return {column: _count(answered.get(column)) for column in requested}


def _count(value: object) -> int:
    count = count_or_none(value)
    if count is None:
        raise MetricAnswerError("the probe must answer with a non-negative integer for every requested count")
    return count
