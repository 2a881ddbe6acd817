"""Tests of key ranges for any RangeSourcePort.

Together the ranges of a plan give every row of the selection once, in the order that planning assumes: numbers and
times by value, text by code point, UUIDs by their bytes, NULL keys separately.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.partition import KeyBounds, KeyRange
from dpone_core.planning.partitions import plan_ranges
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import BatchStream, ExtractRequest

KEY = "k"


def bounds_of(ports: SourcePorts, request: ExtractRequest, column: str = KEY) -> KeyBounds:
    """Key bounds as a transfer requests them, under the source's own snapshot when it has one."""
    assert ports.ranges is not None
    with ports.ranges.snapshot() as snapshot:
        return ports.ranges.key_bounds(request, ports.source.describe(request), column, snapshot)


def plan_source_ranges(
    ports: SourcePorts, request: ExtractRequest, partitions: int, column: str = KEY
) -> tuple[KeyRange, ...]:
    """The key ranges that planning makes of the source's bounds."""
    key = ports.source.describe(request).find(column)
    assert key is not None
    return plan_ranges(key, bounds_of(ports, request, column), partitions)


def keys_of(ports: SourcePorts, request: ExtractRequest, bounds: KeyRange, column: str = KEY) -> list[Any]:
    """Keys of one range; timestamps as integers."""
    assert ports.ranges is not None
    return _keys(ports.ranges.open_range(request, ports.source.describe(request), column, bounds, None), column)


def require_each_key_once(
    ports: SourcePorts, request: ExtractRequest, partitions: int, column: str = KEY
) -> list[list[Any]]:
    """Keys of each range in plan order, NULL keys first. AssertionError when a key is lost, repeated or out of
    order.
    """
    plan = plan_source_ranges(ports, request, partitions, column)
    parts = [keys_of(ports, request, bounds, column) for bounds in plan]
    every = _keys(ports.source.open_stream(request, ports.source.describe(request)), column)
    assert Counter(key for part in parts for key in part) == Counter(every), "a row is lost or read twice"
    assert bounds_of(ports, request, column).rows == len(every)
    nulls, *filled = parts
    assert set(nulls) <= {None} and not any(None in part for part in filled), "NULL keys are apart"
    ends = [(min(part), max(part)) for part in filled if part]
    assert all(before[1] < after[0] for before, after in pairwise(ends)), "ranges overlap"
    return parts


def require_refusal(ports: SourcePorts, request: ExtractRequest, code: str, column: str = KEY) -> None:
    """Requires that bounds of this key are refused with `code`, before any range is planned."""
    with pytest.raises(ConnectorError) as raised:
        bounds_of(ports, request, column)
    assert raised.value.code == code


def require_no_bounds(ports: SourcePorts, request: ExtractRequest, rows: int) -> None:
    """Requires that the source has NULL keys only: the plan is the NULL partition alone and holds every row."""
    assert bounds_of(ports, request) == KeyBounds(lower=None, upper=None, rows=rows)
    assert require_each_key_once(ports, request, 4) == [[None] * rows]


def _keys(stream: BatchStream, column: str) -> list[Any]:
    return [key for batch in stream.batches() for key in _values(batch.column(column))]


def _values(column: pa.Array) -> list[Any]:
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values
