"""Tests that every legacy sink must pass: subclass LegacySinkConformance and provide a `sink` fixture.

Each test uses tables of its own, so one open session serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import LOAD_ID, LOADED_AT, ROW_ID
from dpone_core.model.load_config import PhysicalDesign, TableName
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import LoadPath, Side, StrategyMode
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.sink import LegacyLoadResult, LineageColumns, StageRequest

from .builders import INT64, ORDERS, TEXT, batch_of, orders, stage_request, with_column
from .reference import row_id_of
from .sink_conformance import ODD_NAMES, ODD_TABLES, OpenSink, fresh_table

APPEND: Final = StrategyMode.INCREMENTAL_APPEND


class LegacySinkConformance:
    """Loading, re-reading, refusal and recognition; every declared finaliser is exercised.

    `file_format` is what requests ask for; a sink without files ignores it.
    """

    file_format: str | None = None

    def test_the_descriptor_declares_the_path_the_ports_offer(self, sink: OpenSink) -> None:
        assert sink.descriptor.sink is not None
        assert sink.descriptor.sink.load_path is LoadPath.LEGACY
        assert sink.ports.staged is None and sink.ports.legacy is not None

    def test_an_absent_target_is_created(self, sink: OpenSink) -> None:
        for strategy in (StrategyMode.FULL_REFRESH, APPEND):
            table = fresh_table()
            result = self._load(sink, stage_request(table, strategy=strategy), orders(1, 2), orders(3))
            assert sink.ids(table) == [1, 2, 3]
            assert result.written_rows == 3

    def test_full_refresh_replaces(self, sink: OpenSink) -> None:
        table = fresh_table()
        self._load(sink, stage_request(table), orders(1, 2))
        result = self._load(sink, stage_request(table, "L2"), orders(3))
        assert sink.ids(table) == [3]
        assert (result.written_rows, result.total_rows) == (1, 1)

    def test_append_adds_and_counts_its_own_rows(self, sink: OpenSink) -> None:
        table = fresh_table()
        self._load(sink, stage_request(table), orders(1, 2))
        result = self._load(sink, stage_request(table, "L2", strategy=APPEND), orders(2, 3, 4))
        assert sink.ids(table) == [1, 2, 2, 3, 4]
        assert result.written_rows == 3
        assert result.total_rows in (None, 5)

    def test_every_declared_finaliser_loads(self, sink: OpenSink) -> None:
        assert sink.descriptor.sink is not None and sink.descriptor.sink.finalisers
        for finaliser in sink.descriptor.sink.finalisers:
            request = stage_request(fresh_table(), strategy=finaliser.strategy)
            assert self._load(sink, request, orders(1)).written_rows == 1

    def test_loading_again_under_the_same_identity_repeats_nothing(self, sink: OpenSink) -> None:
        table = fresh_table()
        self._load(sink, stage_request(table), orders(1))
        for rows in (orders(2, 3), orders(2)):
            self._load(sink, stage_request(table, "L2", strategy=APPEND), rows)
        assert sink.ids(table) == [1, 2]

    def test_written_rows_are_the_rows_sent(self, sink: OpenSink) -> None:
        request = stage_request(fresh_table(), strategy=APPEND)
        assert self._load(sink, request, *[orders(*range(70_000))] * 2).written_rows == 140_000
        assert len(sink.rows(request.target)) == 140_000

    def test_zero_rows_are_a_load(self, sink: OpenSink) -> None:
        for strategy in (StrategyMode.FULL_REFRESH, APPEND):
            table = fresh_table()
            assert self._load(sink, stage_request(table, strategy=strategy)).written_rows == 0
            assert sink.rows(table) == []
            assert sink.ports.target.describe_target(table) is not None
            self._load(sink, stage_request(table, "L2"), orders(1))
            self._load(sink, stage_request(table, "L3", strategy=strategy))
            assert sink.ids(table) == ([1] if strategy is APPEND else [])

    def test_only_a_load_that_is_visible_has_rows(self, sink: OpenSink) -> None:
        table = fresh_table()
        first, second = stage_request(table), stage_request(table, "L2", strategy=APPEND)
        assert not sink.legacy.has_rows(self._with_file_format(first).ref)
        self._load(sink, first, orders(1))
        assert sink.legacy.has_rows(self._with_file_format(first).ref)
        assert not sink.legacy.has_rows(self._with_file_format(second).ref)

    def test_read_back_gives_this_load_s_payload_and_no_other(self, sink: OpenSink) -> None:
        table = fresh_table()
        lineage = LineageColumns(constants={LOAD_ID: "L2"})
        self._load(sink, stage_request(table, lineage=replace(lineage, constants={LOAD_ID: "L1"})), orders(1))
        request = self._with_file_format(stage_request(table, "L2", strategy=APPEND, lineage=lineage))
        self._load(sink, request, orders(2, 3))
        batches = list(sink.legacy.read_back(request))
        assert sorted(i for batch in batches for i in batch.column("id").to_pylist()) == [2, 3]
        expected = sink.legacy.arrow_schema(request.schema)
        assert all(batch.schema.names == expected.names and batch.schema.types == expected.types for batch in batches)

    def test_lineage_is_in_the_rows(self, sink: OpenSink) -> None:
        table = fresh_table()
        constants = {LOAD_ID: "01KB6Q4X7D8M1T9N3VZ5C2R0AE", LOADED_AT: "2026-01-02T03:04:05.000006+00:00"}
        self._load(sink, stage_request(table, lineage=LineageColumns(constants=constants)), orders(1, 2))
        assert {row[LOAD_ID] for row in sink.rows(table)} == {constants[LOAD_ID]}
        (instant,) = {row[LOADED_AT] for row in sink.rows(table)}
        assert isinstance(instant, datetime)
        assert instant.replace(tzinfo=UTC) == datetime.fromisoformat(constants[LOADED_AT])

    def test_the_row_id_equals_the_reference(self, sink: OpenSink) -> None:
        texts = ["plain", "q\"uo'te", "back\\slash", "tab\tnew\nline\r", "\x01\x1f\x7f", "é😀\u2028/", "", "\\u0001"]
        rows = [{"id": i, "name": text} for i, text in enumerate(texts)]
        schema = with_column(ORDERS, Column(name="name", type=TEXT, nullable=False))
        lineage = LineageColumns(
            row_id_columns=("name", "id"), source_type="sqlite", source_schema='ma"in', source_table="o'rders\\"
        )
        table = fresh_table()
        self._load(sink, stage_request(table, schema=schema, lineage=lineage), batch_of(schema, rows))
        found = {row["id"]: row[ROW_ID] for row in sink.rows(table)}
        assert found == {row["id"]: row_id_of(lineage, row) for row in rows}

    def test_odd_column_names_and_texts_survive(self, sink: OpenSink) -> None:
        columns = tuple(Column(name=name, type=TEXT) for name in ODD_NAMES)
        schema = TableSchema(columns=(Column(name="id", type=INT64, nullable=False), *columns))
        row: dict[str, object] = {"id": 1} | {name: f"a,\"{name}\"\n'c'\r\t\\N" for name in ODD_NAMES}
        table = fresh_table()
        self._load(sink, stage_request(table, schema=schema), batch_of(schema, [row]))
        assert sink.rows(table) == [row]

    @pytest.mark.parametrize("name", ODD_TABLES)
    def test_odd_table_names_survive(self, sink: OpenSink, name: str) -> None:
        table = fresh_table(name)
        self._load(sink, stage_request(table, "L1"), orders(1, 2))
        self._load(sink, stage_request(table, "L2"), orders(3))
        assert sink.ids(table) == [3]

    def test_null_and_empty_text_stay_apart(self, sink: OpenSink) -> None:
        rows = [{"id": i, "name": name} for i, name in enumerate([None, "", "\\N", "NULL", "null", " "])]
        table = fresh_table()
        self._load(sink, stage_request(table), batch_of(ORDERS, rows))
        assert {row["id"]: row["name"] for row in sink.rows(table)} == {row["id"]: row["name"] for row in rows}

    def test_an_empty_projection_is_refused(self, sink: OpenSink) -> None:
        self._require_refusal(sink, stage_request(fresh_table(), schema=TableSchema(columns=())), "empty_projection")

    def test_framework_columns_of_a_source_are_refused(self, sink: OpenSink) -> None:
        schema = with_column(ORDERS, Column(name="__DPONE__load_id", type=TEXT))
        self._require_refusal(sink, stage_request(fresh_table(), schema=schema), "framework_column_in_source")

    def test_null_in_a_column_without_nulls_is_refused_by_name(self, sink: OpenSink) -> None:
        batch = batch_of(ORDERS, [{"id": None}])
        error = self._require_refusal(sink, stage_request(fresh_table()), None, orders(1), batch)
        assert "'id'" in str(error)

    def test_a_narrower_target_refuses_a_value_by_name(self, sink: OpenSink) -> None:
        table = fresh_table()
        narrow = ColumnType(kind=ColumnKind.DECIMAL, precision=9, scale=2)
        self._load(sink, stage_request(table, schema=with_column(ORDERS, Column(name="amount", type=narrow))))
        batch = batch_of(ORDERS, [{"id": 1, "amount": Decimal("1.2390")}])
        error = self._require_refusal(sink, stage_request(table, "L2", strategy=APPEND), None, batch)
        assert "'amount'" in str(error) and "1.239" not in str(error)

    def test_a_failing_reader_leaves_the_target_as_it_was(self, sink: OpenSink) -> None:
        table = fresh_table()
        self._load(sink, stage_request(table), orders(1))
        failure = ConnectorError("the source stopped", code="source_unreachable")

        def failing() -> Iterator[pa.RecordBatch]:
            yield orders(2)
            raise failure

        for strategy in (StrategyMode.FULL_REFRESH, APPEND):
            request = self._with_file_format(stage_request(table, "L2", strategy=strategy))
            with pytest.raises(ConnectorError) as raised:
                sink.legacy.load(request, failing())
            assert raised.value is failure
            assert sink.ids(table) == [1]
            assert not sink.legacy.has_rows(request.ref)
            assert sink.ports.target.leftovers(table, None) == ()

    def test_discarding_spares_the_target_and_can_be_repeated(self, sink: OpenSink) -> None:
        request = stage_request(fresh_table())
        self._load(sink, request, orders(1))
        sink.legacy.discard(self._with_file_format(request).ref)
        sink.legacy.discard(self._with_file_format(request).ref)
        assert sink.ids(request.target) == [1]

    def test_the_target_is_described_as_it_was_written(self, sink: OpenSink) -> None:
        table = fresh_table()
        assert sink.ports.target.describe_target(table) is None
        self._load(sink, stage_request(table), orders(1))
        found = sink.ports.target.describe_target(table)
        assert found is not None and found.names == ORDERS.names
        for ours, theirs in zip(ORDERS.columns, found.columns, strict=True):
            assert ours.type.same_values(theirs.type) and ours.nullable == theirs.nullable

    def test_added_columns_are_null_in_old_rows(self, sink: OpenSink) -> None:
        table = fresh_table()
        self._load(sink, stage_request(table), orders(1))
        before = sink.ports.target.describe_target(table)
        note = Column(name="note", type=TEXT)
        wider = stage_request(table, "L2", strategy=APPEND, schema=with_column(ORDERS, note))
        request = replace(wider, added=TableSchema(columns=(note,)))
        sink.ports.target.preflight(self._with_file_format(request))
        assert sink.ports.target.describe_target(table) == before
        self._load(sink, request, batch_of(request.schema, [{"id": 2, "note": "x"}]))
        found = sink.ports.target.describe_target(table)
        assert found is not None and found.names == (*ORDERS.names, "note")
        assert {row["id"]: row["note"] for row in sink.rows(table)} == {1: None, 2: "x"}

    def test_preflight_changes_nothing(self, sink: OpenSink) -> None:
        table = fresh_table()
        sink.ports.target.preflight(self._with_file_format(stage_request(table)))
        assert sink.ports.target.describe_target(table) is None

    def _with_file_format(self, request: StageRequest) -> StageRequest:
        return replace(request, physical_design=PhysicalDesign(file_format=self.file_format))

    def _load(self, sink: OpenSink, request: StageRequest, *batches: pa.RecordBatch) -> LegacyLoadResult:
        return sink.legacy.load(self._with_file_format(request), iter(batches))

    def _require_refusal(
        self, sink: OpenSink, request: StageRequest, code: str | None, *batches: pa.RecordBatch
    ) -> ConnectorError:
        """`code` None = any code; nothing of the load is visible and the target's schema is what it was."""
        before = sink.ports.target.describe_target(request.target)
        with pytest.raises(ConnectorError) as raised:
            self._load(sink, request, *batches)
        assert code in (None, raised.value.code)
        assert sink.ports.target.describe_target(request.target) == before
        assert not sink.legacy.has_rows(self._with_file_format(request).ref)
        return raised.value


