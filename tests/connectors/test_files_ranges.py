"""Key ranges of Parquet files: together they are all rows, once, and only row groups that may hold a key are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpone_core.connectors.files.open import open_source
from dpone_core.connectors.files.source.key_filter import key_filter
from dpone_core.model.partition import KeyBounds, KeyRange
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from dpone_core.testing.range_conformance import (
    bounds_of,
    keys_of,
    plan_source_ranges,
    require_each_key_once,
    require_no_bounds,
    require_refusal,
)
from tests.connectors.sessions import connection
from tests.spec.builders import Project, code_of, flow, outcome_of

T = ExtractRequest(path="t", format="parquet")
NS = 10**9
KEYS: dict[str, tuple[pa.DataType, list[Any], tuple[str, str]]] = {
    "int8": (pa.int8(), [-128, 0, 127], ("-128", "127")),
    "uint64": (pa.uint64(), [0, 9, 2**64 - 1], ("0", str(2**64 - 1))),
    "int64": (pa.int64(), [-(2**63), 9, 2**63 - 1], (str(-(2**63)), str(2**63 - 1))),
    "decimal": (
        pa.decimal128(20, 10),
        [Decimal("-1.5"), Decimal(0), Decimal("9.9")],
        ("-1.5000000000", "9.9000000000"),
    ),
    "decimal256": (
        pa.decimal256(76, 0),
        [Decimal(-(10**75)), Decimal(0), Decimal(10**75)],
        (str(-(10**75)), str(10**75)),
    ),
    "date": (pa.date32(), [date.min, date(2024, 2, 29), date.max], ("0001-01-01", "9999-12-31")),
    "seconds": (pa.timestamp("s"), [-1, 0, 5], ("1969-12-31T23:59:59.000000", "1970-01-01T00:00:05.000000")),
    "milliseconds": (pa.timestamp("ms"), [-1, 0, 5], ("1969-12-31T23:59:59.999000", "1970-01-01T00:00:00.005000")),
    "microseconds": (
        pa.timestamp("us"),
        [datetime.min, datetime(2024, 1, 1), datetime.max],
        ("0001-01-01T00:00:00.000000", "9999-12-31T23:59:59.999999"),
    ),
    "nanoseconds": (
        pa.timestamp("ns", "UTC"),
        [-(2**63) + 1, 1, 2, 2**63 - 1],
        ("1677-09-21T00:12:43.145224193+00:00", "2262-04-11T23:47:16.854775807+00:00"),
    ),
    "zone": (
        pa.timestamp("us", "Asia/Kathmandu"),
        [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)],
        ("2024-01-01T00:00:00.000000+00:00", "2024-06-01T00:00:00.000000+00:00"),
    ),
    "text": (pa.string(), ["B", "a", "ä", "😀", "a ", "", "\0", "a\0"], ("", "😀")),
    "large text": (pa.large_string(), ["a", "aa", "a~", "a\x7f"], ("a", "a\x7f")),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["b", "a", "c"], ("a", "c")),
    "uuid": (
        pa.uuid(),
        [bytes([first, *[9] * 15]) for first in (0, 0x7F, 0x80, 0xFF)],
        (
            "00090909-0909-0909-0909-090909090909",
            "ff090909-0909-0909-0909-090909090909",
        ),
    ),
}


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[SourcePorts]:
    (tmp_path / "t").mkdir()
    with open_source(connection(f"file:///{tmp_path}")) as opened:
        yield opened


def write(directory: Path, kind: pa.DataType, *files: list[Any], **more: list[Any]) -> None:
    """One file for each list of keys, in row groups of two."""
    for number, keys in enumerate(files):
        storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        array = pa.array(keys, storage)
        column = pa.ExtensionArray.from_storage(kind, array) if storage is not kind else array
        columns = {"k": column, **{name: pa.array(values) for name, values in more.items()}}
        pq.write_table(pa.table(columns), directory / "t" / f"{number}.parquet", row_group_size=2)


@pytest.mark.parametrize("case", KEYS)
@pytest.mark.parametrize("partitions", [1, 3, 50])
def test_ranges_hold_every_row_once(ports: SourcePorts, tmp_path: Path, case: str, partitions: int) -> None:
    kind, values, ends = KEYS[case]
    write(tmp_path, kind, [*values, None], [None], values[::-1])
    bounds = bounds_of(ports, T)
    assert ((bounds.lower, bounds.upper), bounds.rows) == (ends, 2 * len(values) + 2)
    parts = require_each_key_once(ports, T, partitions)
    assert parts[0] == [None, None] and (len(parts) > 2) is (partitions > 1)


def test_skewed_keys_lie_in_one_range_each(ports: SourcePorts, tmp_path: Path) -> None:
    write(tmp_path, pa.int64(), [0, 1, 2, *([10**9] * 500)])
    assert [len(part) for part in require_each_key_once(ports, T, 7)] == [0, 3, 0, 0, 0, 0, 0, 500]


def test_random_texts_lie_in_one_range_each(ports: SourcePorts, tmp_path: Path) -> None:
    random, letters = Random(7), (0, 32, 65, 97, 0x7F, 0xE4, 0xFFFF, 0x10FFFF)
    texts = ["".join(chr(random.choice(letters)) for _ in range(random.randint(0, 5))) for _ in range(300)]
    write(tmp_path, pa.string(), texts[:100], texts[100:])
    for partitions in (2, 5, 64):
        require_each_key_once(ports, T, partitions)


@pytest.mark.parametrize("rows", [0, 3])
def test_without_keys_there_is_only_the_range_of_null(ports: SourcePorts, tmp_path: Path, rows: int) -> None:
    write(tmp_path, pa.int32(), [None] * rows)
    require_no_bounds(ports, T, rows)


def test_the_window_holds_in_every_range(ports: SourcePorts, tmp_path: Path) -> None:
    write(tmp_path, pa.int32(), [1, 2, 3, None, 9], c=[1, 2, 3, 2, None])
    windowed = replace(T, window=CursorWindow(column="c", lower="2", upper="4"))
    assert bounds_of(ports, windowed) == KeyBounds(lower="2", upper="3", rows=3)
    assert require_each_key_once(ports, windowed, 2) == [[None], [2], [3]]


def test_row_groups_without_a_key_of_the_range_are_left_out(ports: SourcePorts, tmp_path: Path) -> None:
    write(tmp_path, pa.int64(), [1, 2, 3, 4, 5, 6, None, None])
    schema = ports.source.describe(T)
    null, *plan = plan_source_ranges(ports, T, 2)
    path = tmp_path / "t" / "0.parquet"
    assert [key_filter(schema, "k", bounds).row_groups(path) for bounds in (null, *plan)] == [[3], [0, 1], [1, 2]]


def test_given_bounds_finer_than_the_column_compare_as_they_are(ports: SourcePorts, tmp_path: Path) -> None:
    write(tmp_path, pa.timestamp("ms"), [0, 1, 2])
    edge = "1970-01-01T00:00:00.000500"
    below = KeyRange(partition_index=1, lower="1969-12-31T23:59:59.999999", upper=edge)
    above = KeyRange(partition_index=2, lower=edge, upper="1970-01-01T00:00:00.001999", include_upper=True)
    assert [keys_of(ports, T, bounds) for bounds in (below, above)] == [[0], [1]]


@pytest.mark.parametrize("kind", [pa.float64(), pa.bool_(), pa.binary(), pa.time64("us")])
def test_a_key_without_order_is_refused(ports: SourcePorts, tmp_path: Path, kind: pa.DataType) -> None:
    write(tmp_path, kind, [None])
    require_refusal(ports, T, "partition_key_unsupported")


def test_a_moment_beyond_the_calendar_is_refused(ports: SourcePorts, tmp_path: Path) -> None:
    write(tmp_path, pa.timestamp("s"), [400_000_000_000])
    require_refusal(ports, T, "source_value_out_of_range")


def native(tmp_path: Path, file_format: str) -> Project:
    project = Project(tmp_path)
    document = flow(
        source__type="files",
        source__options={
            "path": f"t/*.{file_format}",
            "format": file_format,
            "partitioning": {"column": "k", "num_partitions": 4, "workers": 2},
        },
        quality={"gates": [{"type": "row_count_reconciliation"}]},
    )
    source = document["source"]
    assert isinstance(source, dict)
    del source["table"]
    if file_format == "ndjson":
        source["options"]["columns"] = [{"name": "k", "type": "int64"}]
    project.written(document)
    return project


def test_a_native_transfer_loads_every_range(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    write(tmp_path, pa.int64(), [*range(300)], [None, *range(300, 400)])
    project = native(tmp_path, "parquet")
    project.environment["DPONE_CONN_SHOP"] = f"file:///{tmp_path}"
    execution = project.execute("r1")
    assert execution.error is None
    assert outcome_of(execution).result.final_rows == 401


@pytest.mark.parametrize("file_format", ["csv", "ndjson"])
def test_text_files_have_no_ranges(tmp_path: Path, file_format: str) -> None:
    project = native(tmp_path, file_format)
    project.environment["DPONE_CONN_SHOP"] = f"file:///{tmp_path}"
    execution = project.execute("r1")
    assert code_of(execution) == "DPONE_ROUTE_REFUSED"
    assert f"{file_format} files cannot be split" in str(execution.error)
