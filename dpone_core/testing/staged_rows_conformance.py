"""Tests of reading staged rows back; subclass them with the `sink` fixture of StagedSinkConformance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.lineage import LOAD_ID
from dpone_core.ports.sink import LineageColumns, StagedRowsPort

from .builders import ORDERS, batch_of, orders, stage_request
from .sink_conformance import OpenSink, fresh_table


class StagedRowsConformance:
    """Reading back gives exactly the staged payload, in the promised Arrow types and bounded batches; missing rows
    are an error.
    """

    def test_every_staged_row_comes_back_once_in_bounded_batches(self, sink: OpenSink) -> None:
        handle = sink.staged.stage(stage_request(fresh_table()), iter([orders(*range(70_000))] * 2))
        batches = list(self._rows(sink).read_back(handle))
        sink.staged.cleanup(handle.ref)
        found = sorted(i for batch in batches for i in batch.column("id").to_pylist())
        assert found == sorted([*range(70_000)] * 2)
        assert max(batch.num_rows for batch in batches) <= 65_536

    def test_types_are_those_that_were_promised_and_nulls_stay_null(self, sink: OpenSink) -> None:
        rows: list[dict[str, object]] = [{"id": 1, "name": None}, {"id": 2, "name": ""}]
        handle = sink.staged.stage(stage_request(fresh_table()), iter([batch_of(ORDERS, rows)]))
        batches = list(self._rows(sink).read_back(handle))
        sink.staged.cleanup(handle.ref)
        promised = self._rows(sink).arrow_schema(ORDERS)
        assert all((batch.schema.names, batch.schema.types) == (promised.names, promised.types) for batch in batches)
        assert {row["id"]: row["name"] for batch in batches for row in batch.to_pylist()} == {1: None, 2: ""}

    def test_lineage_is_not_payload(self, sink: OpenSink) -> None:
        lineage = LineageColumns(constants={LOAD_ID: "L1"})
        handle = sink.staged.stage(stage_request(fresh_table(), lineage=lineage), iter([orders(1)]))
        names = {tuple(batch.schema.names) for batch in self._rows(sink).read_back(handle)}
        sink.staged.cleanup(handle.ref)
        assert names == {ORDERS.names}

    def test_reading_back_leaves_staging_publishable(self, sink: OpenSink) -> None:
        table = fresh_table()
        handle = sink.staged.stage(stage_request(table), iter([orders(1, 2)]))
        assert sum(batch.num_rows for batch in self._rows(sink).read_back(handle)) == 2
        sink.staged.finalize(handle)
        sink.staged.cleanup(handle.ref)
        assert sink.ids(table) == [1, 2]

    def test_fewer_rows_than_were_staged_are_an_error(self, sink: OpenSink) -> None:
        handle = sink.staged.stage(stage_request(fresh_table()), iter([orders(1, 2)]))
        with pytest.raises(ConnectorError) as raised:
            list(self._rows(sink).read_back(replace(handle, staged_rows=3)))
        assert raised.value.code == "staged_rows_unreadable"
        sink.staged.cleanup(handle.ref)
        with pytest.raises(ConnectorError):
            list(self._rows(sink).read_back(handle))

    def _rows(self, sink: OpenSink) -> StagedRowsPort:
        assert sink.ports.staged_rows is not None
        return sink.ports.staged_rows
