"""Checks on whole arrays of times and timestamps, for engines that would round a value or cannot hold it."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def numbers_of(values: pa.Array) -> pa.Array:
    """The integers behind a time or timestamp array, in the array's own unit."""
    return values.cast(pa.int32() if pa.types.is_time32(values.type) else pa.int64())


def digits_of(values: pa.Array) -> int:
    """How many decimal digits of a second the array's unit has."""
    return _DIGITS[values.type.unit]


def has_at_most(values: pa.Array, fraction: int) -> bool:
    """Whether no value has more than `fraction` decimal digits of a second."""
    surplus = digits_of(values) - fraction
    if surplus <= 0:
        return True
    numbers, step = numbers_of(values), 10**surplus
    return pc.all(pc.equal(pc.multiply(pc.divide(numbers, step), step), numbers), skip_nulls=True).as_py() is not False


def all_within(numbers: pa.Array, first: int, last: int) -> bool:
    """Whether every number lies between `first` and `last`, both included; NULL counts as inside."""
    bounds = pc.min_max(numbers)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return low is None or (low >= first and high <= last)
