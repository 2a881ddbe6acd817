"""Technical columns that an earlier lineage preset left in a target stay, as NULL, and block no append."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spec.builders import Finished, Project, append_flow

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
    gate = {"type": "min_rows", "side": "target", "threshold": 0}
    acceptance = {
        "enabled": True,
        "mode": "required",
        "capture": {"source": False, "staged": False, "target": True},
        "checks": {"row_count": True, "null_counts": ["__dpone__load_id"]},
    }
    project.add_orders((6, "f", 60))
    measured = appended(project, sink, "run-4", NONE, quality={"gates": [gate], "acceptance": acceptance})
    assert measured.result["final_rows"] == 5


def appended(project: Project, sink: str, run_id: str, options: dict[str, object], **changes: object) -> Finished:
    project.written(append_flow(sink__type=sink, sink__options=options, **changes))
    finished = project.run("--run-id", run_id)
    assert finished.exit_code == 0, json.dumps(finished.document, indent=1)
    return finished
