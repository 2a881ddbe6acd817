"""Tests that every staged sink must pass: subclass StagedSinkConformance in pytest and provide a `sink` fixture.

    class TestMySink(StagedSinkConformance):
        pass

    @pytest.fixture(scope="module")
    def sink() -> Iterator[OpenSink]: ...

Each test uses tables of its own, so one open session serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import LOAD_ID, LOADED_AT, ROW_ID
from dpone_core.model.table_schema import Column, ColumnKind, ColumnType, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import LineageColumns, StageRequest

from .added_columns_conformance import ColumnAdditionConformance
from .builders import INT64, ORDERS, TEXT, batch_of, orders, stage_request, with_column
from .merge_conformance import MergeConformance
from .open_sink import MERGE, STRATEGIES, OpenSink, fresh_table, strategy_request
from .reference import row_id_of
from .replace_conformance import PartitionReplaceConformance

__all__ = ("OpenSink", "StagedSinkConformance", "fresh_table")

APPEND: Final = StrategyMode.INCREMENTAL_APPEND
ODD_NAMES: Final = ("a.b", "select", "x y", "back`tick", 'quo"te', "имя", "a'b", "back\\slash", "emoji😀", "Format")
ODD_TABLES: Final = ("select", "a.b x`y\"z 'имя' \\ 😀 Format")


class StagedSinkConformance(MergeConformance, PartitionReplaceConformance, ColumnAdditionConformance):
    """Staging, publication, cleanup and refusal; every declared finaliser is exercised."""

    def test_staging_leaves_the_target_untouched(self, sink: OpenSink) -> None:
        table = fresh_table()
        sink.load(stage_request(table), orders(1, 2))
        handle = sink.staged.stage(stage_request(table, "L2"), iter([orders(3)]))
        assert sink.ids(table) == [1, 2]
        sink.staged.cleanup(handle.ref)

    def test_staging_creates_no_target(self, sink: OpenSink) -> None:
        table = fresh_table()
        handle = sink.staged.stage(stage_request(table), iter([orders(3)]))
        assert sink.ports.target.describe_target(table) is None
        sink.staged.cleanup(handle.ref)

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_an_absent_target_is_created(self, sink: OpenSink, strategy: StrategyMode) -> None:
        table = fresh_table()
        sink.load(strategy_request(sink, table, strategy), orders(1, 2), orders(3))
        assert sink.ids(table) == [1, 2, 3]

    def test_full_refresh_replaces(self, sink: OpenSink) -> None:
        table = fresh_table()
        sink.load(stage_request(table), orders(1, 2))
        sink.load(stage_request(table, "L2"), orders(3))
        assert sink.ids(table) == [3]

    def test_append_adds(self, sink: OpenSink) -> None:
        table = fresh_table()
        sink.load(stage_request(table), orders(1, 2))
        sink.load(stage_request(table, "L2", strategy=APPEND), orders(2, 3))
        assert sink.ids(table) == [1, 2, 2, 3]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_publishing_twice_publishes_once(self, sink: OpenSink, strategy: StrategyMode) -> None:
        table = fresh_table()
        sink.load(strategy_request(sink, table, StrategyMode.FULL_REFRESH, like=strategy), orders(1, 2))
        handle = sink.staged.stage(strategy_request(sink, table, strategy, "L2"), iter([orders(2, 3)]))
        first = sink.staged.finalize(handle)
        after_first = sink.ids(table)
        second = sink.staged.finalize(handle)
        assert sink.ids(table) == after_first
        assert first.total_rows == second.total_rows == len(after_first)
        assert (first.inserted_rows, first.updated_rows) == (second.inserted_rows, second.updated_rows)
        assert first.inserted_rows + first.updated_rows == handle.staged_rows
        sink.staged.cleanup(handle.ref)

    def test_every_declared_finaliser_publishes(self, sink: OpenSink) -> None:
        traits = sink.descriptor.sink
        assert traits is not None and traits.finalisers
        for finaliser in traits.finalisers:
            table = fresh_table()
            handle = sink.staged.stage(strategy_request(sink, table, finaliser.strategy), iter([orders(1)]))
            assert sink.staged.finalize(handle).inserted_rows == 1
            sink.staged.cleanup(handle.ref)

    def test_an_aborted_load_leaves_nothing(self, sink: OpenSink) -> None:
        table = fresh_table()
        sink.load(stage_request(table), orders(1))
        handle = sink.staged.stage(stage_request(table, "L2"), iter([orders(2)]))
        sink.staged.cleanup(handle.ref)
        assert sink.ids(table) == [1]
        assert sink.ports.target.leftovers(table, None) == ()

    def test_cleanup_is_idempotent_and_spares_the_target(self, sink: OpenSink) -> None:
        table = fresh_table()
        handle = sink.load(stage_request(table), orders(1))
        sink.staged.cleanup(handle.ref)
        sink.staged.cleanup(handle.ref)
        assert sink.ids(table) == [1]
        assert sink.ports.target.leftovers(table, None) == ()

    def test_two_loads_of_one_target_do_not_share_staging(self, sink: OpenSink) -> None:
        table = fresh_table()
        first = sink.staged.stage(stage_request(table, "L1"), iter([orders(1)]))
        second = sink.staged.stage(stage_request(table, "L2"), iter([orders(2)]))
        assert first.table != second.table
        sink.staged.finalize(first)
        assert sink.ids(table) == [1]
        sink.staged.cleanup(first.ref)
        sink.staged.finalize(second)
        assert sink.ids(table) == [2]
        sink.staged.cleanup(second.ref)

    def test_staged_rows_are_the_rows_sent(self, sink: OpenSink) -> None:
        table = fresh_table()
        handle = sink.staged.stage(stage_request(table), iter([orders(1, 2), orders(3)]))
        assert handle.staged_rows == 3
        assert len(sink.rows(handle.table)) == 3
        sink.staged.cleanup(handle.ref)

    def test_equal_batches_stay_apart(self, sink: OpenSink) -> None:
        table = fresh_table()
        handle = sink.load(stage_request(table, strategy=APPEND), *[orders(*range(70_000))] * 2)
        assert handle.staged_rows == 140_000
        sink.load(stage_request(table, "L2", strategy=APPEND), orders(*range(70_000)))
        assert len(sink.rows(table)) == 210_000

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_zero_rows_are_a_load(self, sink: OpenSink, strategy: StrategyMode) -> None:
        """Only a full refresh without rows empties the target."""
        table = fresh_table()
        handle = sink.load(strategy_request(sink, table, strategy))
        assert handle.staged_rows == 0
        assert sink.rows(table) == []
        sink.load(strategy_request(sink, table, StrategyMode.FULL_REFRESH, "L2", like=strategy), orders(1))
        sink.load(strategy_request(sink, table, strategy, "L3"))
        assert sink.ids(table) == ([] if strategy is StrategyMode.FULL_REFRESH else [1])

    def test_lineage_is_in_the_rows_and_not_in_the_definition(self, sink: OpenSink) -> None:
        table = fresh_table()
        constants = {LOAD_ID: "01KB6Q4X7D8M1T9N3VZ5C2R0AE", LOADED_AT: "2026-01-02T03:04:05.000006+00:00"}
        lineage = LineageColumns(constants=constants)
        request = stage_request(table, "01KB6Q4X7D8M1T9N3VZ5C2R0AE", lineage=lineage)
        handle = sink.staged.stage(request, iter([orders(1, 2)]))
        projection = sink.staged.project_lineage(handle)
        assert (set(projection.columns), projection.rows) == (set(constants), 2)
        sink.staged.finalize(handle)
        sink.staged.cleanup(handle.ref)
        assert {row[LOAD_ID] for row in sink.rows(table)} == {constants[LOAD_ID]}
        (instant,) = {row[LOADED_AT] for row in sink.rows(table)}
        assert isinstance(instant, datetime)
        assert instant.replace(tzinfo=UTC) == datetime.fromisoformat(constants[LOADED_AT])
        assert constants[LOAD_ID] not in sink.definition(table)

    def test_appended_rows_carry_their_own_load(self, sink: OpenSink) -> None:
        table = fresh_table()
        for load in ("L1", "L2"):
            lineage = LineageColumns(constants={LOAD_ID: load})
            sink.load(stage_request(table, load, strategy=APPEND, lineage=lineage), orders(1))
        assert sorted(str(row[LOAD_ID]) for row in sink.rows(table)) == ["L1", "L2"]

    def test_the_row_id_equals_the_reference(self, sink: OpenSink) -> None:
        texts = ["plain", "q\"uo'te", "back\\slash", "tab\tnew\nline\r", "\x01\x1f\x7f", "é😀\u2028/", "", "\\u0001"]
        rows = [{"id": i, "name": text} for i, text in enumerate(texts)]
        schema = with_column(ORDERS, Column(name="name", type=TEXT, nullable=False))
        lineage = LineageColumns(
            row_id_columns=("name", "id"), source_type="sqlite", source_schema='ma"in', source_table="o'rders\\"
        )
        table = fresh_table()
        sink.load(stage_request(table, schema=schema, lineage=lineage), batch_of(schema, rows))
        found = {row["id"]: row[ROW_ID] for row in sink.rows(table)}
        assert found == {row["id"]: row_id_of(lineage, row) for row in rows}

    def test_an_empty_projection_is_refused(self, sink: OpenSink) -> None:
        self._require_refusal(sink, stage_request(fresh_table(), schema=TableSchema(columns=())), "empty_projection")

    def test_framework_columns_of_a_source_are_refused(self, sink: OpenSink) -> None:
        schema = with_column(ORDERS, Column(name="__DPONE__load_id", type=TEXT))
        self._require_refusal(sink, stage_request(fresh_table(), schema=schema), "framework_column_in_source")

    def test_null_in_a_column_without_nulls_is_refused_by_name(self, sink: OpenSink) -> None:
        batch = batch_of(ORDERS, [{"id": None}])
        error = self._require_refusal(sink, stage_request(fresh_table()), "staged_value_refused", batch)
        assert "'id'" in str(error)

    def test_a_narrower_target_refuses_a_value_by_name(self, sink: OpenSink) -> None:
        table = fresh_table()
        narrow = ColumnType(kind=ColumnKind.DECIMAL, precision=9, scale=2)
        sink.load(stage_request(table, schema=with_column(ORDERS, Column(name="amount", type=narrow))))
        batch = batch_of(ORDERS, [{"id": 1, "amount": Decimal("1.2390")}])
        error = self._require_refusal(sink, stage_request(table, "L2", strategy=APPEND), "staged_value_refused", batch)
        assert "'amount'" in str(error) and "1.239" not in str(error)

    def test_a_failing_reader_leaves_no_staging(self, sink: OpenSink) -> None:
        table = fresh_table()
        sink.load(stage_request(table), orders(1))
        failure = ConnectorError("the source stopped", code="source_unreachable")

        def failing() -> Iterator[pa.RecordBatch]:
            yield orders(2)
            raise failure

        with pytest.raises(ConnectorError) as raised:
            sink.staged.stage(stage_request(table, "L2"), failing())
        assert raised.value is failure
        assert sink.ids(table) == [1]
        assert sink.ports.target.leftovers(table, None) == ()

    def test_leftovers_are_those_of_this_target(self, sink: OpenSink) -> None:
        table, other = fresh_table(), fresh_table()
        handle = sink.staged.stage(stage_request(table, "dead"), iter([orders(1)]))
        alive = sink.staged.stage(stage_request(other, "alive"), iter([orders(1)]))
        assert [leftover.table for leftover in sink.ports.target.leftovers(table, None)] == [handle.table]
        sink.staged.cleanup(handle.ref)
        sink.staged.cleanup(alive.ref)

    def test_odd_column_names_survive(self, sink: OpenSink) -> None:
        columns = tuple(Column(name=name, type=TEXT) for name in ODD_NAMES)
        schema = TableSchema(columns=(Column(name="id", type=INT64, nullable=False), *columns))
        row: dict[str, object] = {"id": 1} | {name: f"a,\"{name}\"\n'c'" for name in ODD_NAMES}
        table = fresh_table("PriceFormatType")
        sink.load(stage_request(table, schema=schema), batch_of(schema, [row]))
        assert sink.rows(table) == [row]

    @pytest.mark.parametrize("name", ODD_TABLES)
    def test_odd_table_names_survive(self, sink: OpenSink, name: str) -> None:
        table = fresh_table(name)
        sink.load(stage_request(table, "L1"), orders(1, 2))
        sink.load(stage_request(table, "L2"), orders(3))
        sink.load(stage_request(table, "L3", strategy=APPEND), orders(4))
        assert sink.ids(table) == [3, 4]
        assert sink.ports.target.leftovers(table, None) == ()
        described = sink.ports.target.describe_target(table)
        assert described is not None and "id" in described.names

    def test_a_long_target_name_is_no_obstacle(self, sink: OpenSink) -> None:
        traits = sink.descriptor.sink
        assert traits is not None
        longest = min(traits.identifier_limit_bytes - len("_1234"), 195)
        table = fresh_table("n" * longest)
        for strategy in (StrategyMode.FULL_REFRESH, APPEND):
            sink.load(stage_request(table, str(strategy), strategy=strategy), orders(1))
        assert sink.ids(table) == [1, 1]
        if traits.finaliser_for(MERGE) is not None:
            merged = fresh_table("m" * longest)
            for load in ("L1", "L2"):
                sink.load(strategy_request(sink, merged, MERGE, load), orders(1))
            assert sink.ids(merged) == [1]

    def test_staging_stands_in_the_staging_schema(self, sink: OpenSink) -> None:
        table = fresh_table()
        handle = sink.staged.stage(stage_request(table, staging_schema="conformance_ops"), iter([orders(1)]))
        assert handle.table.schema == "conformance_ops"
        assert [left.table for left in sink.ports.target.leftovers(table, "conformance_ops")] == [handle.table]
        sink.staged.finalize(handle)
        sink.staged.cleanup(handle.ref)
        assert sink.ids(table) == [1]
        assert sink.ports.target.leftovers(table, "conformance_ops") == ()

    def test_the_target_is_described_as_it_was_staged(self, sink: OpenSink) -> None:
        table = fresh_table()
        assert sink.ports.target.describe_target(table) is None
        sink.load(stage_request(table), orders(1))
        found = sink.ports.target.describe_target(table)
        assert found is not None and found.names == ORDERS.names
        for ours, theirs in zip(ORDERS.columns, found.columns, strict=True):
            assert ours.type.same_values(theirs.type) and ours.nullable == theirs.nullable

    def test_preflight_changes_nothing(self, sink: OpenSink) -> None:
        table = fresh_table()
        sink.ports.target.preflight(stage_request(table, order_by=("id",)))
        assert sink.ports.target.describe_target(table) is None
        sink.load(stage_request(table, order_by=("id",)), orders(1))
        sink.ports.target.preflight(stage_request(table, "L2", order_by=("id",)))
        assert sink.ids(table) == [1]
        assert sink.ports.target.leftovers(table, None) == ()

    def _require_refusal(
        self, sink: OpenSink, request: StageRequest, code: str, *batches: pa.RecordBatch
    ) -> ConnectorError:
        before = sink.ports.target.describe_target(request.target)
        with pytest.raises(ConnectorError) as raised:
            sink.staged.stage(request, iter(batches))
        assert raised.value.code == code
        assert sink.ports.target.describe_target(request.target) == before
        assert sink.ports.target.leftovers(request.target, None) == ()
        return raised.value
