"""Turns the driver's columns into the types of the schema: doubles to exact decimals, integers to booleans, bytes to
text."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_core.model.table_schema import Column, ColumnKind, ColumnType

_EXACT_DIGITS: Final = 15
"""Every decimal of so many digits has a double of its own."""


def reads_doubles(decimal: ColumnType) -> bool:
    """Whether doubles hold every integer of this decimal's digits, and the power of ten that scales it, exactly."""
    precision, scale = decimal.precision or 0, decimal.scale or 0
    return precision - scale <= _EXACT_DIGITS and scale <= _EXACT_DIGITS


def convert(values: pa.Array, column: Column) -> pa.Array:
    """Values for the strict cast. Raises ArrowException or ValueError for a value that does not fit."""
    kind = column.type.kind
    if kind is ColumnKind.DECIMAL and pa.types.is_floating(values.type):
        return decimals(values, column.type)
    if kind is ColumnKind.BOOLEAN:
        return _booleans(values)
    if kind is not ColumnKind.BINARY and pa.types.is_binary(values.type):
        return values.cast(pa.string(), safe=True)
    return values


def decimals(doubles: pa.Array, decimal: ColumnType) -> pa.Array:
    """The decimal of the declared scale that each double is, to the last bit; ValueError if there is none.

    A quotient of two integers below 2^53 and 10^22 is the double nearest to it, so dividing proves the digits. Beyond
    fifteen digits the shortest decimal that is the double is taken, if it has no more digits than declared.
    """
    precision, scale = decimal.precision or 0, decimal.scale or 0
    wanted, shift = pa.decimal128(precision, scale), 10.0**scale
    is_far = pc.greater_equal(pc.abs(doubles), 10.0 ** (_EXACT_DIGITS - scale))
    has_far = pc.any(is_far).as_py()
    near = pc.if_else(is_far, pa.scalar(None, pa.float64()), doubles) if has_far else doubles
    whole = pc.round(pc.multiply(near, shift))
    if pc.all(pc.equal(pc.divide(whole, shift), near)).as_py() is False:
        raise ValueError("a double is no decimal of the declared scale")
    digits = whole.cast(pa.int64(), safe=True)
    exact = pa.Array.from_buffers(
        pa.decimal64(18, scale), len(digits), digits.buffers(), null_count=digits.null_count, offset=digits.offset
    ).cast(wanted, safe=True)
    return pc.coalesce(exact, _shortest(doubles, is_far, wanted)) if has_far else exact


def _shortest(doubles: pa.Array, is_far: pa.Array, wanted: pa.DataType) -> pa.Array:
    values = zip(doubles.to_pylist(), is_far.to_pylist(), strict=True)
    return pa.array([Decimal(repr(value)) if far else None for value, far in values], type=wanted)


def _booleans(integers: pa.Array) -> pa.Array:
    bounds = pc.min_max(integers).as_py()
    if bounds["min"] is not None and (bounds["min"] < 0 or bounds["max"] > 1):
        raise ValueError("a boolean is 0 or 1")
    return integers.cast(pa.bool_())
