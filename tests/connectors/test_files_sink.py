"""The files sink on disk: what a reader sees at which moment, exact text, foreign files, crashes, control files.

Contract: VAL-10, VAL-12.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpone_core.connectors._arrow.types import arrow_schema
from dpone_core.connectors.files.open import open_source, ports_of
from dpone_core.connectors.files.sink.load import FilesLoad
from dpone_core.connectors.files.sink.target_directory import TargetDirectory
from dpone_core.connectors.files.text_blocks import BLOCK_BYTES
from dpone_core.errors import CommitOutcomeUnknownError, ConnectorError, LeaseLostError
from dpone_core.model.load_config import PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import Side, StrategyMode
from dpone_core.ports.control import ControlTables
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.sink import StageRequest
from dpone_core.ports.source import ExtractRequest
from dpone_core.testing.builders import ORDERS, batch_of, load_identity, orders, stage_request, with_column
from dpone_core.testing.port_conformance import control_row, control_table
from tests.connectors.sessions import connection

TABLE = TableName(schema="raw", name="orders")
APPEND = StrategyMode.INCREMENTAL_APPEND
FORMATS = ("parquet", "csv", "ndjson")
KIND = ColumnKind


def request_for(
    load: str = "L1",
    file_format: str = "csv",
    *,
    strategy: StrategyMode = StrategyMode.FULL_REFRESH,
    schema: TableSchema = ORDERS,
) -> StageRequest:
    request = stage_request(TABLE, load, strategy=strategy, schema=schema)
    return replace(request, physical_design=PhysicalDesign(file_format=file_format))


def visible(base: Path) -> list[str]:
    """What a reader that skips hidden names finds in the target."""
    directory = base / "raw" / "orders"
    return sorted(path.name for path in directory.iterdir() if path.name[0] not in "._") if directory.exists() else []


def read_ids(base: Path, request: StageRequest) -> list[int]:
    return sorted(i for batch in FilesLoad(base).read_back(request) for i in batch.column("id").to_pylist())


def test_csv_has_one_null_token_and_quotes_every_text(tmp_path: Path) -> None:
    texts = [None, "", "\\N", "NULL", 'a"b,c\nd']
    rows = [{"id": i, "name": text, "amount": Decimal("0.0001") if i else None} for i, text in enumerate(texts)]
    FilesLoad(tmp_path).load(request_for(), iter([batch_of(ORDERS, rows)]))
    (name,) = visible(tmp_path)
    assert (tmp_path / "raw/orders" / name).read_text("utf-8") == (
        '"id","name","amount"\n0,\\N,\\N\n1,"",0.0001\n2,"\\N",0.0001\n3,"NULL",0.0001\n4,"a""b,c\nd",0.0001\n'
    )


def test_another_reader_of_the_csv_keeps_null_and_empty_apart(tmp_path: Path) -> None:
    texts = [None, "", "\\N", "NULL"]
    rows = [{"id": i, "name": text} for i, text in enumerate(texts)]
    FilesLoad(tmp_path).load(request_for(), iter([batch_of(ORDERS, rows)]))
    found = duckdb.sql(
        f"SELECT name FROM read_csv('{tmp_path}/raw/orders/part-*.csv', nullstr='\\N', allow_quoted_nulls=false,"
        " columns={'id': 'BIGINT', 'name': 'VARCHAR', 'amount': 'DECIMAL(18,4)'}, header=true) ORDER BY id"
    ).fetchall()
    assert [row[0] for row in found] == texts


def test_ndjson_keeps_decimals_as_text_and_integers_as_numbers(tmp_path: Path) -> None:
    rows = [{"id": 2**62 + 1, "name": 'q"\n\x01é', "amount": Decimal("12345678901234.5678")}, {"id": 1}]
    FilesLoad(tmp_path).load(request_for(file_format="ndjson"), iter([batch_of(ORDERS, rows)]))
    (name,) = visible(tmp_path)
    lines = (tmp_path / "raw/orders" / name).read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": 2**62 + 1, "name": 'q"\n\x01é', "amount": "12345678901234.5678"},
        {"id": 1, "name": None, "amount": None},
    ]


VALUES: list[tuple[ColumnType, list[object]]] = [
    (ColumnType(kind=KIND.BOOLEAN), [True, False, None]),
    (ColumnType(kind=KIND.INT8), [-128, 127, None]),
    (ColumnType(kind=KIND.INT64), [-(2**63), 2**63 - 1, None]),
    (ColumnType(kind=KIND.UINT64), [0, 2**64 - 1, None]),
    (ColumnType(kind=KIND.FLOAT32), [0.1, -1.5e30, None]),
    (ColumnType(kind=KIND.FLOAT64), [0.1, 5e-324, 1.7976931348623157e308, -0.0, 1.0, None]),
    (ColumnType(kind=KIND.DECIMAL, precision=38, scale=10), [Decimal("1E-10"), Decimal("-12.5"), Decimal(0), None]),
    (ColumnType(kind=KIND.DECIMAL, precision=60, scale=2), [Decimal("9" * 58 + ".99"), None]),
    (ColumnType(kind=KIND.STRING), ["", "a\0b", "\r\n", "😀", "\u2028", '"', "\\", " x ", None]),
    (ColumnType(kind=KIND.BINARY), [b"", b"\xff\0a", None]),
    (ColumnType(kind=KIND.DATE), [date(1, 1, 1), date(9999, 12, 31), None]),
    (ColumnType(kind=KIND.TIME, fraction=0), [time(23, 59, 59), None]),
    (ColumnType(kind=KIND.TIME, fraction=6), [time(12, 34, 56, 1), None]),
    (ColumnType(kind=KIND.TIMESTAMP, fraction=3), [datetime(1969, 12, 31, 23, 59, 59, 999000), None]),
    (
        ColumnType(kind=KIND.TIMESTAMP, fraction=6),
        [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), None],
    ),
    (ColumnType(kind=KIND.TIMESTAMP_TZ, fraction=0), [datetime(2025, 3, 30, 1, 30, tzinfo=UTC), None]),
    (ColumnType(kind=KIND.TIMESTAMP_TZ, fraction=6), [datetime(1500, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None]),
    (ColumnType(kind=KIND.UUID), [UUID("00000000-0000-0000-0000-0000000000ff").bytes, None]),
]


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize(
    ("kind", "values"), VALUES, ids=lambda value: str(value) if isinstance(value, ColumnType) else ""
)
def test_every_value_comes_back_exactly(
    tmp_path: Path, file_format: str, kind: ColumnType, values: list[object]
) -> None:
    schema = TableSchema(columns=(Column(name="v", type=kind),))
    wanted = arrow_schema(schema)
    sent = pa.RecordBatch.from_arrays([pa.array(values, type=wanted.field(0).type)], schema=wanted)
    request = request_for(file_format=file_format, schema=schema)
    FilesLoad(tmp_path).load(request, iter([sent]))
    (found,) = FilesLoad(tmp_path).read_back(request)
    assert found.column(0).cast(sent.column(0).type).equals(sent.column(0))
    assert str(found.column(0)) == str(sent.column(0))


@pytest.mark.parametrize("file_format", ["csv", "ndjson"])
def test_line_ends_inside_of_texts_come_back_across_the_blocks_of_a_large_file(
    tmp_path: Path, file_format: str
) -> None:
    schema = TableSchema(columns=(Column(name="v", type=ColumnType(kind=KIND.STRING)),))
    request = request_for(file_format=file_format, schema=schema)
    texts = [("x" if number % 2 else "") + "\r\n" * 40_000 + '\r"\n' for number in range(120)]
    FilesLoad(tmp_path).load(request, iter([pa.RecordBatch.from_pydict({"v": texts})]))
    assert sum(path.stat().st_size for path in tmp_path.rglob("part-*")) > 2 * BLOCK_BYTES
    assert [text for batch in FilesLoad(tmp_path).read_back(request) for text in batch.column(0).to_pylist()] == texts


def test_a_csv_file_without_the_column_that_is_counted_keeps_its_rows(tmp_path: Path) -> None:
    FilesLoad(tmp_path).load(request_for(), iter([orders(1, 2)]))
    added = TableSchema(columns=(Column(name="added", type=ColumnType(kind=KIND.INT64)),))
    empty = replace(request_for("L2", strategy=APPEND, schema=with_column(ORDERS, added.columns[0])), added=added)
    FilesLoad(tmp_path).load(empty, iter([]))
    measured = ports_of(tmp_path).metrics
    assert measured is not None
    asked = MetricRequest(side=Side.TARGET, table=TABLE, row_count=True, null_counts=("added",))
    assert measured.collect(asked) == {"row_count": 2, "null_counts": {"added": 2}, "distinct_counts": {}}


def test_nan_and_infinity_survive_where_the_format_has_them_and_are_refused_where_not(tmp_path: Path) -> None:
    schema = TableSchema(columns=(Column(name="v", type=ColumnType(kind=KIND.FLOAT64)),))
    batch = pa.RecordBatch.from_pydict({"v": [float("nan"), float("inf"), float("-inf"), None]})
    for file_format in ("parquet", "csv"):
        request = request_for(file_format, file_format, schema=schema)
        FilesLoad(tmp_path).load(request, iter([batch]))
        (found,) = FilesLoad(tmp_path).read_back(request)
        assert str(found.column(0)) == str(batch.column(0))
        measured = ports_of(tmp_path).metrics
        assert measured is not None
        asked = MetricRequest(side=Side.TARGET, table=TABLE, null_counts=("v",))
        assert measured.collect(asked)["null_counts"] == {"v": 1}
    before = visible(tmp_path)
    with pytest.raises(ConnectorError) as raised:
        FilesLoad(tmp_path).load(request_for("L3", "ndjson", schema=schema), iter([batch]))
    assert raised.value.code == "written_value_refused" and "'v'" in str(raised.value)
    assert visible(tmp_path) == before


@pytest.mark.parametrize("file_format", FORMATS)
def test_zero_rows_are_a_file(tmp_path: Path, file_format: str) -> None:
    request = request_for(file_format=file_format)
    assert FilesLoad(tmp_path).load(request, iter([])).written_rows == 0
    (name,) = visible(tmp_path)
    path = tmp_path / "raw/orders" / name
    expected = {"csv": b'"id","name","amount"\n', "ndjson": b""}
    if file_format == "parquet":
        assert pq.read_schema(path).names == list(ORDERS.names)
    else:
        assert path.read_bytes() == expected[file_format]


def test_nothing_is_visible_until_the_rows_have_ended(tmp_path: Path) -> None:
    FilesLoad(tmp_path).load(request_for(), iter([orders(1)]))
    before = visible(tmp_path)
    seen: list[list[str]] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for i in range(2, 6):
            seen.append(visible(tmp_path))
            yield orders(i)
        seen.append(visible(tmp_path))

    FilesLoad(tmp_path, max_file_rows=2).load(request_for("L2", strategy=APPEND), batches())
    assert seen == [before] * 5
    assert len(visible(tmp_path)) > len(before) + 1


def test_a_large_load_is_several_files_of_one_hash(tmp_path: Path) -> None:
    request = request_for()
    FilesLoad(tmp_path, max_file_rows=2).load(request, iter([orders(1), orders(2), orders(3)]))
    names = visible(tmp_path)
    assert [name.rpartition("-")[2] for name in names] == ["00000.csv", "00001.csv"]
    assert len({name.split("-")[1] for name in names}) == 1
    assert read_ids(tmp_path, request) == [1, 2, 3]


def test_a_file_name_holds_no_id_in_clear(tmp_path: Path) -> None:
    FilesLoad(tmp_path).load(request_for("CANARY"), iter([orders(1)]))
    assert not [path for path in tmp_path.rglob("*") if "CANARY" in path.name or "run-1" in path.name]


def test_a_failure_while_publishing_is_an_unknown_outcome(tmp_path: Path) -> None:
    request = request_for("L2", strategy=APPEND)
    load = FilesLoad(tmp_path, max_file_rows=1)

    def batches() -> Iterator[pa.RecordBatch]:
        yield orders(1)
        yield orders(2)
        target = TargetDirectory(base=tmp_path, table=TABLE)
        (target.path / target.part_name(request.identity, 1, "csv")).mkdir()

    with pytest.raises(CommitOutcomeUnknownError):
        load.load(request, batches())
    assert load.has_rows(request.ref)


def test_an_interrupted_refresh_takes_no_append_until_it_is_repeated(tmp_path: Path) -> None:
    FilesLoad(tmp_path).load(request_for(), iter([orders(1)]))
    target = TargetDirectory(base=tmp_path, table=TABLE)
    known = target.describe()
    assert known is not None
    target.write_description(replace(known, refreshing="0" * 16))
    append = request_for("L2", strategy=APPEND)
    with pytest.raises(ConnectorError) as raised:
        FilesLoad(tmp_path).load(append, iter([orders(2)]))
    assert raised.value.code == "target_refresh_incomplete"
    FilesLoad(tmp_path).load(request_for("L3"), iter([orders(3)]))
    FilesLoad(tmp_path).load(append, iter([orders(2)]))
    assert len(visible(tmp_path)) == 2


@pytest.mark.parametrize("name", ["data.csv", "part-1.csv"])
def test_files_of_somebody_else_are_neither_joined_nor_removed(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "raw/orders"
    directory.mkdir(parents=True)
    (directory / name).write_text("mine")
    with pytest.raises(ConnectorError) as raised:
        ports_of(tmp_path).target.preflight(request_for())
    assert raised.value.code == "target_not_managed"
    with pytest.raises(ConnectorError):
        FilesLoad(tmp_path).load(request_for(), iter([orders(1)]))
    assert (directory / name).read_text() == "mine"


@pytest.mark.parametrize("name", ["../outside", ".hidden", "_hidden", "a/b", "x" * 256])
def test_a_table_name_that_is_no_directory_name_is_refused(tmp_path: Path, name: str) -> None:
    request = replace(request_for(), target=TableName(schema="raw", name=name))
    with pytest.raises(ConnectorError) as raised:
        ports_of(tmp_path).target.preflight(request)
    assert raised.value.code == "physical_design_mismatch"


def test_another_format_replaces_and_never_joins(tmp_path: Path) -> None:
    FilesLoad(tmp_path).load(request_for(file_format="csv"), iter([orders(1)]))
    with pytest.raises(ConnectorError) as raised:
        FilesLoad(tmp_path).load(request_for("L2", "parquet", strategy=APPEND), iter([orders(2)]))
    assert raised.value.code == "physical_design_mismatch"
    FilesLoad(tmp_path).load(request_for("L3", "parquet"), iter([orders(3)]))
    assert [Path(name).suffix for name in visible(tmp_path)] == [".parquet"]


def test_a_dead_load_is_a_leftover_that_no_reader_sees(tmp_path: Path) -> None:
    hidden = TargetDirectory(base=tmp_path, table=TABLE).unpublished_directory(load_identity("dead"))
    hidden.mkdir(parents=True)
    pq.write_table(pa.table({"id": [9]}), hidden / "part-0000000000000000-00000.parquet")
    ports = ports_of(tmp_path)
    assert [left.table.name for left in ports.target.leftovers(TABLE, None)] == [hidden.name[1:]]
    FilesLoad(tmp_path).load(request_for("L1", "parquet"), iter([orders(1)]))
    with open_source(connection(f"file:///{tmp_path}")) as source:
        asked = ExtractRequest(path="raw/orders", format="parquet")
        stream = source.source.open_stream(asked, source.source.describe(asked))
        assert [i for batch in stream.batches() for i in batch.column("id").to_pylist()] == [1]
    assert ports.legacy is not None
    ports.legacy.discard(request_for("dead").ref)
    assert ports.target.leftovers(TABLE, None) == ()


ENDLESS = """
import itertools, sys
from pathlib import Path
from dpone_core.connectors.files.sink.load import FilesLoad
from dpone_core.testing.builders import orders
from tests.connectors.test_files_sink import APPEND, request_for
def endless():
    for number in itertools.count():
        yield orders(*range(1000))
        if number == 5:
            print("writing", flush=True)