class LegacyProbeConformance:
    """The sink's metric probe over the whole target of a legacy sink."""

    file_format: str | None = None

    def test_counts_nulls_and_distincts_are_exact_over_all_loads(self, sink: OpenSink) -> None:
        assert sink.ports.metrics is not None
        table = fresh_table()
        design = PhysicalDesign(file_format=self.file_format)
        for load, ids in (("L1", (1, 2)), ("L2", (2,))):
            rows = [{"id": i, "name": None if i == 1 else "a"} for i in ids]
            request = replace(stage_request(table, load, strategy=APPEND), physical_design=design)
            sink.legacy.load(request, iter([batch_of(ORDERS, rows)]))
        asked = MetricRequest(
            side=Side.TARGET, table=table, null_counts=("id", "name", "amount"), distinct_counts=("id", "amount")
        )
        assert sink.ports.metrics.collect(asked) == {
            "row_count": 3,
            "null_counts": {"id": 0, "name": 1, "amount": 3},
            "distinct_counts": {"id": 2, "amount": 0},
        }

    def test_an_absent_target_is_an_error(self, sink: OpenSink) -> None:
        assert sink.ports.metrics is not None
        with pytest.raises(ConnectorError):
            sink.ports.metrics.collect(MetricRequest(side=Side.TARGET, table=TableName(schema="s", name="absent")))
