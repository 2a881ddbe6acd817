"""The PostgreSQL sink keeps every promise of a staged sink, its probe, control tables and statements."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpone_core.testing.port_conformance import ControlTablesConformance, SinkProbeConformance, SinkStatementConformance
from dpone_core.testing.sink_conformance import OpenSink, StagedSinkConformance
from dpone_core.testing.staged_rows_conformance import StagedRowsConformance
from tests.connectors.sessions import postgres_sink
from tests.live.servers import scratch_postgres


@pytest.fixture(scope="module")
def sink() -> Iterator[OpenSink]:
    with scratch_postgres() as uri, postgres_sink(uri) as opened:
        yield opened


class TestStaging(StagedSinkConformance):
    pass


class TestStagedRows(StagedRowsConformance):
    pass


class TestControlTables(ControlTablesConformance):
    pass


class TestProbe(SinkProbeConformance):
    pass


class TestStatements(SinkStatementConformance):
    pass
