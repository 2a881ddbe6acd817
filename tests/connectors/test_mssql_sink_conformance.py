"""The SQL Server sink keeps every promise of a staged sink, its probe, control tables and statements.

Wire-tested against a TDS double; against a server where DPONE_TEST_MSSQL_URI names one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpone_core.testing.port_conformance import ControlTablesConformance, SinkProbeConformance, SinkStatementConformance
from dpone_core.testing.sink_conformance import OpenSink, StagedSinkConformance
from dpone_core.testing.staged_rows_conformance import StagedRowsConformance
from tests.connectors.mssql_servers import mssql_server
from tests.connectors.sessions import mssql_sink


@pytest.fixture(scope="module")
def sink() -> Iterator[OpenSink]:
    with mssql_server() as server, mssql_sink(server.uri) as opened:
        yield opened


class TestStaging(StagedSinkConformance):
    @pytest.mark.slow
    def test_equal_batches_stay_apart(self, sink: OpenSink) -> None:
        super().test_equal_batches_stay_apart(sink)


class TestStagedRows(StagedRowsConformance):
    @pytest.mark.slow
    def test_every_staged_row_comes_back_once_in_bounded_batches(self, sink: OpenSink) -> None:
        super().test_every_staged_row_comes_back_once_in_bounded_batches(sink)


class TestControlTables(ControlTablesConformance):
    pass


class TestProbe(SinkProbeConformance):
    pass


class TestStatements(SinkStatementConformance):
    pass
