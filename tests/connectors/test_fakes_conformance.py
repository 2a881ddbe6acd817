"""The in-memory fakes keep the promises of the adapters they stand for, and write one ordered journal."""

from __future__ import annotations

import pytest

from dpone_core.model.load_config import TableName
from dpone_core.ports.source import ExtractRequest
from dpone_core.testing.builders import ORDERS, orders, stage_request
from dpone_core.testing.fakes import FixedClock, MemorySource, MemoryWarehouse
from dpone_core.testing.port_conformance import ControlTablesConformance, SinkProbeConformance
from dpone_core.testing.sink_conformance import OpenSink, StagedSinkConformance
from dpone_core.testing.staged_rows_conformance import StagedRowsConformance
from tests.connectors.sessions import memory_sink


@pytest.fixture(scope="module")
def sink() -> OpenSink:
    return memory_sink()


class TestStaging(StagedSinkConformance):
    pass


class TestStagedRows(StagedRowsConformance):
    pass


class TestControlTables(ControlTablesConformance):
    pass


class TestProbe(SinkProbeConformance):
    pass


def test_source_and_sink_write_into_one_journal_in_order() -> None:
    warehouse = MemoryWarehouse()
    source = MemorySource(journal=warehouse.journal, schema=ORDERS, data=[orders(1)]).ports().source
    opened = memory_sink(warehouse)
    request = ExtractRequest(table=TableName(schema=None, name="orders"))
    stream = source.open_stream(request, source.describe(request))
    opened.load(stage_request(TableName(schema="s", name="t")), *stream.batches())
    stream.close()
    assert warehouse.journal.lines == [
        "source.describe",
        "source.open_stream",
        "sink.stage",
        "sink.finalize",
        "sink.cleanup",
        "source.close",
    ]


def test_a_planned_failure_is_raised_after_its_line() -> None:
    warehouse = MemoryWarehouse()
    warehouse.journal.failures["sink.finalize"] = RuntimeError("planned")
    handle = warehouse.ports().staged.stage(stage_request(TableName(schema="s", name="t")), [orders(1)])
    with pytest.raises(RuntimeError, match="planned"):
        warehouse.ports().staged.finalize(handle)
    assert warehouse.journal.lines[-1] == "sink.finalize"


def test_the_fixed_clock_never_stands_still() -> None:
    clock = FixedClock()
    assert clock.utc_now() < clock.utc_now()
    assert clock.entropy(10) != clock.entropy(10)
