"""Tests of incremental_merge that every sink must pass: an upsert by key, exact, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

import pyarrow as pa
import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import LOAD_ID, ROW_ID
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import LineageColumns, StageRequest

from .builders import INT64, ORDERS, TEXT, batch_of, orders, stage_request, with_column
from .open_sink import MERGE, OpenSink, fresh_table, require
from .reference import row_id_of

APPEND: Final = StrategyMode.INCREMENTAL_APPEND
KEYS: Final[Mapping[str, tuple[ColumnType, object, object]]] = {
    "int64": (INT64, -(2**63), 2**63 - 1),
    "text": (TEXT, "a", "a "),
    "case": (TEXT, "key", "KEY"),
    "quotes": (TEXT, 'it\'s \\ "1"', "имя\n"),
    "decimal": (ColumnType(kind=ColumnKind.DECIMAL, precision=18, scale=4), Decimal("0.0001"), Decimal("0.0002")),
    "date": (ColumnType(kind=ColumnKind.DATE), date(1999, 12, 31), date(2000, 1, 1)),
    "instant": (
        ColumnType(kind=ColumnKind.TIMESTAMP_TZ, fraction=6),
        datetime(2026, 3, 29, 0, 30, 0, 1, UTC),
        datetime(2026, 3, 29, 0, 30, 0, 2, UTC),
    ),
    "uuid": (ColumnType(kind=ColumnKind.UUID), UUID(int=1).bytes, UUID(int=2**127).bytes),
    "boolean": (ColumnType(kind=ColumnKind.BOOLEAN), False, True),
}
"""A type and two keys that are close to each other and must not be taken for one (MSSQL-15)."""


def merge_request(
    table: TableName,
    load: str = "L1",
    *,
    schema: TableSchema = ORDERS,
    unique_key: tuple[str, ...] = ("id",),
    lineage: LineageColumns | None = None,
    target_only: tuple[str, ...] = (),
) -> StageRequest:
    """A request to merge into `table` by `unique_key`."""
    return stage_request(
        table, load, strategy=MERGE, schema=schema, unique_key=unique_key, lineage=lineage, target_only=target_only
    )


def _rows(sink: OpenSink, table: TableName, *names: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row[name] for name in names) for row in sink.rows(table)), key=str)


class MergeConformance:
    """Rules of a merge; skipped for a sink that does not declare one."""

    def test_a_merge_updates_and_inserts_and_counts_both(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        table = fresh_table()
        sink.load(merge_request(table), orders(1, 2, 3, name="old"))
        handle = sink.staged.stage(merge_request(table, "L2"), iter([orders(2, 3, name="new"), orders(4, name="new")]))
        assert _rows(sink, table, "id", "name") == [(1, "old"), (2, "old"), (3, "old")]
        result = sink.staged.finalize(handle)
        assert _rows(sink, table, "id", "name") == [(1, "old"), (2, "new"), (3, "new"), (4, "new")]
        assert (result.inserted_rows, result.updated_rows, result.total_rows) == (1, 2, 4)
        sink.staged.cleanup(handle.ref)
        assert sink.ports.target.leftovers(table, None) == ()

    def test_rows_that_are_merged_again_are_no_duplicates(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        table = fresh_table()
        for load in ("L1", "L2", "L3"):
            sink.load(merge_request(table, load), orders(1, 2))
        assert sink.ids(table) == [1, 2]

    def test_a_full_refresh_may_go_before_a_merge(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        table = fresh_table()
        sink.load(stage_request(table), orders(1, name="old"))
        sink.load(merge_request(table, "L2"), orders(1, 2, name="new"))
        sink.load(stage_request(table, "L3", strategy=APPEND), orders(3, name="new"))
        assert _rows(sink, table, "id", "name") == [(1, "new"), (2, "new"), (3, "new")]

    def test_a_key_of_several_columns_is_compared_as_a_whole(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        columns = (Column(name="a", type=INT64, nullable=False), Column(name="b", type=TEXT, nullable=False))
        schema = TableSchema(columns=(*columns, Column(name="v", type=TEXT)))
        table = fresh_table()
        for load, rows in (("L1", [(1, "x"), (1, "y"), (2, "x")]), ("L2", [(1, "y"), (2, "y")])):
            request = merge_request(table, load, schema=schema, unique_key=("a", "b"))
            sink.load(request, batch_of(schema, [{"a": a, "b": b, "v": load} for a, b in rows]))
        assert _rows(sink, table, "a", "b", "v") == [(1, "x", "L1"), (1, "y", "L2"), (2, "x", "L1"), (2, "y", "L2")]

    @pytest.mark.parametrize("kind", KEYS)
    def test_keys_are_compared_exactly(self, sink: OpenSink, kind: str) -> None:
        require(sink, MERGE)
        key_type, one, other = KEYS[kind]
        schema = TableSchema(columns=(Column(name="k", type=key_type, nullable=False), Column(name="v", type=TEXT)))
        table = fresh_table()
        for load, key in (("L1", one), ("L2", other), ("L3", one)):
            request = merge_request(table, load, schema=schema, unique_key=("k",))
            sink.load(request, batch_of(schema, [{"k": key, "v": load}]))
        assert [value for (value,) in _rows(sink, table, "v")] == ["L2", "L3"]

    def test_a_table_of_keys_alone_can_be_merged(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        schema = TableSchema(columns=(Column(name="id", type=INT64, nullable=False),))
        table = fresh_table()
        for load, ids in (("L1", (1, 2)), ("L2", (2, 3))):
            sink.load(merge_request(table, load, schema=schema), batch_of(schema, [{"id": i} for i in ids]))
        assert sink.ids(table) == [1, 2, 3]

    def test_a_repeated_key_is_refused_before_the_commit(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        batches = (orders(4711, name="a"), orders(5, 4711, name="b"))
        self._require_merge_refusal(sink, "merge_key_duplicate", *batches)

    def test_a_null_key_is_refused_before_the_commit(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        self._require_merge_refusal(sink, "merge_key_null", batch_of(ORDERS, [{"id": 4711}, {"id": None}]))

    def test_a_target_that_repeats_a_staged_key_is_refused_and_stays(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        table = fresh_table()
        sink.load(stage_request(table), orders(1, 2, 2, 3, 3))
        handle = sink.staged.stage(merge_request(table, "L2"), iter([orders(2, 4)]))
        with pytest.raises(ConnectorError) as raised:
            sink.staged.finalize(handle)
        assert raised.value.code == "merge_key_duplicate" and "'id'" in str(raised.value)
        sink.staged.cleanup(handle.ref)
        assert sink.ids(table) == [1, 2, 2, 3, 3]
        assert sink.ports.target.leftovers(table, None) == ()
        sink.load(merge_request(table, "L3"), orders(1, 4))
        assert sink.ids(table) == [1, 2, 2, 3, 3, 4]

    @pytest.mark.parametrize("unique_key", [(), ("nothing",), ("ratio",)])
    def test_a_key_that_identifies_no_row_is_refused(self, sink: OpenSink, unique_key: tuple[str, ...]) -> None:
        require(sink, MERGE)
        schema = with_column(ORDERS, Column(name="ratio", type=ColumnType(kind=ColumnKind.FLOAT64), nullable=False))
        request = merge_request(fresh_table(), schema=schema, unique_key=unique_key)
        for step in (sink.ports.target.preflight, lambda r: sink.staged.stage(r, iter([]))):
            with pytest.raises(ConnectorError) as raised:
                step(request)
            assert raised.value.code == "merge_key_unsupported"

    def test_rows_of_the_target_without_a_key_stay(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        loose = TableSchema(columns=(Column(name="id", type=INT64), *ORDERS.columns[1:]))
        table = fresh_table()
        sink.load(stage_request(table, schema=loose), batch_of(loose, [{"id": None, "name": "old"}, {"id": 1}]))
        sink.load(merge_request(table, "L2", schema=loose), batch_of(loose, [{"id": 1, "name": "new"}, {"id": 2}]))
        assert _rows(sink, table, "id", "name") == [(1, "new"), (2, None), (None, "old")]

    def test_a_column_of_the_target_alone_keeps_its_values(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        table = fresh_table()
        wide = with_column(ORDERS, Column(name="note", type=TEXT))
        rows = [{"id": i, "name": "old", "note": f"note {i}"} for i in (1, 2)]
        sink.load(merge_request(table, schema=wide), batch_of(wide, rows))
        request = merge_request(table, "L2", schema=wide, target_only=("note",))
        sink.load(request, batch_of(wide, [{"id": 2, "name": "new"}, {"id": 3, "name": "new"}]))
        found = _rows(sink, table, "id", "name", "note")
        assert found == [(1, "old", "note 1"), (2, "new", "note 2"), (3, "new", None)]

    def test_a_column_that_the_merge_adds_is_set_in_updated_rows(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        table = fresh_table()
        sink.load(merge_request(table), orders(1, 2))
        note = Column(name="note", type=TEXT)
        wide = replace(merge_request(table, "L2", schema=with_column(ORDERS, note)), added=TableSchema(columns=(note,)))
        sink.load(wide, batch_of(wide.schema, [{"id": 2, "note": "x"}]))
        assert _rows(sink, table, "id", "note") == [(1, None), (2, "x")]

    def test_a_merge_adds_one_column_and_keeps_the_values_of_another(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        table = fresh_table()
        kept, note = Column(name="kept", type=TEXT), Column(name="note", type=TEXT)
        held = with_column(ORDERS, kept)
        sink.load(merge_request(table, schema=held), batch_of(held, [{"id": i, "kept": f"k{i}"} for i in (1, 2)]))
        request = merge_request(table, "L2", schema=with_column(with_column(ORDERS, note), kept), target_only=("kept",))
        wide = replace(request, added=TableSchema(columns=(note,)))
        sink.load(wide, batch_of(wide.schema, [{"id": i, "note": "x"} for i in (2, 3)]))
        assert _rows(sink, table, "id", "kept", "note") == [(1, "k1", None), (2, "k2", "x"), (3, None, "x")]

    def test_updated_rows_tell_of_the_load_that_updated_them(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        table = fresh_table()
        for load, ids in (("L1", (1, 2)), ("L2", (2, 3))):
            lineage = LineageColumns(constants={LOAD_ID: load}, row_id_columns=("id",), source_type="sqlite")
            sink.load(merge_request(table, load, lineage=lineage), orders(*ids))
        assert _rows(sink, table, "id", LOAD_ID) == [(1, "L1"), (2, "L2"), (3, "L2")]
        rows = sink.rows(table)
        assert {row["id"]: row[ROW_ID] for row in rows} == {i: row_id_of(lineage, {"id": i}) for i in (1, 2, 3)}

    def test_lineage_that_is_no_longer_written_is_not_left_in_updated_rows(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        table = fresh_table()
        sink.load(merge_request(table), orders(1, 2))
        added = TableSchema(columns=(Column(name=LOAD_ID, type=TEXT),))
        lineaged = merge_request(table, "L2", lineage=LineageColumns(constants={LOAD_ID: "L2"}))
        sink.load(replace(lineaged, added=added), orders(1, 2))
        sink.load(merge_request(table, "L3"), orders(2))
        assert _rows(sink, table, "id", LOAD_ID) == [(1, "L2"), (2, None)]

    def test_a_narrower_target_is_merged_in_its_own_types(self, sink: OpenSink) -> None:
        require(sink, MERGE)
        table = fresh_table()
        wide = TableSchema(columns=(Column(name="id", type=INT64, nullable=False), Column(name="v", type=TEXT)))
        narrow = with_column(wide, Column(name="id", type=ColumnType(kind=ColumnKind.INT16), nullable=False))
        sink.load(merge_request(table, schema=wide), batch_of(wide, [{"id": 1, "v": "old"}]))
        sink.load(merge_request(table, "L2", schema=narrow), batch_of(narrow, [{"id": 1, "v": "new"}]))
        assert _rows(sink, table, "id", "v") == [(1, "new")]

    def _require_merge_refusal(self, sink: OpenSink, code: str, *batches: pa.RecordBatch) -> None:
        table = fresh_table()
        sink.load(merge_request(table), orders(1))
        with pytest.raises(ConnectorError) as raised:
            sink.staged.stage(merge_request(table, "L2"), iter(batches))
        assert raised.value.code == code
        assert "'id'" in str(raised.value) and "4711" not in str(raised.value)
        assert sink.ids(table) == [1]
        assert sink.ports.target.leftovers(table, None) == ()
