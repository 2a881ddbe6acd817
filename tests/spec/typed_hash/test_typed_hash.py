"""A typed hash is of values: the same set of rows has one hash, and any other set has another.

Contract: GATE-21, GATE-23.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dpone_core.errors import ConnectorError
from dpone_core.loading.typed_hash import TypedHash

NOON = datetime(2025, 6, 1, 12, 0, 0, 123000)


def hash_of(batches: Any, schema: pa.Schema, sample_key: tuple[str, ...] = ()) -> str:
    typed = TypedHash(schema, sample_key=sample_key)
    try:
        for batch in batches:
            typed.update(batch)
        return typed.digest()
    finally:
        typed.close()


def column(kind: pa.DataType, *values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, type=kind)], names=["v"])


def one(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("v", kind)])


SAME = [
    (pa.float64(), column(pa.float64(), -0.0), column(pa.float64(), 0.0)),
    (pa.float64(), column(pa.float64(), float("nan")), column(pa.float64(), -float("nan"))),
    (pa.float64(), column(pa.float32(), 1.5), column(pa.float64(), 1.5)),
    (pa.decimal128(18, 4), column(pa.decimal128(9, 1), Decimal("1.1")), column(pa.decimal128(18, 2), Decimal("1.10"))),
    (pa.decimal256(60, 4), column(pa.decimal128(9, 1), Decimal("1.1")), column(pa.decimal256(60, 2), Decimal("1.10"))),
    (pa.int64(), column(pa.int8(), 7), column(pa.uint32(), 7)),
    (pa.timestamp("us"), column(pa.timestamp("ms"), NOON), column(pa.timestamp("us"), NOON)),
    (pa.timestamp("us", "UTC"), column(pa.timestamp("ms", "UTC"), NOON), column(pa.timestamp("us", "UTC"), NOON)),
    (
        pa.timestamp("us", "UTC"),
        column(pa.timestamp("us", "Europe/Berlin"), datetime(2025, 6, 1, 12, tzinfo=UTC)),
        column(pa.timestamp("us", "UTC"), datetime(2025, 6, 1, 12, tzinfo=UTC)),
    ),
    (pa.string(), column(pa.large_string(), "é"), column(pa.string(), "é")),
    (pa.string(), column(pa.dictionary(pa.int8(), pa.string()), "a"), column(pa.string(), "a")),
    (pa.binary(16), column(pa.uuid(), b"0" * 16), column(pa.binary(16), b"0" * 16)),
    (pa.int64(), column(pa.null(), None), column(pa.int64(), None)),
]
DIFFERENT = [
    (pa.string(), None, ""),
    (pa.string(), "", " "),
    (pa.string(), "a", "A"),
    (pa.string(), "é", "e\u0301"),
    (pa.string(), "1", "01"),
    (pa.float64(), 0.1, 0.30000000000000004 - 0.2),
    (pa.float64(), 0.0, 5e-324),
    (pa.float64(), None, float("nan")),
    (pa.float64(), float("inf"), float("-inf")),
    (pa.decimal128(38, 10), Decimal("0.0000000001"), Decimal("0.0000000002")),
    (pa.decimal256(60, 10), Decimal("1e-10"), Decimal("2e-10")),
    (pa.int64(), 2**62, 2**62 + 1),
    (pa.uint64(), 2**64 - 1, 2**64 - 2),
    (pa.timestamp("ns", "UTC"), 1, 2),
    (pa.timestamp("ns"), 1, 2),
    (pa.time64("ns"), 1, 2),
    (pa.date32(), 1, 2),
    (pa.bool_(), True, False),
    (pa.binary(), b"\x00", b""),
]


@pytest.mark.parametrize(("kind", "first", "second"), SAME, ids=lambda value: str(value)[:30])
def test_the_same_value_has_one_hash_whatever_carried_it(
    kind: pa.DataType, first: pa.RecordBatch, second: pa.RecordBatch
) -> None:
    assert hash_of([first], one(kind)) == hash_of([second], one(kind))


@pytest.mark.parametrize(("kind", "first", "second"), DIFFERENT, ids=lambda value: str(value)[:30])
def test_another_value_has_another_hash(kind: pa.DataType, first: object, second: object) -> None:
    assert hash_of([column(kind, first)], one(kind)) != hash_of([column(kind, second)], one(kind))


ROWS: list[dict[str, object]] = [
    {"id": i, "name": None if i % 3 == 0 else f"n{i % 5}", "amount": Decimal(i) / 100} for i in range(40)
]
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.decimal128(18, 4))])


def batch(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def test_order_and_batching_do_not_matter() -> None:
    whole = hash_of([batch(ROWS)], SCHEMA)
    assert hash_of([batch(ROWS[::-1])], SCHEMA) == whole
    assert hash_of([batch([row]) for row in ROWS], SCHEMA) == whole
    assert hash_of([batch([]), batch(ROWS[20:]), batch(ROWS[:20])], SCHEMA) == whole


def test_duplicates_and_missing_rows_matter() -> None:
    whole = hash_of([batch(ROWS)], SCHEMA)
    assert hash_of([batch([*ROWS, ROWS[0]])], SCHEMA) != whole
    assert hash_of([batch([*ROWS[1:], ROWS[1]])], SCHEMA) != whole
    assert hash_of([batch(ROWS[1:])], SCHEMA) != whole
    assert hash_of([batch([ROWS[0], ROWS[0]])], SCHEMA) != hash_of([batch([ROWS[1], ROWS[1]])], SCHEMA)


def test_one_changed_cell_anywhere_is_detected() -> None:
    seen = {hash_of([batch(ROWS)], SCHEMA)}
    changes = {"id": 99, "name": "", "amount": Decimal("0.0001")}
    for index, name in itertools.product(range(len(ROWS)), SCHEMA.names):
        changed = [dict(row) for row in ROWS]
        changed[index][name] = changes[name]
        seen.add(hash_of([batch(changed)], SCHEMA))
    assert len(seen) == 1 + len(ROWS) * len(SCHEMA.names)


def test_a_value_that_moves_to_another_row_or_column_is_detected() -> None:
    texts = pa.schema([("a", pa.string()), ("b", pa.string())])

    def of(*rows: tuple[str | None, str | None]) -> str:
        return hash_of([pa.RecordBatch.from_pylist([{"a": a, "b": b} for a, b in rows], schema=texts)], texts)

    assert len({of(("x", "y")), of(("y", "x")), of((None, "xy")), of(("xy", None)), of(("x", "y"), ("u", "v"))}) == 5
    assert of(("x", "y"), ("u", "v")) != of(("x", "v"), ("u", "y"))
    assert of(("x", "y"), ("u", "v")) != of(("u", "y"), ("x", "v"))


def test_columns_are_part_of_the_hash() -> None:
    first, second = one(pa.int64()), pa.schema([("w", pa.int64())])
    assert hash_of([column(pa.int64(), 1)], first) != hash_of(
        [pa.RecordBatch.from_arrays([pa.array([1])], names=["w"])], second
    )


def test_a_sample_is_chosen_by_the_key_and_not_by_the_row() -> None:
    rows = [{"id": i, "name": "a", "amount": Decimal(1)} for i in range(2000)]
    typed = TypedHash(SCHEMA, sample_key=("id",))
    typed.update(batch(rows))
    chosen = typed.rows
    typed.close()
    assert 0 < chosen < len(rows) / 4
    assert hash_of([batch(rows)], SCHEMA, ("id",)) != hash_of([batch(rows)], SCHEMA)
    changed = [{**row, "name": "b"} for row in rows]
    other = TypedHash(SCHEMA, sample_key=("id",))
    other.update(batch(changed))
    assert other.rows == chosen
    assert other.digest() != hash_of([batch(rows)], SCHEMA, ("id",))
    other.close()


def test_a_value_that_the_schema_cannot_hold_is_refused_by_its_column() -> None:
    with pytest.raises(ConnectorError) as raised:
        hash_of([column(pa.int64(), 300)], one(pa.int8()))
    assert raised.value.code == "typed_hash_value_refused"
    assert "'v'" in str(raised.value) and "300" not in str(raised.value)


def test_no_rows_have_a_hash_of_their_own() -> None:
    assert hash_of([], SCHEMA) == hash_of([batch([])], SCHEMA) != hash_of([batch(ROWS[:1])], SCHEMA)
