"""In a sink without staging rules about columns are judged when the rows are public, over the files of the load.

They are read again, and the report of a failure says that the target holds them. Contract: GATE-33.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

import pytest

from tests.spec.builders import Project, flow, hook, hooks, project_with_orders

RULES: Final[dict[str, dict[str, Any]]] = {
    "not_null": {"columns": ["id", "name"]},
    "unique": {"columns": ["name"]},
    "accepted_values": {"column": "name", "values": ["a", "b", "c"]},
    "freshness": {"column": "at", "max_age": "P36500D", "reference": "now"},
}


@pytest.fixture(name="project")
def lake(tmp_path: Path) -> Project:
    project = project_with_orders(tmp_path)
    project.orders([(1, "a", 10), (2, "b", 20), (3, "c", 30)])
    project.source("ALTER TABLE orders ADD COLUMN at TIMESTAMP", "UPDATE orders SET at = '2020-01-01 00:00:00'")
    project.environment["DPONE_CONN_DWH"] = f"file:///{tmp_path / 'lake'}"
    return project


def into_files(file_format: str = "parquet", **changes: object) -> dict[str, object]:
    return flow(sink__type="files", sink__options={"files": {"format": file_format}}, **changes)


def gates(*kinds: str, **changes: object) -> dict[str, object]:
    return {"gates": [{"type": kind, **RULES[kind], **changes} for kind in kinds]}


@pytest.mark.parametrize("file_format", ["parquet", "csv", "ndjson"])
def test_rows_that_keep_the_rules_are_a_success(file_format: str, project: Project) -> None:
    project.written(into_files(file_format, quality=gates(*RULES)))
    finished = project.run("--run-id", "r1")
    assert finished.exit_code == 0, finished.stdout
    assert finished.receipt is not None and finished.receipt["gates_passed"] == 4


BROKEN: Final = {
    "not_null": "UPDATE orders SET name = NULL WHERE id = 3",
    "unique": "UPDATE orders SET name = 'a' WHERE id = 3",
    "accepted_values": "UPDATE orders SET name = 'c4n4ry' WHERE id = 3",
    "freshness": "UPDATE orders SET at = NULL",
}


@pytest.mark.parametrize("kind", RULES)
def test_a_row_that_breaks_a_rule_fails_the_load_and_the_report_says_that_it_is_public(
    kind: str, project: Project
) -> None:
    project.source(BROKEN[kind])
    project.written(into_files(quality=gates(kind)))
    finished = project.run("--run-id", "r1")
    assert (finished.exit_code, finished.code) == (1, "DPONE_QUALITY_GATES_FAILED"), finished.stdout
    assert finished.receipt is not None
    assert finished.receipt["target_state"] == "mutation_returned_success"
    assert finished.receipt["failed_gate"] == kind and finished.receipt["gate_evaluated_rows"] == 3
    kept = [path for path in (project.root / "evidence").rglob("*") if path.is_file()]
    assert kept and not [path for path in kept if b"c4n4ry" in path.read_bytes()]
    project.written(into_files(quality=gates(kind, severity="warning")))
    warned = project.run("--run-id", "r2")
    assert warned.exit_code == 0 and warned.receipt is not None and warned.receipt["gates_warned"] == 1


REFUSED: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "a statement": ({"type": "custom_sql", "sql": "SELECT count(*) FROM {{ staged }}"}, {}),
    "key ranges": (
        {"type": "unique", "columns": ["id"]},
        {"incremental": {"cursor_column": "updated_at"}, "partitioning": {"column": "id", "num_partitions": 2}},
    ),
    "rows of other loads": (
        {"type": "unique", "columns": ["id"], "within": "target"},
        {"incremental": {"cursor_column": "updated_at"}},
    ),
}


@pytest.mark.parametrize("verb", ["check", "plan", "run"])
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_files_cannot_judge_is_refused_by_every_verb_before_a_hook_runs(
    case: tuple[dict[str, Any], dict[str, Any]], verb: str, project: Project
) -> None:
    gate, options = case
    project.source("CREATE TABLE log (what INTEGER)")
    pre = hooks(pre=[hook("open", "INSERT INTO log VALUES (1)")])
    appends = {"sink__strategy": {"mode": "incremental_append"}, "state": {"type": "sink"}}
    changes = appends if "incremental" in options else {}
    project.written(into_files(source__options={**pre, **options}, quality={"gates": [gate]}, **changes))
    refused = project.dpone(verb, "m.yaml", "--format", "json")
    assert refused.exit_code == 2, refused.stdout + refused.stderr
    assert "quality.gates[0]" in refused.stdout or "quality.gates.0" in refused.stdout
    with sqlite3.connect(project.root / "shop.sqlite") as shop:
        assert shop.execute("SELECT * FROM log").fetchall() == []
