"""Parquet files are read as they say they are: one schema, exact types, nested columns refused by name."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpone_core.connectors.files import probe
from dpone_core.connectors.files.open import open_source
from dpone_core.errors import ConnectorError
from dpone_core.model.file_reading import FileReading
from dpone_core.model.table_schema import ColumnKind
from dpone_core.model.vocabulary import Side
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.source import CursorWindow, ExtractRequest
from tests.connectors.sessions import connection


def write(directory: Path, name: str, columns: dict[str, pa.Array]) -> None:
    pq.write_table(pa.table(columns), directory / name, store_schema=True)


def rows_of(directory: Path, request: ExtractRequest) -> list[dict[str, object]]:
    with open_source(connection(f"file:///{directory}")) as ports:
        stream = ports.source.open_stream(request, ports.source.describe(request))
        return [row for batch in stream.batches() for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("array", "kind", "value"),
    [
        (pa.array(["a"]).dictionary_encode(), ColumnKind.STRING, "a"),
        (pa.array(["a"], pa.large_string()), ColumnKind.STRING, "a"),
        (pa.array(["a"], pa.string_view()), ColumnKind.STRING, "a"),
        (pa.array([b"\xff"], pa.large_binary()), ColumnKind.BINARY, b"\xff"),
        (pa.array([Decimal("1.50")], pa.decimal256(50, 2)), ColumnKind.DECIMAL, Decimal("1.50")),
        (pa.array([2**64 - 1], pa.uint64()), ColumnKind.UINT64, 2**64 - 1),
        (pa.array([date(1, 1, 1)]), ColumnKind.DATE, date(1, 1, 1)),
        (pa.array([datetime(9999, 12, 31)], pa.timestamp("us")), ColumnKind.TIMESTAMP, datetime(9999, 12, 31)),
    ],
)
def test_flat_types_are_exact(tmp_path: Path, array: pa.Array, kind: ColumnKind, value: object) -> None:
    write(tmp_path, "a.parquet", {"v": array})
    request = ExtractRequest(path="a.parquet", format="parquet")
    with open_source(connection(f"file:///{tmp_path}")) as ports:
        assert ports.source.describe(request).columns[0].type.kind is kind
    assert rows_of(tmp_path, request) == [{"v": value}]


@pytest.mark.parametrize(
    "nested", [pa.array([[1]]), pa.array([{"a": 1}]), pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8()))]
)
def test_nested_columns_are_reported_and_then_refused_by_name(tmp_path: Path, nested: pa.Array) -> None:
    write(tmp_path, "a.parquet", {"id": pa.array([1]), "tree": nested})
    request = ExtractRequest(path="a.parquet", format="parquet")
    with open_source(connection(f"file:///{tmp_path}")) as ports:
        schema = ports.source.describe(request)
        assert [column.type.kind for column in schema.columns] == [ColumnKind.INT64, ColumnKind.UNSUPPORTED]
        with pytest.raises(ConnectorError) as raised:
            ports.source.open_stream(request, schema)
    assert raised.value.code == "source_column_unsupported" and "'tree'" in str(raised.value)


@pytest.mark.parametrize(
    "other",
    [
        {"v": pa.array(["1"])},
        {"v": pa.array([1], pa.int32())},
        {"w": pa.array([1])},
        {"v": pa.array([1]), "w": pa.array([1])},
    ],
)
def test_files_of_another_schema_are_refused_by_position(tmp_path: Path, other: dict[str, pa.Array]) -> None:
    write(tmp_path, "a.parquet", {"v": pa.array([1])})
    write(tmp_path, "canary.parquet", other)
    with pytest.raises(ConnectorError) as raised:
        rows_of(tmp_path, ExtractRequest(path="*.parquet", format="parquet"))
    assert raised.value.code == "source_schema_inconsistent"
    assert "file 1" in str(raised.value) and "canary" not in str(raised.value)


def test_columns_are_matched_by_name_whatever_their_order(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"i": pa.array([1]), "j": pa.array(["2"])})
    write(tmp_path, "b.parquet", {"j": pa.array(["3"]), "i": pa.array([4])})
    assert rows_of(tmp_path, ExtractRequest(path="*.parquet", format="parquet")) == [
        {"i": 1, "j": "2"}, {"i": 4, "j": "3"},
    ]  # fmt: skip


def test_a_column_that_is_nullable_in_one_file_is_nullable(tmp_path: Path) -> None:
    for name, nullable in (("a", False), ("b", True)):
        schema = pa.schema([pa.field("i", pa.int64(), nullable=nullable), pa.field("k", pa.int64(), nullable=False)])
        pq.write_table(pa.table({"i": [1], "k": [2]}, schema=schema), tmp_path / f"{name}.parquet")
    request = ExtractRequest(path="*.parquet", format="parquet")
    with open_source(connection(f"file:///{tmp_path}")) as ports:
        assert [column.nullable for column in ports.source.describe(request).columns] == [True, False]


def test_differences_name_columns_both_types_and_a_way_out(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"i": pa.array([1], pa.int32()), "gone": pa.array([1])})
    write(tmp_path, "b.parquet", {"i": pa.array([1], pa.int64()), "new": pa.array([1])})
    write(tmp_path, "c.parquet", {"i": pa.array([1], pa.int64()), "gone": pa.array([1]), "new": pa.array([1])})
    with pytest.raises(ConnectorError) as raised:
        rows_of(tmp_path, ExtractRequest(path="*.parquet", format="parquet"))
    assert str(raised.value).endswith(
        "column 'i' is int32 in file 0 and int64 in file 1; column 'gone' is in file 0 and not in file 1;"
        " column 'new' is in file 1 and not in file 0"
    )
    assert "schema_evolution: widen" in str(raised.value.fix)


WIDENED = [
    (pa.array([1], pa.int8()), pa.array([2**40]), pa.int64(), [1, 2**40]),
    (pa.array([255], pa.uint8()), pa.array([-1], pa.int8()), pa.int16(), [255, -1]),
    (pa.array([0.5], pa.float32()), pa.array([0.1]), pa.float64(), [0.5, 0.1]),
    (
        pa.array([Decimal("1.5")], pa.decimal128(3, 1)),
        pa.array([Decimal("0.25")], pa.decimal128(4, 3)),
        pa.decimal128(5, 3),
        [Decimal("1.500"), Decimal("0.250")],
    ),
    (
        pa.array([datetime(2026, 1, 1)], pa.timestamp("ms")),
        pa.array([datetime(2026, 1, 1, 0, 0, 0, 1)], pa.timestamp("us")),
        pa.timestamp("us"),
        [datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)],
    ),
    (pa.nulls(1), pa.array(["x"]), pa.string(), [None, "x"]),
    (pa.array(["x"]), pa.nulls(1), pa.string(), ["x", None]),
]


@pytest.mark.parametrize(("first", "second", "type_", "values"), WIDENED)
def test_declared_files_widen_exactly(
    tmp_path: Path, first: pa.Array, second: pa.Array, type_: pa.DataType, values: list[object]
) -> None:
    write(tmp_path, "a.parquet", {"v": first})
    write(tmp_path, "b.parquet", {"v": second, "new": pa.array([7])})
    widened = ExtractRequest(path="*.parquet", format="parquet", reading=FileReading(widen=True))
    with open_source(connection(f"file:///{tmp_path}")) as ports:
        batches = list(ports.source.open_stream(widened, ports.source.describe(widened)).batches())
    assert {batch.schema.field("v").type for batch in batches} == {type_}
    assert [row["v"] for batch in batches for row in batch.to_pylist()] == values
    assert [row["new"] for batch in batches for row in batch.to_pylist()] == [None, 7]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1]), pa.array(["1"])),
        (pa.array([1], pa.uint64()), pa.array([-1])),
        (pa.array([1]), pa.array([0.5])),
        (
            pa.array([datetime(2026, 1, 1)], pa.timestamp("us")),
            pa.array([datetime(2026, 1, 1)], pa.timestamp("us", "UTC")),
        ),
        (pa.array([1]), pa.array([[1]])),
    ],
)
def test_what_has_no_wider_type_is_refused_though_declared(tmp_path: Path, first: pa.Array, second: pa.Array) -> None:
    write(tmp_path, "a.parquet", {"v": first})
    write(tmp_path, "b.parquet", {"v": second})
    with pytest.raises(ConnectorError, match="'v'") as raised:
        rows_of(tmp_path, ExtractRequest(path="*.parquet", format="parquet", reading=FileReading(widen=True)))
    assert raised.value.code == "source_schema_inconsistent" and "no type" in str(raised.value.fix)


def test_directories_are_read_in_path_order(tmp_path: Path) -> None:
    (tmp_path / "in" / "b").mkdir(parents=True)
    write(tmp_path / "in", "z.parquet", {"v": pa.array([2])})
    write(tmp_path / "in" / "b", "a.parquet", {"v": pa.array([1])})
    assert rows_of(tmp_path, ExtractRequest(path="in", format="parquet")) == [{"v": 1}, {"v": 2}]


def test_a_file_without_rows_has_a_schema(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"v": pa.array([], pa.int64())})
    assert rows_of(tmp_path, ExtractRequest(path="a.parquet", format="parquet")) == []


def test_a_damaged_file_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(ConnectorError) as raised:
        rows_of(tmp_path, ExtractRequest(path="a.parquet", format="parquet"))
    assert raised.value.code == "source_unreachable"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_time_cursor_round_trips_as_text(tmp_path: Path, unit: str, zone: str | None) -> None:
    moments = pa.array([1_000_000_000, 2_000_000_000, None], pa.timestamp(unit, zone))
    write(tmp_path, "a.parquet", {"ts": moments})
    request = ExtractRequest(path="a.parquet", format="parquet")
    with open_source(connection(f"file:///{tmp_path}")) as ports:
        greatest = ports.source.cursor_maximum(request, "ts")
    window = CursorWindow(column="ts", upper=greatest)
    below = rows_of(tmp_path, ExtractRequest(path="a.parquet", format="parquet", window=window))
    from_there = rows_of(
        tmp_path, ExtractRequest(path="a.parquet", format="parquet", window=CursorWindow(column="ts", lower=greatest))
    )
    assert len(below) == len(from_there) == 1


def test_distinct_counts_are_bounded_not_approximated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.parquet", {"v": pa.array(range(200_000))})
    request = MetricRequest(
        side=Side.SOURCE, extract=ExtractRequest(path="a.parquet", format="parquet"), distinct_counts=("v",)
    )
    with open_source(connection(f"file:///{tmp_path}")) as ports:
        assert ports.metrics is not None
        assert ports.metrics.collect(request)["distinct_counts"] == {"v": 200_000}
        monkeypatch.setattr(probe, "MAX_DISTINCT_BYTES", 1000)
        with pytest.raises(ConnectorError) as raised:
            ports.metrics.collect(request)
    assert raised.value.code == "metric_memory_exceeded"


@pytest.mark.parametrize("nullable", [True, False])
def test_null_counts_are_right_for_required_and_for_nullable_columns(tmp_path: Path, nullable: bool) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=nullable), pa.field("v", pa.string())])
    pq.write_table(pa.table({"id": [1, 2, 3], "v": ["a", None, None]}, schema=schema), tmp_path / "a.parquet")
    extract = ExtractRequest(path="a.parquet", format="parquet")
    request = MetricRequest(side=Side.SOURCE, extract=extract, null_counts=("id", "v"))
    only_required = MetricRequest(side=Side.SOURCE, extract=extract, null_counts=("id",))
    with open_source(connection(f"file:///{tmp_path}")) as ports:
        assert ports.metrics is not None
        answer = ports.metrics.collect(request)
        assert (answer["row_count"], answer["null_counts"]) == (3, {"id": 0, "v": 2})
        assert ports.metrics.collect(only_required) == {"row_count": 3, "null_counts": {"id": 0}, "distinct_counts": {}}


def test_a_declared_not_null_is_no_proof_for_a_null_count(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"id": pa.array([1, 2]), "v": pa.array(["a", None])})
    declared = ExtractRequest(path="a.parquet", format="parquet", reading=FileReading(not_null=("v",)))
    request = MetricRequest(side=Side.SOURCE, extract=declared, null_counts=("v",))
    with open_source(connection(f"file:///{tmp_path}")) as ports:
        assert ports.metrics is not None
        with pytest.raises(ConnectorError, match="'v'"):
            ports.metrics.collect(request)