FilesLoad(Path(sys.argv[1]), max_file_rows=1000).load(request_for("dead", strategy=APPEND), endless())
"""


def test_a_killed_writer_leaves_the_target_and_a_visible_leftover(tmp_path: Path) -> None:
    request = request_for()
    FilesLoad(tmp_path).load(request, iter([orders(1, 2)]))
    before = visible(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "writing\n"
        process.kill()
        process.wait()
    assert visible(tmp_path) == before and read_ids(tmp_path, request) == [1, 2]
    ports = ports_of(tmp_path)
    assert [left.role for left in ports.target.leftovers(TABLE, None)] == ["stg"]
    assert ports.legacy is not None and not ports.legacy.has_rows(request_for("dead").ref)
    FilesLoad(tmp_path).load(request_for("L2", strategy=APPEND), iter([orders(3)]))
    assert len(visible(tmp_path)) == len(before) + 1


def test_a_damaged_file_is_an_error_of_reading_back(tmp_path: Path) -> None:
    for file_format, damage in (("csv", b'1,"a\n'), ("ndjson", b'{"id":1'), ("parquet", b"x")):
        request = request_for(file_format, file_format)
        FilesLoad(tmp_path).load(request, iter([orders(1)]))
        (name,) = visible(tmp_path)
        with open(tmp_path / "raw/orders" / name, "ab") as file:
            file.write(damage)
        with pytest.raises(ConnectorError) as raised:
            list(FilesLoad(tmp_path).read_back(request))
        assert raised.value.code == "written_rows_unreadable"


def test_a_directory_that_cannot_be_made_is_refused_before_rows_are_read(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("a file")
    with pytest.raises(ConnectorError) as raised:
        ports_of(tmp_path).target.preflight(request_for())
    assert raised.value.code == "sink_unreachable"


def controls(base: Path) -> ControlTables:
    found = ports_of(base).control
    assert found is not None
    return found


def test_a_torn_last_line_is_ignored_and_cut_off_by_the_next_change(tmp_path: Path) -> None:
    table = control_table()
    controls(tmp_path).ensure(table)
    controls(tmp_path).upsert(table, [control_row("a")])
    path = tmp_path / table.schema / f"{table.name}.jsonl"
    with open(path, "ab") as file:
        file.write(b'{"row":{"k":"torn"')
    assert controls(tmp_path).read(table, {}) == (control_row("a"),)
    controls(tmp_path).upsert(table, [control_row("b")])
    assert [row["k"] for row in controls(tmp_path).read(table, {})] == ["a", "b"]
    assert b"torn" not in path.read_bytes()


def test_a_whole_line_that_cannot_be_read_is_never_skipped(tmp_path: Path) -> None:
    table = control_table()
    controls(tmp_path).ensure(table)
    path = tmp_path / table.schema / f"{table.name}.jsonl"
    whole = path.read_bytes()
    for damage in (b"nonsense\n", b'{"row":{"k":1}}\n', b'{"unknown":{}}\n', b"[]\n"):
        path.write_bytes(whole + damage)
        with pytest.raises(ConnectorError) as raised:
            controls(tmp_path).read(table, {})
        assert raised.value.code == "control_table_unreadable"
        assert path.read_bytes() == whole + damage


def test_a_control_file_only_grows(tmp_path: Path) -> None:
    table = control_table()
    control = controls(tmp_path)
    control.ensure(table)
    path = tmp_path / table.schema / f"{table.name}.jsonl"
    contents = [path.read_bytes()]
    control.upsert(table, [control_row("a")])
    contents.append(path.read_bytes())
    assert control.compare_and_set(table, {"k": "a"}, {"note": None}, None)
    contents.append(path.read_bytes())
    assert contents[2].startswith(contents[1]) and contents[1].startswith(contents[0])
    assert control.read(table, {}) == ()


def test_of_a_load_and_its_successor_one_gets_what_was_written(tmp_path: Path) -> None:
    """A load publishes only what it has claimed by a rename; what its successor took first it cannot publish."""
    ports, late = ports_of(tmp_path), request_for("late")
    FilesLoad(tmp_path).load(request_for("L0"), iter([orders(1)]))
    directory = TargetDirectory(base=tmp_path, table=TABLE).path
    before = {path.name: path.read_bytes() for path in directory.iterdir()}

    def taken_meanwhile() -> Iterator[pa.RecordBatch]:
        yield orders(2)
        assert ports.revocation is not None
        assert len(ports.revocation.revoke(request_for("rival").ref, frozenset())) == 1

    with pytest.raises(ConnectorError) as raised:
        FilesLoad(tmp_path).load(late, taken_meanwhile())
    assert not isinstance(raised.value, CommitOutcomeUnknownError)
    assert ports.target.leftovers(TABLE, None) == (), "who is refused removes what it wrote, wherever it lies by now"
    assert {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()} == before


def test_a_claim_is_taken_away_like_anything_that_was_written(tmp_path: Path) -> None:
    ports, late = ports_of(tmp_path), request_for("late")
    target = TargetDirectory(base=tmp_path, table=TABLE)
    target.unpublished_directory(late.identity).mkdir(parents=True)
    claimed = target.claim(late.identity)
    assert claimed.is_dir() and not target.unpublished_directory(late.identity).exists()
    assert ports.revocation is not None
    assert ports.revocation.revoke(late.ref, frozenset()) == (), "nobody takes from itself"
    assert ports.revocation.revoke(request_for("rival").ref, frozenset()) == (claimed.name[1:],)
    assert not claimed.exists()
    with pytest.raises(LeaseLostError):
        target.claim(late.identity)
