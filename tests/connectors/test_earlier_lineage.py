"""Technical columns that an earlier lineage preset left in a target stay, as NULL, and block no append."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpone_core.model.connection import Connection
from dpone_core.model.connector import ConnectorType
from dpone_core.model.load_config import TableName
from dpone_core.model.vocabulary import Side
from dpone_core.ports.metrics import MetricRequest
from dpone_core.wiring.connectors import SinkLock, open_sink
from tests.spec.builders import Finished, Project, append_flow

TARGET = TableName(schema="raw", name="orders")
NONE: dict[str, object] = {}
MINIMAL: dict[str, object] = {"lineage": {"enabled": True, "preset": "minimal"}}
SINKS = {"duckdb": "duckdb:///{root}/dwh.duckdb", "clickhouse": "chdb:///{root}/dwh", "files": "file:///{root}/lake"}


@pytest.mark.parametrize("sink", SINKS)
def test_columns_added_by_a_preset_block_no_append_without_it(tmp_path: Path, sink: str) -> None:
    project = Project(tmp_path, environment={"DPONE_CONN_DWH": SINKS[sink].format(root=tmp_path)})
    project.orders()
    appended(project, sink, "run-1", NONE)
    project.add_orders((4, "d", 40))
    appended(project, sink, "run-2", {**MINIMAL, "schema_evolution": "add_columns"})
    project.add_orders((5, "e", 50))
    finished = appended(project, sink, "run-3", NONE)
    assert finished.result["final_rows"] == 4
    assert nulls_of_the_load_id(project, sink) == {"row_count": 4, "__dpone__load_id": 3}


def nulls_of_the_load_id(project: Project, sink: str) -> dict[str, object]:
    """As the sink's own probe counts them: rows of the runs without lineage have none."""
    connection = Connection(ref="dwh", uri=project.environment["DPONE_CONN_DWH"], origin="test")
    with open_sink(ConnectorType(sink), connection, SinkLock(timeout_seconds=0, holder="test")) as ports:
        assert ports.metrics is not None
        asked = MetricRequest(side=Side.TARGET, table=TARGET, null_counts=("__dpone__load_id",))
        answer: Any = ports.metrics.collect(asked)
    return {"row_count": answer["row_count"], **answer["null_counts"]}


def appended(project: Project, sink: str, run_id: str, options: dict[str, object], **changes: object) -> Finished:
    project.written(append_flow(sink__type=sink, sink__options=options, **changes))
    finished = project.run("--run-id", run_id)
    assert finished.exit_code == 0, json.dumps(finished.document, indent=1)
    return finished
