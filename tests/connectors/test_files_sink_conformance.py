"""The files sink keeps every promise of a legacy sink in every format, and so does the fake that stands for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpone_core.testing.legacy_conformance import LegacyProbeConformance, LegacySinkConformance
from dpone_core.testing.port_conformance import ControlTablesConformance
from dpone_core.testing.sink_conformance import OpenSink
from tests.connectors.sessions import files_sink, memory_legacy_sink


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSink]:
    with files_sink(tmp_path_factory.mktemp("files")) as opened:
        yield opened


class TestParquet(LegacySinkConformance):
    file_format = "parquet"


class TestCsv(LegacySinkConformance):
    file_format = "csv"


class TestNdjson(LegacySinkConformance):
    file_format = "ndjson"


class TestParquetProbe(LegacyProbeConformance):
    file_format = "parquet"


class TestCsvProbe(LegacyProbeConformance):
    file_format = "csv"


class TestControlTables(ControlTablesConformance):
    pass


class TestMemory(LegacySinkConformance):
    @pytest.fixture
    def sink(self) -> OpenSink:
        return memory_legacy_sink()


class TestMemoryProbe(LegacyProbeConformance):
    @pytest.fixture
    def sink(self) -> OpenSink:
        return memory_legacy_sink()
