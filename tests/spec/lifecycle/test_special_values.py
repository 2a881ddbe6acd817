"""Counts of converted values are those of the rows that flow on, or the load fails; nothing is counted by guess."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpone_core.loading.native.workers import PartitionWork
from dpone_core.loading.pump import Pump, UncountedValuesError
from dpone_core.model.special_values import (
    ConvertedValues,
    SpecialValue,
    SpecialValueRule,
    counts_by_name,
    flag_name,
    is_value_of,
    read_counts,
    sum_counts,
    with_flags,
)
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.testing.fakes import Journal, MemoryStream
from dpone_core.wiring.runtime import SilentProgress

DAY = Column(name="day", type=ColumnType(kind=ColumnKind.DATE))
PAYLOAD = TableSchema(columns=(DAY,))
RULES = tuple(
    SpecialValueRule(column="day", value=value, becomes=None)
    for value in (SpecialValue.INFINITY, SpecialValue.NEGATIVE_INFINITY)
)
VALUES = [
    (ColumnKind.DATE, {}, "2026-02-28", True),
    (ColumnKind.DATE, {}, "2026-02-30", False),
    (ColumnKind.DATE, {}, "20260228", False),
    (ColumnKind.DATE, {}, "2026-02-28T00:00:00", False),
    (ColumnKind.TIMESTAMP, {"fraction": 0}, "2026-02-28", True),
    (ColumnKind.TIMESTAMP, {"fraction": 0}, "2026-02-28T10:00:00.000", True),
    (ColumnKind.TIMESTAMP, {"fraction": 0}, "2026-02-28T10:00:00.001", False),
    (ColumnKind.TIMESTAMP, {"fraction": 9}, "2026-02-28 10:00:00.123456789", True),
    (ColumnKind.TIMESTAMP, {"fraction": 6}, "2026-02-28T10:00:00-05:00", False),
    (ColumnKind.TIMESTAMP_TZ, {"fraction": 6}, "2026-02-28T10:00:00.5-05:00", True),
    (ColumnKind.TIMESTAMP_TZ, {"fraction": 6}, "2026-02-28T10:00:00Z", True),
    (ColumnKind.TIMESTAMP_TZ, {"fraction": 6}, "2026-02-28T10:00:00", False),
    (ColumnKind.TIMESTAMP_TZ, {"fraction": 6}, "0001-01-01T00:00:00+01:00", False),
    (ColumnKind.DECIMAL, {"precision": 4, "scale": 2}, "-99.990", True),
    (ColumnKind.DECIMAL, {"precision": 4, "scale": 2}, "0099", True),
    (ColumnKind.DECIMAL, {"precision": 4, "scale": 2}, "100", False),
    (ColumnKind.DECIMAL, {"precision": 4, "scale": 2}, "0.001", False),
    (ColumnKind.DECIMAL, {"precision": 4, "scale": 2}, "2026-01-01", False),
    (ColumnKind.FLOAT64, {}, "9007199254740993", False),
    (ColumnKind.FLOAT64, {}, "-0.25", True),
    (ColumnKind.FLOAT32, {}, "16777217", False),
    (ColumnKind.FLOAT32, {}, "16777216", True),
    (ColumnKind.STRING, {}, "2026-01-01", False),
    (ColumnKind.INT32, {}, "1", False),
]


def batch(flags: dict[str, pa.Array], rows: int = 3) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"day": pa.nulls(rows, pa.date32()), **flags})


def flags(*values: bool | None) -> pa.Array:
    return pa.array(values, pa.bool_())


def pump(*batches: pa.RecordBatch, rules: tuple[SpecialValueRule, ...] = RULES, payload: TableSchema = PAYLOAD) -> Pump:
    stream = MemoryStream(Journal(), with_flags(PAYLOAD, rules), batches)
    never = PartitionWork(partitions=[], workers=0)
    return Pump(stream=stream, payload=payload, progress=SilentProgress(), cancellation=never, special_values=rules)


def test_the_pump_sums_the_flags_and_passes_none_on() -> None:
    first = batch({flag_name(0): flags(True, False, True), flag_name(1): flags(False, False, False)})
    second = batch({flag_name(0): flags(True), flag_name(1): flags(True)}, rows=1)
    pumped = pump(first, second)
    assert [each.schema.names for each in pumped.batches()] == [["day"], ["day"]]
    assert [each.count for each in pumped.converted_values] == [3, 1]
    assert pumped.counters.rows == 4
    assert pumped.counters.size_bytes == first.select(["day"]).nbytes + second.select(["day"]).nbytes


def test_an_empty_stream_has_converted_nothing_and_says_so() -> None:
    pumped = pump()
    assert list(pumped.batches()) == []
    assert [each.count for each in pumped.converted_values] == [0, 0]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {flag_name(0): flags(True, True, True)},
        {flag_name(0): flags(True, True, True), flag_name(1): flags(True, None, True)},
        {flag_name(0): pa.array([1, 0, 1]), flag_name(1): flags(True, True, True)},
    ],
    ids=["no flags", "one of two", "an unknown one", "no booleans"],
)
def test_a_batch_that_does_not_say_what_was_converted_goes_no_further(given: dict[str, pa.Array]) -> None:
    pumped = pump(batch(given))
    with pytest.raises(UncountedValuesError) as raised:
        list(pumped.batches())
    assert raised.value.code == "special_values_uncounted" and "'day'" in str(raised.value)
    assert pumped.counters.rows == 0


def test_flags_that_nobody_counts_are_no_columns_to_drop() -> None:
    marked = batch({flag_name(0): flags(True, True, True)})
    wider = TableSchema(columns=(DAY, Column(name="target_only", type=DAY.type)))
    for payload in (PAYLOAD, wider):
        with pytest.raises(UncountedValuesError):
            list(pump(marked, rules=(), payload=payload).batches())


@pytest.mark.parametrize(("kind", "digits", "text", "fits"), VALUES)
def test_a_replacement_is_exactly_a_value_of_its_column(
    kind: ColumnKind, digits: dict[str, int], text: str, fits: bool
) -> None:
    assert is_value_of(text, ColumnType(kind=kind, **digits)) is fits


def test_counts_survive_a_checkpoint_or_are_not_known() -> None:
    converted = tuple(ConvertedValues(rule=rule, count=count) for rule, count in zip(RULES, (3, 0), strict=True))
    stored = counts_by_name(converted)
    assert stored == {"day:infinity": 3, "day:-infinity": 0}
    assert read_counts(stored, RULES) == converted
    assert read_counts(None, ()) == ()
    half, negative, word = {"day:infinity": 3}, {**stored, "day:infinity": -1}, {**stored, "day:infinity": True}
    for damaged in (None, {}, [3, 0], half, negative, word):
        assert read_counts(damaged, RULES) is None


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    counted = tuple(ConvertedValues(rule=rule, count=2) for rule in RULES)
    assert [each.count for each in sum_counts(RULES, [counted, counted])] == [4, 4]
    assert [each.count for each in sum_counts(RULES, [])] == [0, 0]
    assert [each.count for each in sum_counts(RULES, [counted, ()])] == [None, None]
    half = (counted[0], ConvertedValues(rule=RULES[1], count=None))
    assert [each.count for each in sum_counts(RULES, [counted, half])] == [4, None]
