"""Tests of staging key ranges that every sink with a RangeStagingPort must pass; others are skipped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import LOAD_ID
from dpone_core.model.load_config import TableName
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.ports.ranges import RangeStagingPort
from dpone_core.ports.sink import LineageColumns, StagedHandle

from .builders import orders, stage_request
from .open_sink import OpenSink, fresh_table

REFRESH = StrategyMode.FULL_REFRESH
APPEND = StrategyMode.INCREMENTAL_APPEND
IDS = {"A": (1, 2), "B": (), "C": (3,)}
"""Ranges by the load id that names their staging."""


class RangeStagingConformance:
    """Laws of a RangeStagingPort."""

    @pytest.mark.parametrize("strategy", [REFRESH, APPEND])
    @pytest.mark.parametrize("existing", [False, True])
    def test_ranges_are_put_together_and_published_once(
        self, sink: OpenSink, strategy: StrategyMode, existing: bool
    ) -> None:
        ranges, table = _ranges(sink), fresh_table()
        if existing:
            sink.load(stage_request(table, "L0"), orders(9))
        whole = stage_request(table, "whole", strategy=strategy)
        ranges.prepare(whole)
        parts = _stage_ranges(sink, table, strategy)
        handle = ranges.assemble(whole, parts)
        assert handle.staged_rows == 3
        assert [ranges.find(part.request) for part in parts] == parts, "the parts stay"
        assert (sink.ids(table) if existing else None) == ([9] if existing else None)
        sink.staged.finalize(handle)
        assert sink.ids(table) == ([1, 2, 3, 9] if existing and strategy is APPEND else [1, 2, 3])
        _clean_up(sink, table, handle, *parts)

    @pytest.mark.parametrize("existing", [False, True])
    def test_each_range_is_published_by_itself(self, sink: OpenSink, existing: bool) -> None:
        ranges, table = _ranges(sink), fresh_table()
        if existing:
            sink.load(stage_request(table, "L0"), orders(9))
        ranges.prepare(stage_request(table, "whole", strategy=APPEND))
        parts = _stage_ranges(sink, table, APPEND)
        seen = [9] if existing else []
        for part in parts:
            if part.staged_rows:
                sink.staged.finalize(part)
                seen += IDS[str(part.request.identity.load_id)]
                assert sink.ids(table) == sorted(seen)
        _clean_up(sink, table, *parts)

    def test_a_range_is_found_by_its_name_and_counted_again(self, sink: OpenSink) -> None:
        ranges, table = _ranges(sink), fresh_table()
        ranges.prepare(stage_request(table, "whole", strategy=APPEND))
        assert ranges.find(stage_request(table, "A", strategy=APPEND)) is None
        parts = _stage_ranges(sink, table, APPEND)
        assert [ranges.find(replace(part, staged_rows=7).request) for part in parts] == parts
        _clean_up(sink, table, *parts)
        assert [ranges.find(part.request) for part in parts] == [None] * len(parts)

    def test_rows_that_are_missing_are_noticed(self, sink: OpenSink) -> None:
        ranges, table = _ranges(sink), fresh_table()
        ranges.prepare(stage_request(table, "whole"))
        parts = _stage_ranges(sink, table, REFRESH)
        wanted = stage_request(table, "bad")
        with pytest.raises(ConnectorError) as raised:
            ranges.assemble(wanted, [replace(parts[0], staged_rows=9), *parts[1:]])
        assert raised.value.code == "staged_row_count_mismatch"
        _clean_up(sink, table, *parts, replace(parts[0], request=wanted))

    def test_what_is_put_together_twice_holds_rows_once(self, sink: OpenSink) -> None:
        ranges, table = _ranges(sink), fresh_table()
        whole = stage_request(table, "whole")
        ranges.prepare(whole)
        parts = _stage_ranges(sink, table, REFRESH)
        handles = [ranges.assemble(whole, parts) for _ in range(2)]
        assert handles[0] == handles[1]
        sink.staged.finalize(handles[1])
        assert sink.ids(table) == [1, 2, 3]
        _clean_up(sink, table, handles[1], *parts)

    def test_rows_keep_the_load_that_staged_them(self, sink: OpenSink) -> None:
        ranges, table = _ranges(sink), fresh_table()
        whole = stage_request(table, "whole", lineage=LineageColumns(constants={LOAD_ID: "L9"}))
        ranges.prepare(whole)
        parts = [
            sink.staged.stage(
                stage_request(table, load, lineage=LineageColumns(constants={LOAD_ID: load})), iter([orders(*ids)])
            )
            for load, ids in IDS.items()
        ]
        handle = ranges.assemble(whole, parts)
        sink.staged.finalize(handle)
        assert {row["id"]: row[LOAD_ID] for row in sink.rows(table)} == {1: "A", 2: "A", 3: "C"}
        assert "L9" not in sink.definition(table)
        _clean_up(sink, table, handle, *parts)


def _ranges(sink: OpenSink) -> RangeStagingPort:
    if sink.ports.ranges is None:
        pytest.skip("this sink stages no key ranges")
    return sink.ports.ranges


def _stage_ranges(sink: OpenSink, table: TableName, strategy: StrategyMode) -> list[StagedHandle]:
    requests = {load: stage_request(table, load, strategy=strategy) for load in IDS}
    return [sink.staged.stage(requests[load], iter([orders(*ids)])) for load, ids in IDS.items()]


def _clean_up(sink: OpenSink, table: TableName, *handles: StagedHandle) -> None:
    for handle in handles:
        sink.staged.cleanup(handle.ref)
    assert sink.ports.target.leftovers(table, None) == ()
