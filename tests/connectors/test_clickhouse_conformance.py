"""The embedded ClickHouse sink keeps every promise of a staged sink, its probe, control tables and statements."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpone_core.testing.port_conformance import ControlTablesConformance, SinkProbeConformance, SinkStatementConformance
from dpone_core.testing.sink_conformance import OpenSink, StagedSinkConformance
from dpone_core.testing.staged_rows_conformance import StagedRowsConformance
from tests.connectors.sessions import embedded_clickhouse


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with embedded_clickhouse(tmp_path_factory.mktemp("chdb")) as opened:
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
