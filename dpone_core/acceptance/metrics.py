"""A probe's answer -> canonical snapshot. The answer is untrusted: only requested, plausible counts survive.

Whatever else a probe says (kind, dataset, columns, extra keys, warning text) never enters evidence.
Source: S0 "canonical evidence and native terminal ordering", rules 5 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dpone_core.model.outcome import AcceptanceMetricSnapshot, count_or_none
from dpone_core.ports.metrics import MetricRequest

SNAPSHOT_INVALID: Final = "acceptance_metric_snapshot_invalid"


class MetricAnswerError(ValueError):
    """The answer is incomplete, malformed, impossible or carries a warning of its own."""


def canonical_snapshot(
    request: MetricRequest, answer: object, *, dataset: str, warnings: tuple[str, ...] = ()
) -> AcceptanceMetricSnapshot:
    """Rebuilds the snapshot from the request; raises MetricAnswerError unless every requested count is there."""
    if not isinstance(answer, Mapping):
        raise MetricAnswerError("the answer is not a mapping")
    stated = answer.get("warnings")
    if stated is not None and not (isinstance(stated, (list, tuple)) and len(stated) == 0):
        raise MetricAnswerError("the probe warns about its own answer")
    rows = _count(answer.get("row_count")) if request.row_count else None
    nulls = _counts(answer.get("null_counts"), request.null_counts)
    distincts = _counts(answer.get("distinct_counts"), request.distinct_counts)
    if rows is not None and any(count > rows for count in nulls.values()):
        raise MetricAnswerError("more NULLs than rows")
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
        raise MetricAnswerError("requested column counts are missing")
    return {column: _count(answered.get(column)) for column in requested}


def _count(value: object) -> int:
    count = count_or_none(value)
    if count is None:
        raise MetricAnswerError("a requested count is missing or not a non-negative integer")
    return count
