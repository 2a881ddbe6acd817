"""Tests of partition_replace that every sink must pass: partitions of this load's rows are replaced, others stay."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Final

import pyarrow as pa
import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import LOAD_ID
from dpone_core.model.load_config import PartitionBy, PartitionGranularity, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.ports.sink import LineageColumns, StageRequest

from .builders import INT64, TEXT, batch_of, stage_request
from .open_sink import REPLACE, OpenSink, fresh_table, require

DATE: Final = ColumnType(kind=ColumnKind.DATE)
INSTANT: Final = ColumnType(kind=ColumnKind.TIMESTAMP_TZ, fraction=6)
WALL: Final = ColumnType(kind=ColumnKind.TIMESTAMP, fraction=6)
NAME: Final = PartitionBy(column="part")
CASES: Final[Mapping[str, tuple[ColumnType, PartitionGranularity, object, object, object]]] = {
    "text": (TEXT, PartitionGranularity.VALUE, "a", "a", "a "),
    "number": (INT64, PartitionGranularity.VALUE, -1, -1, 1),
    "day of a date": (DATE, PartitionGranularity.VALUE, date(2026, 1, 1), date(2026, 1, 1), date(2026, 1, 2)),
    "month of a date": (DATE, PartitionGranularity.MONTH, date(2026, 1, 1), date(2026, 1, 31), date(2026, 2, 1)),
    "year of a date": (DATE, PartitionGranularity.YEAR, date(2026, 1, 1), date(2026, 12, 31), date(2025, 12, 31)),
    "day of an instant": (
        INSTANT,
        PartitionGranularity.DAY,
        datetime(2026, 1, 1, 0, 0, tzinfo=UTC),
        datetime(2026, 1, 1, 23, 59, 59, 999999, UTC),
        datetime(2026, 1, 2, tzinfo=UTC),
    ),
    "month of a wall clock": (
        WALL,
        PartitionGranularity.MONTH,
        datetime(2026, 1, 1, 0, 0),
        datetime(2026, 1, 31, 23, 59, 59),
        datetime(2025, 1, 1, 0, 0),
    ),
}
"""Type, granularity, two values of one partition, one value of another."""


def schema_with_part(part: ColumnType) -> TableSchema:
    """Columns `id`, `part` (of this type) and `name`."""
    return TableSchema(
        columns=(
            Column(name="id", type=INT64, nullable=False),
            Column(name="part", type=part, nullable=False),
            Column(name="name", type=TEXT),
        )
    )


BY_NAME: Final = schema_with_part(TEXT)


def replace_request(
    table: TableName,
    load: str = "L1",
    *,
    schema: TableSchema = BY_NAME,
    partition_by: PartitionBy | None = NAME,
    lineage: LineageColumns | None = None,
) -> StageRequest:
    """A request to replace partitions of `table`."""
    return stage_request(table, load, strategy=REPLACE, schema=schema, partition_by=partition_by, lineage=lineage)


def parts(*rows: tuple[int, str], name: str = "n") -> pa.RecordBatch:
    """One batch of rows `(id, part)`."""
    return batch_of(BY_NAME, [{"id": i, "part": part, "name": name} for i, part in rows])


class PartitionReplaceConformance:
    """Rules of a partition replacement; skipped for a sink that does not declare one."""

    def test_partitions_of_the_load_are_replaced_and_others_stay(self, sink: OpenSink) -> None:
        require(sink, REPLACE)
        table = fresh_table()
        sink.load(replace_request(table), parts((1, "a"), (2, "b"), (3, "b"), (4, "c"), (5, "d")))
        handle = sink.staged.stage(replace_request(table, "L2"), iter([parts((6, "b"), (7, "c")), parts((8, "e"))]))
        assert sink.ids(table) == [1, 2, 3, 4, 5]
        result = sink.staged.finalize(handle)
        assert sink.ids(table) == [1, 5, 6, 7, 8]
        assert (result.inserted_rows, result.updated_rows, result.total_rows) == (3, 0, 5)
        sink.staged.cleanup(handle.ref)
        assert sink.ports.target.leftovers(table, None) == ()

    def test_one_partition_is_replaced_too(self, sink: OpenSink) -> None:
        require(sink, REPLACE)
        table = fresh_table()
        sink.load(replace_request(table), parts((1, "a"), (2, "b")))
        handle = sink.staged.stage(replace_request(table, "L2"), iter([parts((3, "b"), (4, "b"))]))
        result = sink.staged.finalize(handle)
        sink.staged.cleanup(handle.ref)
        assert sink.ids(table) == [1, 3, 4] and result.total_rows == 3

    def test_a_replacement_may_be_repeated_by_another_load(self, sink: OpenSink) -> None:
        require(sink, REPLACE)
        table = fresh_table()
        for load in ("L1", "L2", "L3"):
            sink.load(replace_request(table, load), parts((1, "a"), (2, "b")))
            sink.load(replace_request(table, f"{load}-one"), parts((1, "a")))
        assert sink.ids(table) == [1, 2]

    @pytest.mark.parametrize("case", CASES)
    def test_a_partition_is_what_its_granularity_says(self, sink: OpenSink, case: str) -> None:
        require(sink, REPLACE)
        part, granularity, first, same, other = CASES[case]
        schema, by = schema_with_part(part), PartitionBy(column="part", granularity=granularity)
        table = fresh_table()
        for load, rows in (("L1", [(1, first), (2, same), (3, other)]), ("L2", [(4, same)])):
            request = replace_request(table, load, schema=schema, partition_by=by)
            sink.load(request, batch_of(schema, [{"id": i, "part": value} for i, value in rows]))
        assert sink.ids(table) == [3, 4]

    def test_replaced_rows_tell_of_their_load(self, sink: OpenSink) -> None:
        require(sink, REPLACE)
        table = fresh_table()
        for load, rows in (("L1", ((1, "a"), (2, "b"), (3, "c"))), ("L2", ((4, "b"), (5, "c")))):
            lineage = LineageColumns(constants={LOAD_ID: load})
            sink.load(replace_request(table, load, lineage=lineage), parts(*rows))
        assert {row["id"]: row[LOAD_ID] for row in sink.rows(table)} == {1: "L1", 4: "L2", 5: "L2"}
        assert "L2" not in sink.definition(table)

    @pytest.mark.parametrize(
        "by",
        [
            None,
            PartitionBy(column="nothing"),
            PartitionBy(column="name", granularity=PartitionGranularity.MONTH),
        ],
    )
    def test_a_key_that_forms_no_partitions_is_refused(self, sink: OpenSink, by: PartitionBy | None) -> None:
        require(sink, REPLACE)
        request = replace_request(fresh_table(), partition_by=by)
        for step in (sink.ports.target.preflight, lambda r: sink.staged.stage(r, iter([]))):
            with pytest.raises(ConnectorError) as raised:
                step(request)
            assert raised.value.code == "physical_design_mismatch"

    def test_preflight_of_a_replacement_changes_nothing(self, sink: OpenSink) -> None:
        require(sink, REPLACE)
        table = fresh_table()
        sink.ports.target.preflight(replace_request(table))
        assert sink.ports.target.describe_target(table) is None
        sink.load(replace_request(table), parts((1, "a")))
        sink.ports.target.preflight(replace_request(table, "L2"))
        assert sink.ids(table) == [1]
        assert sink.ports.target.leftovers(table, None) == ()
