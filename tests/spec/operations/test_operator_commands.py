"""An operator looks, decides with a reason, and cleans up; none of it works beside a running load or without a trace.

Contract: FAIL-23, LIFE-40, STATE-05.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

DPONE = str(Path(sys.executable).parent / "dpone")
MANIFEST = """kind: dpone.flow.v1
name: numbers
connections: {source: {uri: "sqlite:///s.db"}, warehouse: {uri: "duckdb:///w.duckdb"}}
source:
  type: sqlite
  connection_ref: source
  table: {name: numbers}
  options:
    incremental: {cursor_column: id}
    hooks:
      pre_hook:
        - {id: second, type: sql, sql: "SELECT 2", depends_on: [first]}
        - {id: first, type: sql, sql: "SELECT 1", execution: {airflow: separate_task}}
sink:
  type: duckdb
  connection_ref: warehouse
  table: {schema: raw, name: numbers}
  strategy: {mode: incremental_append}
state: {type: sink}
"""


@pytest.fixture(name="project")
def numbers_directory(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.executescript(
            "CREATE TABLE numbers (id INTEGER NOT NULL PRIMARY KEY); INSERT INTO numbers VALUES (1), (2), (3);"
        )
    database.close()
    (tmp_path / "numbers.yaml").write_text(MANIFEST)
    return tmp_path


def dpone(project: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run([DPONE, *arguments], cwd=project, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def answer(project: Path, *arguments: str) -> dict[str, object]:
    code, output = dpone(project, *arguments, "--format", "json")
    assert code == 0, output
    found: dict[str, object] = json.loads(output)
    return found


def test_a_process_that_never_ran_has_no_cursor(project: Path) -> None:
    state = answer(project, "state", "show", "numbers.yaml")
    assert (state["status"], state["cursor_value"]) == ("absent", None)


def test_setting_the_cursor_moves_the_next_window_and_leaves_its_reason(project: Path) -> None:
    assert dpone(project, "run", "numbers.yaml")[0] == 0
    state = answer(project, "state", "set", "numbers.yaml", "--value", "2", "--reason", "2 was repaired at the source")
    assert state["cursor_value"] == "2"
    (record,) = (project / ".dpone/runs/numbers/state_changes").glob("*.json")
    written = json.loads(record.read_text())
    assert (written["before"], written["after"], written["status"]) == ("3", "2", "applied")
    assert written["reason"] == "2 was repaired at the source"
    report = answer(project, "run", "numbers.yaml")
    result = report["result"]
    assert isinstance(result, dict)
    assert result["extracted_rows"] == 1


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
def test_a_cursor_is_never_set_without_a_reason(project: Path, reason: str) -> None:
    code, output = dpone(project, "state", "set", "numbers.yaml", "--value", "2", "--reason", reason)
    assert (code, "DPONE_STATE_REASON_REQUIRED" in output) == (2, True)
    assert answer(project, "state", "show", "numbers.yaml")["status"] == "absent"


def test_cleanup_names_only_what_the_run_left_behind(project: Path) -> None:
    assert dpone(project, "run", "numbers.yaml", "--run-id", "r1")[0] == 0
    found = answer(project, "cleanup", "numbers.yaml", "--run-id", "r1", "--dry-run")
    assert (found["removed"], found["left"], found["dry_run"]) == ([], [], True)
    loads = found["loads"]
    assert isinstance(loads, list)
    assert len(loads) == 1


def test_the_hook_graph_shows_order_and_the_load(project: Path) -> None:
    graph = answer(project, "hooks", "graph", "numbers.yaml")
    processes = graph["processes"]
    assert isinstance(processes, list)
    assert [node["node"] for node in processes[0]["nodes"]] == ["pre_hook_first", "pre_hook_second"]
    assert processes[0]["edges"] == [["pre_hook_first", "pre_hook_second"], ["pre_hook_second", "load"]]
    assert '[["first: custom"]]' in dpone(project, "hooks", "graph", "numbers.yaml")[1]


def test_a_code_is_explained_at_its_boundary(project: Path) -> None:
    code, output = dpone(project, "explain", "DPONE_QUALITY_GATES_FAILED", "--boundary", "post_commit")
    assert code == 0
    assert "not rolled back" in output


def test_an_unknown_code_gets_the_nearest_known_one(project: Path) -> None:
    code, output = dpone(project, "explain", "DPONE_QUALITY_GATE_FAILED")
    assert (code, "DPONE_QUALITY_GATES_FAILED" in output) == (2, True)
