"""Tables of 3,000 columns: every statement whose length grows with the width, and what the metrics of it cost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpone_core.connectors.duckdb.open import open_source
from dpone_core.model.load_config import TableName
from dpone_core.model.vocabulary import Side
from dpone_core.ports.metrics import MetricRequest
from dpone_core.ports.source import ExtractRequest
from tests.connectors.sessions import connection
from tests.spec.builders import Project, flow

WIDTH = 3000
ROWS = 20
PARQUET: dict[str, Any] = {"type": "files", "options": {"path": "in", "format": "parquet", "not_null": ["c0", "c1"]}}
QUALITY: dict[str, Any] = {
    "gates": [{"type": "row_count_reconciliation"}, {"type": "typed_hash_reconciliation"}],
    "acceptance": {
        "enabled": True,
        "mode": "required",
        "checks": {"row_count": True, "null_counts": "all_columns", "distinct_counts": "all_columns"},
    },
}
MERGE = {"mode": "incremental_merge", "unique_key": ["c0"]}
LINEAGE = {"lineage": {"enabled": True, "preset": "standard"}}


def wide(shift: int = 0) -> pa.Table:
    """Column c0 is a key and c1 a cursor; every third column is text, every fifth value NULL."""
    columns: dict[str, Any] = {"c0": range(ROWS), "c1": [shift] * ROWS}
    for number in range(2, WIDTH):
        values = [None if (row + number) % 5 == 0 else row * number + shift for row in range(ROWS)]
        columns[f"c{number}"] = [None if v is None else str(v) for v in values] if number % 3 == 0 else values
    return pa.table(columns)


def project_of(tmp_path: Path, sink: dict[str, Any], source: dict[str, Any] = PARQUET) -> Project:
    project = Project(tmp_path)
    (tmp_path / "in").mkdir(exist_ok=True)
    project.written(flow(source=source, **{"quality": QUALITY, **sink}))
    return project


def loaded(project: Project, run_id: str, shift: int) -> None:
    pq.write_table(wide(shift), project.root / "in/w.parquet")
    finished = project.run("--run-id", run_id)
    assert finished.exit_code == 0, finished.stdout
    metrics = finished.result["details"]["reconciliation_metrics"]["acceptance_metrics"]
    assert len(metrics["snapshots"]) > 1
    assert all(len(side["distinct_counts"]) == WIDTH for side in metrics["snapshots"].values())


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["duckdb", "clickhouse"])
def test_a_merge_of_three_thousand_columns_with_every_metric(tmp_path: Path, sink: str) -> None:
    changes = {"sink__type": sink, "sink__strategy": MERGE, "sink__options": LINEAGE, "state": {"type": "sink"}}
    source = {**PARQUET, "options": {**PARQUET["options"], "incremental": {"cursor_column": "c1"}}}
    project = project_of(tmp_path, changes, source)
    if sink == "clickhouse":
        project.environment["DPONE_CONN_DWH"] = f"chdb:///{tmp_path / 'warehouse'}"
    loaded(project, "r1", 0)
    loaded(project, "r2", 1)
    if sink == "duckdb":
        found = project.target("SELECT c1, c3, c2999 FROM raw.orders WHERE c0 = 4")
        assert found == [(1, "13", 4 * 2999 + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["csv", "ndjson", "parquet"])
def test_three_thousand_columns_into_files(tmp_path: Path, file_format: str) -> None:
    quality = {**QUALITY, "acceptance": {**QUALITY["acceptance"], "capture": {"staged": False}}}
    changes = {"sink__type": "files", "sink__options": {"files": {"format": file_format}}, "quality": quality}
    project = project_of(tmp_path, changes)
    project.environment["DPONE_CONN_DWH"] = f"file:///{tmp_path / 'out'}"
    loaded(project, "r1", 0)


@pytest.mark.slow
def test_distinct_counts_of_a_wide_source_take_time_in_proportion(tmp_path: Path) -> None:
    """All in one statement, 400 columns took as long as 2,500 do here, and 3,000 ended the process."""
    path = tmp_path / "wide.duckdb"
    with duckdb.connect(str(path)) as made:
        made.register("given", wide())
        made.execute("CREATE TABLE wide AS SELECT * FROM given")
    request = ExtractRequest(table=TableName(schema="main", name="wide"))
    names = tuple(f"c{number}" for number in range(WIDTH))
    asked = MetricRequest(side=Side.SOURCE, extract=request, null_counts=names, distinct_counts=names)
    started = time.monotonic()
    with open_source(connection(f"duckdb:///{path}")) as ports:
        assert ports.metrics is not None
        answer = ports.metrics.collect(asked)
    assert answer["row_count"] == ROWS
    distincts, nulls = answer["distinct_counts"], answer["null_counts"]
    assert isinstance(distincts, dict) and isinstance(nulls, dict)
    assert distincts["c0"] == ROWS and distincts["c2999"] == ROWS - nulls["c2999"] == 16
    assert time.monotonic() - started < 120
