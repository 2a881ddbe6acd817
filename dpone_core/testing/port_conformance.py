"""Tests that control tables, metric probes, statement ports and sources must pass; subclass them in pytest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread
from typing import Final

import pyarrow as pa
import pytest

from dpone_core.errors import ConnectorError
from dpone_core.model.sql import SqlText
from dpone_core.model.table_schema import ColumnKind, TableSchema
from dpone_core.model.vocabulary import Side
from dpone_core.ports.control import ControlColumn, ControlColumnKind, ControlTable, ControlTables
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import CursorWindow, ExtractRequest
from dpone_core.ports.statements import StatementScript

from .builders import ORDERS, batch_of, stage_request
from .sink_conformance import OpenSink, fresh_table

_T0: Final = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def control_table() -> ControlTable:
    kind = ControlColumnKind
    return ControlTable(
        schema="conformance_state",
        name=fresh_table("control").name,
        columns=(
            ControlColumn(name="k", kind=kind.TEXT, nullable=False),
            ControlColumn(name="t", kind=kind.TIMESTAMP),
            ControlColumn(name="n", kind=kind.INTEGER),
            ControlColumn(name="note", kind=kind.TEXT),
            ControlColumn(name="version", kind=kind.TIMESTAMP, nullable=False),
        ),
        key=("k",),
        version_column="version",
    )


def control_row(
    k: str, *, seconds: int = 0, **values: str | int | datetime | None
) -> dict[str, str | int | datetime | None]:
    return {"k": k, "t": None, "n": None, "note": None, "version": _T0 + timedelta(seconds=seconds), **values}


class ControlTablesConformance:
    """Provide the `sink` fixture of StagedSinkConformance."""

    def test_an_absent_table_reads_empty(self, sink: OpenSink) -> None:
        assert sink.ports.control is not None
        assert sink.ports.control.read(control_table(), {}) == ()

    def test_rows_come_back_exactly_and_in_key_order(self, sink: OpenSink) -> None:
        control, table = self._ready(sink)
        rows = [control_row("b'\"\\\n😀", n=-(2**62), note="x"), control_row("a", t=_T0)]
        control.upsert(table, rows)
        assert control.read(table, {}) == (rows[1], rows[0])
        assert control.read(table, {"note": None}) == (rows[1],)
        assert control.read(table, {"t": _T0}) == (rows[1],)

    def test_the_greatest_version_of_a_key_wins(self, sink: OpenSink) -> None:
        control, table = self._ready(sink)
        control.upsert(table, [control_row("a", seconds=2, note="new")])
        control.upsert(table, [control_row("a", seconds=1, note="late")])
        assert [row["note"] for row in control.read(table, {"k": "a"})] == ["new"]
        assert control.read(table, {"note": "late"}) == ()

    def test_ensure_is_idempotent_and_adds_nullable_columns(self, sink: OpenSink) -> None:
        control, table = self._ready(sink)
        control.upsert(table, [control_row("a")])
        wider = ControlTable(
            schema=table.schema,
            name=table.name,
            columns=(*table.columns, ControlColumn(name="extra", kind=ControlColumnKind.TEXT)),
            key=table.key,
            version_column=table.version_column,
        )
        control.ensure(wider)
        control.ensure(wider)
        assert [row["extra"] for row in control.read(wider, {})] == [None]

    def test_a_column_of_another_kind_is_refused(self, sink: OpenSink) -> None:
        control, table = self._ready(sink)
        columns = tuple(
            replace(column, kind=ControlColumnKind.INTEGER) if column.name == "note" else column
            for column in table.columns
        )
        with pytest.raises(ConnectorError) as raised:
            control.ensure(replace(table, columns=columns))
        assert raised.value.code == "control_table_incompatible"

    def test_compare_and_set_follows_what_is_there(self, sink: OpenSink) -> None:
        control, table = self._ready(sink)
        key = {"k": "lease"}
        assert control.compare_and_set(table, key, None, control_row("lease", note="me"))
        assert not control.compare_and_set(table, key, None, control_row("lease", note="you"))
        assert not control.compare_and_set(table, key, {"note": "you"}, control_row("lease", note="x"))
        assert control.compare_and_set(table, key, {"note": "me"}, control_row("lease", note="again"))
        assert [row["note"] for row in control.read(table, key)] == ["again"]
        assert not control.compare_and_set(table, key, {"note": "me"}, None)
        assert control.compare_and_set(table, key, {"note": "again"}, None)
        assert control.read(table, key) == ()
        assert control.compare_and_set(table, key, None, control_row("lease", note="next"))

    def test_of_two_threads_one_wins(self, sink: OpenSink) -> None:
        control, table = self._ready(sink)
        barrier = Barrier(2)
        won: list[bool] = []

        def claim(owner: str) -> None:
            barrier.wait()
            won.append(control.compare_and_set(table, {"k": "lease"}, None, control_row("lease", note=owner)))

        threads = [Thread(target=claim, args=(owner,)) for owner in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == [False, True]

    def _ready(self, sink: OpenSink) -> tuple[ControlTables, ControlTable]:
        assert sink.ports.control is not None
        table = control_table()
        sink.ports.control.ensure(table)
        return sink.ports.control, table


class SinkProbeConformance:
    """Provide the `sink` fixture of StagedSinkConformance."""

    def test_counts_nulls_and_distincts_are_exact(self, sink: OpenSink) -> None:
        assert sink.ports.metrics is not None
        table = fresh_table()
        rows: list[dict[str, object]] = [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 2, "name": "a"}]
        sink.load(stage_request(table), batch_of(ORDERS, rows))
        answer = sink.ports.metrics.collect(
            MetricRequest(
                side=Side.TARGET, table=table, null_counts=("id", "name", "amount"), distinct_counts=("id", "amount")
            )
        )
        assert answer == {
            "row_count": 3,
            "null_counts": {"id": 0, "name": 1, "amount": 3},
            "distinct_counts": {"id": 2, "amount": 0},
        }

    def test_what_was_not_asked_is_not_answered(self, sink: OpenSink) -> None:
        assert sink.ports.metrics is not None
        table = fresh_table()
        sink.load(stage_request(table), batch_of(ORDERS, [{"id": 1}]))
        answer = sink.ports.metrics.collect(MetricRequest(side=Side.TARGET, table=table, row_count=False))
        assert answer == {"null_counts": {}, "distinct_counts": {}}

    def test_an_absent_table_is_an_error(self, sink: OpenSink) -> None:
        assert sink.ports.metrics is not None
        with pytest.raises(ConnectorError):
            sink.ports.metrics.collect(MetricRequest(side=Side.TARGET, table=fresh_table()))


class SinkStatementConformance:
    """Provide the `sink` fixture of StagedSinkConformance, on an SQL engine."""

    def test_every_statement_of_a_script_runs(self, sink: OpenSink) -> None:
        assert sink.ports.statements is not None
        script = "SELECT 'a;b'; -- c;\n /* ; */ SELECT 2;\n;"
        assert sink.ports.statements.execute(StatementScript(sql=SqlText(text=script))) == 2

    def test_tokens_are_bound_and_not_pasted(self, sink: OpenSink) -> None:
        assert sink.ports.statements is not None
        script = StatementScript(
            sql=SqlText(text="SELECT {{ run_id }}; SELECT {{ ds }}"), token_values={"run_id": "'; DROP", "ds": "x"}
        )
        assert sink.ports.statements.execute(script) == 2

    def test_a_failing_statement_is_an_error_without_driver_text(self, sink: OpenSink) -> None:
        assert sink.ports.statements is not None
        with pytest.raises(ConnectorError) as raised:
            sink.ports.statements.execute(StatementScript(sql=SqlText(text="SELECT 'canary' FROM absent_table_name")))
        assert raised.value.code == "statement_failed"
        assert "canary" not in str(raised.value)
        assert raised.value.__cause__ is not None

    def test_an_error_of_a_later_statement_is_surfaced(self, sink: OpenSink) -> None:
        assert sink.ports.statements is not None
        script = StatementScript(sql=SqlText(text="SELECT 1; SELECT 'canary' FROM absent_table_name"))
        with pytest.raises(ConnectorError) as raised:
            sink.ports.statements.execute(script)
        assert raised.value.code == "statement_failed"

    @pytest.mark.parametrize(
        ("sql", "columns", "rows"),
        [
            ("SELECT 7", 1, ((7,),)),
            ("SELECT NULL", 1, ((None,),)),
            ("SELECT 'seven'", 1, (("seven",),)),
            ("SELECT 1, 2", 2, ((1, 2),)),
            ("SELECT 1 WHERE 1 = 0", 1, ()),
            ("SELECT 5 UNION ALL SELECT 5 UNION ALL SELECT 5", 1, ((5,), (5,))),
        ],
    )
    def test_one_answer_is_given_as_it_is(
        self, sink: OpenSink, sql: str, columns: int, rows: tuple[tuple[object, ...], ...]
    ) -> None:
        assert sink.ports.statements is not None
        answer = sink.ports.statements.answer(StatementScript(sql=SqlText(text=sql)))
        assert (answer.columns, answer.rows) == (columns, rows)
        assert [[type(value) for value in row] for row in answer.rows] == [[type(v) for v in row] for row in rows]

    @pytest.mark.parametrize("sql", ["SELECT CAST(0 AS DOUBLE PRECISION)", "SELECT CAST(0 AS DECIMAL(9, 2))"])
    def test_a_number_that_is_no_integer_is_not_answered_as_one(self, sink: OpenSink, sql: str) -> None:
        assert sink.ports.statements is not None
        ((value,),) = sink.ports.statements.answer(StatementScript(sql=SqlText(text=sql))).rows
        assert type(value) is not int

    def test_an_answer_binds_tokens(self, sink: OpenSink) -> None:
        assert sink.ports.statements is not None
        script = StatementScript(sql=SqlText(text="SELECT {{ ds }}"), token_values={"ds": "'; DROP"})
        assert sink.ports.statements.answer(script).rows == (("'; DROP",),)

    @pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "SELECT 'canary' FROM absent_table_name"])
    def test_an_answer_of_no_single_statement_is_an_error(self, sink: OpenSink, sql: str) -> None:
        assert sink.ports.statements is not None
        with pytest.raises(ConnectorError) as raised:
            sink.ports.statements.answer(StatementScript(sql=SqlText(text=sql)))
        assert raised.value.code == "statement_failed" and "canary" not in str(raised.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSource:
    """An open source under test holding ORDERS-shaped rows with ids 0..rows-1 (`id` not null, `name`, `amount`).

    `name` is NULL where id is odd and `n` otherwise. `absent` names a dataset that does not exist.
    """

    ports: SourcePorts
    request: ExtractRequest
    absent: ExtractRequest
    rows: int
    narrowed: Callable[[CursorWindow], ExtractRequest]


class SourceConformance:
    """Provide a `source` fixture with more rows than one batch holds."""

    def test_describe_promises_what_batches_carry(self, source: OpenSource) -> None:
        schema = source.ports.source.describe(source.request)
        assert schema.names == ORDERS.names
        assert all(
            ours.type.same_values(theirs.type) for ours, theirs in zip(ORDERS.columns, schema.columns, strict=True)
        )
        stream = source.ports.source.open_stream(source.request, schema)
        batches = list(stream.batches())
        stream.close()
        assert stream.schema == schema
        assert {tuple(batch.schema.names) for batch in batches} == {ORDERS.names}
        assert batches[0].schema.types == [pa.int64(), pa.string(), pa.decimal128(18, 4)]

    def test_every_row_comes_once_in_bounded_batches(self, source: OpenSource) -> None:
        batches = self._batches(source, source.request)
        assert max(batch.num_rows for batch in batches) <= 65_536
        assert len(batches) > 1
        ids = sorted(i for batch in batches for i in batch.column("id").to_pylist())
        assert ids == list(range(source.rows))

    def test_nulls_stay_null(self, source: OpenSource) -> None:
        nulls = sum(batch.column("name").null_count for batch in self._batches(source, source.request))
        assert nulls == source.rows // 2

    def test_a_null_in_a_column_declared_not_nullable_stops_the_read(self, source: OpenSource) -> None:
        schema = source.ports.source.describe(source.request)
        declared = TableSchema(columns=tuple(replace(column, nullable=False) for column in schema.columns))
        with pytest.raises(ConnectorError, match="'name'") as raised:
            list(source.ports.source.open_stream(source.request, declared).batches())
        assert raised.value.code == "source_value_out_of_range"

    def test_an_absent_dataset_is_named_so(self, source: OpenSource) -> None:
        with pytest.raises(ConnectorError) as raised:
            source.ports.source.describe(source.absent)
        assert raised.value.code == "source_object_not_found"

    def test_a_window_is_half_open(self, source: OpenSource) -> None:
        request = source.narrowed(CursorWindow(column="id", lower="10", upper="13"))
        ids = sorted(i for batch in self._batches(source, request) for i in batch.column("id").to_pylist())
        assert ids == [10, 11, 12]
        assert self._batches(source, source.narrowed(CursorWindow(column="id", lower="5", upper="5"))) == []

    def test_the_cursor_maximum_is_the_greatest_value(self, source: OpenSource) -> None:
        assert source.ports.source.cursor_maximum(source.request, "id") == str(source.rows - 1)
        empty = source.narrowed(CursorWindow(column="id", lower="5", upper="5"))
        assert self._batches(source, empty) == []

    def test_a_stream_can_be_closed_at_any_time(self, source: OpenSource) -> None:
        schema = source.ports.source.describe(source.request)
        unread = source.ports.source.open_stream(source.request, schema)
        unread.close()
        unread.close()
        begun = source.ports.source.open_stream(source.request, schema)
        iterator = begun.batches()
        next(iterator)
        begun.close()
        assert list(iterator) == []

    def test_the_probe_agrees_with_the_rows(self, source: OpenSource) -> None:
        if source.ports.metrics is None:
            return
        answer = source.ports.metrics.collect(
            MetricRequest(
                side=Side.SOURCE, extract=source.request, null_counts=("name",), distinct_counts=("id", "name")
            )
        )
        assert answer == {
            "row_count": source.rows,
            "null_counts": {"name": source.rows // 2},
            "distinct_counts": {"id": source.rows, "name": 1},
        }

    def test_no_supported_column_is_described_as_unsupported(self, source: OpenSource) -> None:
        schema: TableSchema = source.ports.source.describe(source.request)
        assert all(column.type.kind is not ColumnKind.UNSUPPORTED for column in schema.columns)

    def _batches(self, source: OpenSource, request: ExtractRequest) -> list[pa.RecordBatch]:
        stream = source.ports.source.open_stream(request, source.ports.source.describe(request))
        try:
            return list(stream.batches())
        finally:
            stream.close()
