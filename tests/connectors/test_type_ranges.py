"""The whole range of dates, times and moments of every sink: the ends are shown, what lies beyond is refused.

Values are the integers behind Arrow's types, because Python's calendar ends before those of the engines. SQL Server
has its cases in `test_mssql_sink_fidelity`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from dpone_core.connectors._arrow.types import arrow_type
from dpone_core.connectors.files.sink.load import FilesLoad
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.testing.builders import stage_request
from dpone_core.testing.sink_conformance import OpenSink, fresh_table
from tests.connectors.sessions import (
    database_of,
    duckdb_sink,
    embedded_clickhouse,
    postgres_database_of,
    postgres_sink,
    session_of,
)
from tests.live.servers import scratch_postgres

KIND = ColumnKind
MOMENTS = (KIND.TIMESTAMP, KIND.TIMESTAMP_TZ)
MOST = 2**63 - 1
DIGITS = {0: "", 3: ".000", 6: ".000000"}
NINES = {0: "", 3: ".999", 6: ".999999"}


@dataclass(frozen=True)
class Range:
    """Each end with the text that SQL shows of it, and integers beyond the ends."""

    type: ColumnType
    ends: tuple[tuple[int, str], ...]
    beyond: tuple[int, ...]

    def __str__(self) -> str:
        return str(self.type)


def typed(kind: ColumnKind, fraction: int | None = None) -> ColumnType:
    return ColumnType(kind=kind, fraction=fraction)


def day(year: int, month: int, day_: int) -> int:
    return (date(year, month, day_) - date(1970, 1, 1)).days


def years(kind: ColumnKind, fraction: int, separator: str = " ", zone: str = "") -> Range:
    """The years 0000 to 9999."""
    first, last = -62_167_219_200 * 10**fraction, 253_402_300_800 * 10**fraction - 1
    return Range(
        typed(kind, fraction),
        (
            (first, f"0000-01-01{separator}00:00:00{DIGITS[fraction]}{zone}"),
            (last, f"9999-12-31{separator}23:59:59{NINES[fraction]}{zone}"),
        ),
        (first - 1, last + 1),
    )


TIME = Range(typed(KIND.TIME, 6), ((0, "00:00:00"), (86_399_999_999, "23:59:59.999999")), (-1, 86_400_000_000))
CLICKHOUSE = [
    Range(
        typed(KIND.DATE),
        ((day(1900, 1, 1), "1900-01-01"), (day(2299, 12, 31), "2299-12-31")),
        (day(1900, 1, 1) - 1, day(2299, 12, 31) + 1, day(2149, 6, 7) + 2**20),
    ),
    *(years(kind, fraction) for kind in MOMENTS for fraction in (0, 3, 6)),
    Range(
        typed(KIND.TIMESTAMP, 9),
        ((-MOST - 1, "1677-09-21 00:12:43.145224192"), (MOST, "2262-04-11 23:47:16.854775807")),
        (),
    ),
    replace(TIME, ends=((0, "00:00:00.000000"), (86_399_999_999, "23:59:59.999999"))),
]
SHOWN_BY_DUCKDB = ("290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54")
DUCKDB = [
    Range(
        typed(KIND.DATE),
        ((2 - 2**31, "5877642-06-25 (BC)"), (2**31 - 2, "5881580-07-10")),
        (1 - 2**31, -(2**31), 2**31 - 1),
    ),
    *(
        Range(
            typed(KIND.TIMESTAMP, fraction),
            (
                (-9_223_372_022_400 * 10**fraction, SHOWN_BY_DUCKDB[0]),
                (last, SHOWN_BY_DUCKDB[1] + ending),
            ),
            (-9_223_372_022_400 * 10**fraction - 1, last + 1, MOST, -MOST),
        )
        for fraction, last, ending in (
            (0, 9_223_372_036_854, ""),
            (3, 9_223_372_036_854_775, ".775"),
            (6, MOST - 1, ".775806"),
        )
    ),
    Range(
        typed(KIND.TIMESTAMP_TZ, 6),
        ((-9_223_372_022_400_000_000, SHOWN_BY_DUCKDB[0] + "+00"), (MOST - 1, SHOWN_BY_DUCKDB[1] + ".775806+00")),
        (-9_223_372_022_400_000_001, MOST, -MOST),
    ),
    Range(
        typed(KIND.TIMESTAMP, 9),
        ((1 - MOST, "1677-09-21 00:12:43.145224194"), (MOST - 1, "2262-04-11 23:47:16.854775806")),
        (MOST, -MOST, -MOST - 1),
    ),
    TIME,
]
LAST_OF_POSTGRES = 9_223_371_244_799_999_999
POSTGRES = [
    Range(
        typed(KIND.DATE),
        ((-2_440_588, "4714-11-24 BC"), (2_145_042_905, "5874897-12-31")),
        (-2_440_589, 2_145_042_906, 2**31 - 1),
    ),
    Range(
        typed(KIND.TIMESTAMP, 6),
        ((-210_866_803_200_000_000, "4714-11-24 00:00:00 BC"), (LAST_OF_POSTGRES, "294246-12-31 23:59:59.999999")),
        (-210_866_803_200_000_001, -MOST, LAST_OF_POSTGRES + 1, MOST),
    ),
    Range(
        typed(KIND.TIMESTAMP_TZ, 6),
        (
            (-210_866_803_200_000_000, "4714-11-24 00:00:00+00 BC"),
            (LAST_OF_POSTGRES, "294246-12-31 23:59:59.999999+00"),
        ),
        (-210_866_803_200_000_001, -MOST, LAST_OF_POSTGRES + 1, MOST),
    ),
    TIME,
]
TEXT_FILES = [
    Range(
        typed(KIND.DATE),
        ((day(1, 1, 1) - 366, "0000-01-01"), (day(9999, 12, 31), "9999-12-31")),
        (day(1, 1, 1) - 367, day(9999, 12, 31) + 1),
    ),
    *(years(KIND.TIMESTAMP, fraction, "T") for fraction in (0, 3, 6)),
    years(KIND.TIMESTAMP_TZ, 6, "T", "Z"),
    replace(TIME, ends=((0, "00:00:00.000000"), (86_399_999_999, "23:59:59.999999"))),
]


def batch_of(column: ColumnType, values: list[int]) -> pa.RecordBatch:
    wanted = arrow_type(column)
    raw = pa.int32() if wanted.bit_width == 32 else pa.int64()
    keys = pa.array(range(len(values)), pa.int64())
    return pa.RecordBatch.from_arrays([keys, pa.array(values, raw).view(wanted)], names=["k", "v"])


def schema_of(column: ColumnType) -> TableSchema:
    return TableSchema(
        columns=(Column(name="k", type=typed(KIND.INT64), nullable=False), Column(name="v", type=column))
    )


def prove(sink: OpenSink, found: Range) -> TableName:
    """Loads the ends, and each value beyond alone; returns the table of the ends."""
    schema, table = schema_of(found.type), fresh_table()
    assert sink.ports.staged_rows is not None
    for value in found.beyond:
        refused = fresh_table()
        with pytest.raises(ConnectorError, match="'v'") as raised:
            sink.staged.stage(stage_request(refused, schema=schema), iter([batch_of(found.type, [0, value])]))
        assert raised.value.code == "staged_value_refused"
        assert sink.ports.target.leftovers(refused, None) == ()
    rows = batch_of(found.type, [value for value, _ in found.ends])
    handle = sink.staged.stage(stage_request(table, schema=schema), iter([rows]))
    back = pa.Table.from_batches(sink.ports.staged_rows.read_back(handle)).sort_by("k").combine_chunks()
    assert back.column("v").chunk(0).equals(rows.column("v").cast(back.schema.field("v").type))
    sink.staged.finalize(handle)
    sink.staged.cleanup(handle.ref)
    return table


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with embedded_clickhouse(tmp_path_factory.mktemp("chdb")) as opened:
        yield opened


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with duckdb_sink(tmp_path_factory.mktemp("duckdb")) as opened:
        yield opened


@pytest.fixture(scope="module")
def postgres() -> Iterator[OpenSink]:
    with scratch_postgres() as uri, postgres_sink(uri) as opened:
        yield opened


@pytest.mark.parametrize("found", CLICKHOUSE, ids=str)
def test_clickhouse_shows_the_ends_and_takes_nothing_beyond(clickhouse: OpenSink, found: Range) -> None:
    table = prove(clickhouse, found)
    rows = session_of(clickhouse).rows(f"SELECT toString(v) FROM conformance.{table.name} ORDER BY k")
    assert [row[0] for row in rows] == [text for _, text in found.ends]


def test_staged_moments_are_read_back_as_readers_see_them(clickhouse: OpenSink) -> None:
    schema = schema_of(typed(KIND.TIMESTAMP, 6))
    rows = batch_of(schema.columns[1].type, [0])
    assert clickhouse.ports.staged_rows is not None
    handle = clickhouse.staged.stage(stage_request(fresh_table(), schema=schema), iter([rows]))
    name = f"{handle.table.schema}.{handle.table.name}"
    session_of(clickhouse).command(
        f"ALTER TABLE {name} UPDATE v = fromUnixTimestamp64Micro(253402300800000000, 'UTC') WHERE true"
        " SETTINGS mutations_sync = 1"
    )
    (back,) = clickhouse.ports.staged_rows.read_back(handle)
    assert back.column("v").cast(pa.int64()).to_pylist() != [253_402_300_800_000_000]
    clickhouse.staged.cleanup(handle.ref)


@pytest.mark.parametrize("found", DUCKDB, ids=str)
def test_duckdb_shows_the_ends_and_takes_nothing_beyond(duckdb: OpenSink, found: Range) -> None:
    table = prove(duckdb, found)
    rows = database_of(duckdb).rows(f"SELECT CAST(v AS VARCHAR) FROM conformance.{table.name} ORDER BY k")
    assert [row[0] for row in rows] == [text for _, text in found.ends]


@pytest.mark.parametrize("found", POSTGRES, ids=str)
def test_postgres_shows_the_ends_and_takes_nothing_beyond(postgres: OpenSink, found: Range) -> None:
    table = prove(postgres, found)
    rows = postgres_database_of(postgres).rows(f"SELECT v::text FROM conformance.{table.name} ORDER BY k")
    assert [row[0] for row in rows] == [text for _, text in found.ends]


@pytest.mark.parametrize("file_format", ["csv", "ndjson"])
@pytest.mark.parametrize("found", TEXT_FILES, ids=str)
def test_text_files_show_the_ends_and_take_nothing_beyond(tmp_path: Path, found: Range, file_format: str) -> None:
    schema, table = schema_of(found.type), TableName(schema="raw", name="t")
    request = replace(stage_request(table, schema=schema), physical_design=PhysicalDesign(file_format=file_format))
    for value in found.beyond:
        with pytest.raises(ConnectorError, match="'v'") as raised:
            FilesLoad(tmp_path).load(request, iter([batch_of(found.type, [0, value])]))
        assert raised.value.code == "written_value_refused"
    rows = batch_of(found.type, [value for value, _ in found.ends])
    FilesLoad(tmp_path).load(request, iter([rows]))
    (back,) = FilesLoad(tmp_path).read_back(request)
    assert back.column("v").equals(rows.column("v"))
    (path,) = (tmp_path / "raw/t").glob("part-*")
    assert all(text in line for (_, text), line in zip(found.ends, path.read_text().splitlines()[-2:], strict=True))
