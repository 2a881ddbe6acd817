"""Tests of added columns that every staged sink must pass: the target gets them with the rows or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import LOAD_ID
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import Column, TableSchema
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.sink import LineageColumns, StagedHandle, StageRequest

from .builders import ORDERS, TEXT, batch_of, orders, with_column
from .open_sink import MERGE, REPLACE, OpenSink, fresh_table, strategy_request

NOTE: Final = Column(name="note", type=TEXT)
KEEPING: Final = (StrategyMode.INCREMENTAL_APPEND, MERGE, REPLACE)
"""The strategies that keep rows of the target; a full refresh replaces its columns."""


def widening_request(sink: OpenSink, table: TableName, strategy: StrategyMode, load: str) -> StageRequest:
    """A load of ORDERS with `note` into a target that lacks this column."""
    added = TableSchema(columns=(NOTE,))
    return replace(strategy_request(sink, table, strategy, load), schema=with_column(ORDERS, NOTE), added=added)


def _by_id(sink: OpenSink, table: TableName) -> list[dict[str, object]]:
    return sorted(sink.rows(table), key=lambda row: str(row["id"]))


class ColumnAdditionConformance:
    """Rules of columns that a load adds to the target."""

    @pytest.mark.parametrize("strategy", KEEPING)
    @pytest.mark.parametrize("ids", [(2,), (2, 3)], ids=["one row", "several rows"])
    def test_an_added_column_comes_with_the_rows_and_is_null_in_the_others(
        self, sink: OpenSink, strategy: StrategyMode, ids: tuple[int, ...]
    ) -> None:
        table = self._narrow(sink, strategy)
        request = widening_request(sink, table, strategy, "L2")
        sink.load(request, batch_of(request.schema, [{"id": number, "note": "x"} for number in ids]))
        assert [row["note"] for row in sink.rows(table) if row["id"] == 1] == [None]
        assert sorted(int(str(row["id"])) for row in sink.rows(table) if row["note"] == "x") == list(ids)
        found = sink.ports.target.describe_target(table)
        assert found is not None and found.names == (*ORDERS.names, "note") and found.columns[-1].nullable

    @pytest.mark.parametrize("strategy", KEEPING)
    def test_a_load_that_is_not_published_adds_no_column(self, sink: OpenSink, strategy: StrategyMode) -> None:
        """Up to the commit boundary the definition of the target stays what it was, to the letter."""
        table = self._narrow(sink, strategy)
        before, columns = sink.definition(table), sink.ports.target.describe_target(table)
        rows = sink.rows(table)
        request = widening_request(sink, table, strategy, "L2")
        sink.ports.target.preflight(request)
        handle = self._stage(sink, request)
        sink.staged.project_lineage(handle)
        assert (sink.ports.target.describe_target(table), sink.rows(table)) == (columns, rows)
        sink.staged.cleanup(handle.ref)
        assert (sink.definition(table), sink.rows(table)) == (before, rows)

    @pytest.mark.parametrize("strategy", KEEPING)
    def test_a_refused_publication_adds_no_column(self, sink: OpenSink, strategy: StrategyMode) -> None:
        table = self._narrow(sink, strategy)
        before, rows = sink.definition(table), sink.rows(table)
        handle = self._stage(sink, widening_request(sink, table, strategy, "L2"))
        with pytest.raises(ConnectorError) as raised:
            sink.staged.finalize(replace(handle, staged_rows=handle.staged_rows + 1))
        assert raised.value.code == "finaliser_refused"
        sink.staged.cleanup(handle.ref)
        assert (sink.definition(table), sink.rows(table)) == (before, rows)

    @pytest.mark.parametrize("strategy", KEEPING)
    def test_a_publication_asked_for_again_adds_the_columns_once(self, sink: OpenSink, strategy: StrategyMode) -> None:
        table = self._narrow(sink, strategy)
        handle = self._stage(sink, widening_request(sink, table, strategy, "L2"))
        first = sink.staged.finalize(handle)
        rows = _by_id(sink, table)
        assert sink.staged.finalize(handle).total_rows == first.total_rows
        assert _by_id(sink, table) == rows
        sink.staged.cleanup(handle.ref)

    @pytest.mark.parametrize("strategy", KEEPING)
    def test_a_column_that_came_to_the_target_meanwhile_is_filled(self, sink: OpenSink, strategy: StrategyMode) -> None:
        """Two loads of one source that gained a column: the second finds it in the target when it publishes."""
        table = self._narrow(sink, strategy)
        second = self._stage(sink, widening_request(sink, table, strategy, "L3"), 3)
        first = self._stage(sink, widening_request(sink, table, strategy, "L2"), 2)
        for handle in (first, second):
            sink.staged.finalize(handle)
            sink.staged.cleanup(handle.ref)
        assert sorted((row["id"], row["note"]) for row in sink.rows(table)) == [(1, None), (2, "x"), (3, "x")]

    def test_added_technical_columns_hold_the_values_of_the_load(self, sink: OpenSink) -> None:
        table = self._narrow(sink, StrategyMode.INCREMENTAL_APPEND)
        request = replace(
            strategy_request(sink, table, StrategyMode.INCREMENTAL_APPEND, "L2"),
            lineage=LineageColumns(constants={LOAD_ID: "L2"}),
            added=TableSchema(columns=(Column(name=LOAD_ID, type=TEXT),)),
        )
        sink.load(request, orders(2))
        assert sorted((row["id"], row[LOAD_ID]) for row in sink.rows(table)) == [(1, None), (2, "L2")]

    def test_an_added_column_that_is_not_nullable_is_refused(self, sink: OpenSink) -> None:
        table = self._narrow(sink, StrategyMode.INCREMENTAL_APPEND)
        request = widening_request(sink, table, StrategyMode.INCREMENTAL_APPEND, "L2")
        strict = replace(request, added=TableSchema(columns=(replace(NOTE, nullable=False),)))
        with pytest.raises(ConnectorError) as raised:
            sink.ports.target.preflight(strict)
        assert raised.value.code == "schema_evolution_refused"

    def _narrow(self, sink: OpenSink, strategy: StrategyMode) -> TableName:
        """A target with one row and without `note`."""
        table = fresh_table()
        sink.load(strategy_request(sink, table, strategy), orders(1))
        return table

    def _stage(self, sink: OpenSink, request: StageRequest, number: int = 2) -> StagedHandle:
        return sink.staged.stage(request, iter([batch_of(request.schema, [{"id": number, "note": "x"}])]))
