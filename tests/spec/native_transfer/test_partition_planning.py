"""Every value of the key, and every NULL, lies in exactly one planned partition. Contract: NAT-05, NAT-06.

The reference is brute force: each value is compared with each range in the order its source must use.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.partition import KeyBounds, KeyRange, TransferPartition, TransferRoute
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.planning.key_scales import KEY_KINDS, PartitionKeyError
from dpone_core.planning.partitions import apply_authored_bounds, plan_ranges

INT64 = ColumnType(kind=ColumnKind.INT64)
PARTITIONS = st.integers(1, 40)


def column(kind: ColumnType) -> Column:
    return Column(name="key", type=kind)


def observed(values: list[Any], text: Callable[[Any], str]) -> KeyBounds:
    """What a source answers: its least and greatest non-null value and the number of its rows."""
    found = [value for value in values if value is not None]
    if not found:
        return KeyBounds(lower=None, upper=None, rows=len(values))
    return KeyBounds(lower=text(min(found)), upper=text(max(found)), rows=len(values))


def holds(bounds: KeyRange, value: Any, parse: Callable[[str], Any]) -> bool:
    if value is None or bounds.is_null_partition:
        return value is None and bounds.is_null_partition
    assert bounds.lower is not None and bounds.upper is not None
    lower, upper = parse(bounds.lower), parse(bounds.upper)
    return bool(lower <= value and (value <= upper if bounds.include_upper else value < upper))


def every_value_lies_in_one(
    kind: ColumnType, values: list[Any], partitions: int, text: Callable[[Any], str], parse: Callable[[str], Any]
) -> tuple[KeyRange, ...]:
    ranges = plan_ranges(column(kind), observed(values, text), partitions)
    for value in values:
        assert sum(holds(bounds, value, parse) for bounds in ranges) == 1, value
    assert ranges[0].is_null_partition and sum(bounds.is_null_partition for bounds in ranges) == 1
    assert [bounds.partition_index for bounds in ranges] == list(range(len(ranges)))
    assert len(ranges) <= partitions + 1
    assert [bounds.include_upper for bounds in ranges[1:]] == [False] * (len(ranges) - 2) + [True] * (len(ranges) > 1)
    for before, after in itertools.pairwise(ranges[1:]):
        assert before.upper == after.lower
    return ranges


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, max_size=30)


@given(nullable(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)), PARTITIONS)
@example([-(2**63), 2**63 - 1], 16)
@example([1, 1, 1, 1, 10**9], 4)
@example([None, None], 3)
@example([], 3)
def test_integers(values: list[int | None], partitions: int) -> None:
    every_value_lies_in_one(INT64, values, partitions, str, int)


@given(nullable(st.integers(0, 2**64 - 1)), PARTITIONS)
def test_unsigned_integers_to_their_limit(values: list[int | None], partitions: int) -> None:
    every_value_lies_in_one(ColumnType(kind=ColumnKind.UINT64), values, partitions, str, int)


@given(
    nullable(st.decimals(min_value=-(10**36), max_value=10**36, places=2) | st.decimals(-1, 1, places=2)), PARTITIONS
)
@example([Decimal("-0.01"), Decimal("0.00"), Decimal("0.01")], 2)
def test_decimals(values: list[Decimal | None], partitions: int) -> None:
    every_value_lies_in_one(
        ColumnType(kind=ColumnKind.DECIMAL, precision=38, scale=2), values, partitions, str, Decimal
    )


@given(nullable(st.dates()), PARTITIONS)
@example([date.min, date.max], 7)
def test_dates(values: list[date | None], partitions: int) -> None:
    every_value_lies_in_one(ColumnType(kind=ColumnKind.DATE), values, partitions, date.isoformat, date.fromisoformat)


@given(nullable(st.datetimes()), PARTITIONS)
@example([datetime.min, datetime.max], 7)
@example([datetime(2026, 1, 1), datetime(2026, 1, 1) + timedelta(microseconds=1)], 9)
def test_wall_clocks(values: list[datetime | None], partitions: int) -> None:
    kind = ColumnType(kind=ColumnKind.TIMESTAMP, fraction=6)
    every_value_lies_in_one(kind, values, partitions, datetime.isoformat, datetime.fromisoformat)


@given(nullable(st.datetimes(timezones=st.just(UTC))), PARTITIONS)
def test_instants(values: list[datetime | None], partitions: int) -> None:
    kind = ColumnType(kind=ColumnKind.TIMESTAMP_TZ, fraction=6)
    every_value_lies_in_one(kind, values, partitions, datetime.isoformat, datetime.fromisoformat)


NANOSECONDS = st.integers(0, 3 * 10**9)


@given(nullable(NANOSECONDS), PARTITIONS)
def test_instants_finer_than_an_edge_can_be(values: list[int | None], partitions: int) -> None:
    """Nine digits: the bounds keep their own text, edges stand on microseconds."""

    def text(value: int) -> str:
        return f"2026-01-01T00:00:{value // 10**9:02d}.{value % 10**9:09d}"

    def parse(written: str) -> int:
        whole, _, digits = written.removeprefix("2026-01-01T00:00:").partition(".")
        return int(whole) * 10**9 + int(digits.ljust(9, "0"))

    every_value_lies_in_one(ColumnType(kind=ColumnKind.TIMESTAMP, fraction=9), values, partitions, text, parse)


@given(nullable(st.uuids()), PARTITIONS)
@example([uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)], 16)
def test_uuids(values: list[uuid.UUID | None], partitions: int) -> None:
    every_value_lies_in_one(ColumnType(kind=ColumnKind.UUID), values, partitions, str, uuid.UUID)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ASCII = st.text(st.characters(codec="ascii"), max_size=6)


@given(nullable(TEXT | ASCII | TEXT.map(lambda text: "same prefix " + text)), PARTITIONS)
@example(["", "a", "b"], 4)
@example(["\x01", "\x02"], 4)
@example(["\ud7ff", "\ue000"], 4)
@example(["order-000001", "order-999999"], 10)
def test_text_by_code_point(values: list[str | None], partitions: int) -> None:
    ranges = every_value_lies_in_one(ColumnType(kind=ColumnKind.STRING), values, partitions, str, str)
    for bounds in ranges[1:-1]:
        assert bounds.upper is not None
        bounds.upper.encode("utf-8")  # an edge is text that any engine stores


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=20), PARTITIONS)
def test_a_span_is_split_into_as_many_ranges_as_it_has_room_for(values: list[int], partitions: int) -> None:
    ranges = plan_ranges(column(INT64), observed(values, str), partitions)
    assert len(ranges) - 1 == min(partitions, max(values) - min(values) + 1)


@pytest.mark.parametrize("rows", [0, 5], ids=["empty", "null_only"])
def test_without_a_key_value_only_the_null_partition_is_left(rows: int) -> None:
    bounds = KeyBounds(lower=None, upper=None, rows=rows)
    assert plan_ranges(column(INT64), bounds, 8) == (KeyRange(partition_index=0, is_null_partition=True),)


@pytest.mark.parametrize("kind", sorted(set(ColumnKind) - KEY_KINDS))
def test_a_type_without_ranges_is_refused_by_name(kind: ColumnKind) -> None:
    with pytest.raises(PartitionKeyError) as refusal:
        plan_ranges(column(ColumnType(kind=kind)), KeyBounds(lower="0", upper="1", rows=2), 2)
    assert refusal.value.code == "partition_key_unsupported" and "'key'" in refusal.value.message


@pytest.mark.parametrize(
    ("kind", "lower", "upper"),
    [
        (INT64, "2", "1"),
        (INT64, "1", None),
        (INT64, "one", "two"),
        (ColumnType(kind=ColumnKind.DECIMAL, precision=9, scale=2), "0", "NaN"),
        (ColumnType(kind=ColumnKind.DECIMAL, precision=9, scale=2), "0", "Infinity"),
        (ColumnType(kind=ColumnKind.DECIMAL, precision=9, scale=2), "0", "1E+999999"),
        (ColumnType(kind=ColumnKind.DATE), "20260101", "2026-12-31"),
        (ColumnType(kind=ColumnKind.TIMESTAMP), "2026-01-01T00:00:00", "2026-01-02T00:00:00+00:00"),
        (ColumnType(kind=ColumnKind.TIMESTAMP), "2026-01-01T00:00:00", "infinity"),
        (ColumnType(kind=ColumnKind.UUID), "0" * 32, "f" * 32),
    ],
)
def test_bounds_that_are_no_values_of_the_key_are_refused_without_naming_them(
    kind: ColumnType, lower: str, upper: str | None
) -> None:
    with pytest.raises(PartitionKeyError) as refusal:
        plan_ranges(column(kind), KeyBounds(lower=lower, upper=upper, rows=2), 2)
    assert refusal.value.code == "partition_bounds_invalid"
    assert lower not in refusal.value.message


@given(st.lists(st.integers(-50, 150), min_size=1, max_size=10))
def test_given_bounds_must_hold_every_value(values: list[int]) -> None:
    stated = KeyBounds(lower="0", upper="100", rows=0)
    if min(values) >= 0 and max(values) <= 100:
        assert apply_authored_bounds(column(INT64), stated, observed(values, str)) == KeyBounds(
            lower="0", upper="100", rows=len(values)
        )
        return
    with pytest.raises(PartitionKeyError) as refusal:
        apply_authored_bounds(column(INT64), stated, observed(values, str))
    assert refusal.value.code == "partition_bounds_do_not_cover"


def test_a_value_finer_than_the_given_upper_bound_is_outside() -> None:
    key = column(ColumnType(kind=ColumnKind.TIMESTAMP, fraction=9))
    stated = KeyBounds(lower="2026-01-01T00:00:00", upper="2026-01-02T00:00:00", rows=0)
    late = KeyBounds(lower="2026-01-01T00:00:00", upper="2026-01-02T00:00:00.000000001", rows=2)
    with pytest.raises(PartitionKeyError):
        apply_authored_bounds(key, stated, late)
    whole = KeyBounds(lower="2026-01-01T00:00:00", upper="2026-01-02T00:00:00.000000", rows=2)
    assert apply_authored_bounds(key, stated, whole).rows == 2


ROUTE = TransferRoute(source_table="main.orders", target_table="raw.orders", strategy=StrategyMode.FULL_REFRESH)
PARTITION = TransferPartition(
    bounds=KeyRange(partition_index=1, lower="1", upper="9", include_upper=True),
    query_hash="sha256:" + "1" * 64,
    schema_hash="sha256:" + "2" * 64,
    route=ROUTE,
)


def test_a_partition_id_is_the_plain_sha256_of_its_canonical_facts() -> None:
    """The literal is frozen: ids stand in checkpoints of other versions."""
    written = {
        "partition_bounds": {
            "include_upper": True,
            "is_null_partition": False,
            "lower": "1",
            "partition_index": 1,
            "slice_index": 0,
            "upper": "9",
        },
        "query_hash": "sha256:" + "1" * 64,
        "schema_hash": "sha256:" + "2" * 64,
        "source_table": "main.orders",
        "strategy": "full_refresh",
        "target_table": "raw.orders",
    }
    assert PARTITION.id == fingerprint(written).removeprefix("sha256:")
    assert PARTITION.id == "cafc1af7467a600dda4efb56dbcbfddb6bc7c1ef0896297e62e551be01a14b73"


@pytest.mark.parametrize(
    "changed",
    [
        TransferPartition(
            bounds=KeyRange(partition_index=2, lower="1", upper="9", include_upper=True),
            query_hash=PARTITION.query_hash,
            schema_hash=PARTITION.schema_hash,
            route=ROUTE,
        ),
        TransferPartition(
            bounds=PARTITION.bounds, query_hash="sha256:" + "3" * 64, schema_hash=PARTITION.schema_hash, route=ROUTE
        ),
        TransferPartition(
            bounds=PARTITION.bounds, query_hash=PARTITION.query_hash, schema_hash="sha256:" + "3" * 64, route=ROUTE
        ),
        TransferPartition(
            bounds=PARTITION.bounds,
            query_hash=PARTITION.query_hash,
            schema_hash=PARTITION.schema_hash,
            route=TransferRoute(
                source_table="main.orders", target_table="raw.other", strategy=StrategyMode.FULL_REFRESH
            ),
        ),
    ],
)
def test_another_bound_query_schema_or_route_is_another_partition(changed: TransferPartition) -> None:
    assert changed.id != PARTITION.id
