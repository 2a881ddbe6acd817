"""A row that breaks a rule never becomes public, and what nothing would judge is refused before anything runs.

Contract: GATE-26, GATE-28, GATE-29, GATE-31, GATE-48, GATE-49, GATE-55.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.spec.builders import Finished, Project, append_flow, flow, hook, hooks, project_with_orders

CANARY: Final = "c4n4ry-value"
GOOD: Final[dict[str, dict[str, Any]]] = {
    "not_null": {"columns": ["id", "updated_at"]},
    "unique": {"columns": ["id"]},
    "accepted_values": {"column": "name", "values": ["a", "b", "c"], "allow_null": True},
    "freshness": {"column": "at", "max_age": "P36500D", "reference": "now"},
    "custom_sql": {"sql": "SELECT count(*) FROM {{ staged }} WHERE id < 0"},
}
BAD: Final[dict[str, dict[str, Any]]] = {
    "not_null": {"columns": ["name"]},
    "unique": {"columns": ["updated_at"]},
    "accepted_values": {"column": "name", "values": ["a", "b", "c"]},
    "freshness": {"column": "at", "max_age": "PT1H", "reference": "now"},
    "custom_sql": {"sql": f"SELECT * FROM {{{{ staged }}}} WHERE name = '{CANARY}'", "expect": "zero_rows"},
}


@pytest.fixture(name="project")
def shop_with_three_orders(tmp_path: Path) -> Project:
    """Orders 1 to 3; the second and third break every rule of BAD."""
    project = project_with_orders(tmp_path)
    project.orders([(1, "a", 10), (2, None, 20), (3, CANARY, 20)])
    project.source("ALTER TABLE orders ADD COLUMN at TIMESTAMP", "UPDATE orders SET at = '2020-01-01 00:00:00'")
    return project


def judged_by(project: Project, kind: str, fields: dict[str, Any], **changes: object) -> Finished:
    project.written(flow(quality={"gates": [{"type": kind, **fields}]}, **changes))
    return project.run("--run-id", "r1")


@pytest.mark.parametrize("kind", GOOD)
def test_rows_that_keep_a_rule_are_published(kind: str, project: Project) -> None:
    project.source("DELETE FROM orders WHERE id = 3")
    finished = judged_by(project, kind, GOOD[kind])
    assert finished.exit_code == 0, finished.stdout
    assert project.target("SELECT count(*) FROM raw.orders") == [(2,)]


@pytest.mark.parametrize("kind", BAD)
def test_a_row_that_breaks_a_rule_never_becomes_public(kind: str, project: Project) -> None:
    finished = judged_by(project, kind, BAD[kind])
    assert (finished.exit_code, finished.code) == (1, "DPONE_QUALITY_GATES_FAILED")
    assert finished.receipt is not None and finished.receipt["target_state"] == "not_mutated"
    assert project.target("SELECT table_name FROM duckdb_tables() WHERE NOT starts_with(table_name, '__dpone')") == []
    (result,) = finished.document["result"]["quality_gates"]["results"]
    assert (result["status"], result["metrics"]["evaluated_rows"]) == ("failed", 3)


@pytest.mark.parametrize("kind", BAD)
def test_a_warning_is_reported_and_the_rows_are_published(kind: str, project: Project) -> None:
    finished = judged_by(project, kind, {**BAD[kind], "severity": "warning"})
    assert finished.exit_code == 0, finished.stdout
    (path,) = (project.root / "evidence").rglob("run.json")
    assert '"status": "warning"' in path.read_text("utf-8")
    assert project.target("SELECT count(*) FROM raw.orders") == [(3,)]


@pytest.mark.parametrize("kind", BAD)
def test_no_value_of_a_row_is_in_what_a_failed_gate_leaves(kind: str, project: Project) -> None:
    fields = {**BAD[kind]} | ({"values": [CANARY, "b"]} if kind == "accepted_values" else {})
    finished = judged_by(project, kind, fields)
    assert finished.exit_code == 1
    kept = [path for path in (project.root / "evidence").rglob("*") if path.is_file()]
    assert kept and not [path for path in kept if CANARY.encode() in path.read_bytes()]
    assert CANARY not in finished.stdout + finished.stderr + str(finished.receipt)


def test_the_failed_gate_and_its_figures_stand_wherever_a_person_looks(project: Project) -> None:
    message, path = project.root / "termination-log", project.root / "receipt.json"
    message.touch()
    project.written(flow(quality={"gates": [{"type": "unique", "columns": ["updated_at"]}]}))
    finished = project.dpone(
        *("run", "m.yaml", "--run-id", "r1", "--receipt-path", str(path)),
        environment={"DPONE_TERMINATION_LOG": str(message)},
    )
    said = "unique(updated_at): 2 of 3 rows"
    assert "  gate      unique(updated_at) failed: 2 of 3 rows" in finished.stdout
    assert said in message.read_text("utf-8").splitlines()[0]
    (folder,) = {path.parent for path in (project.root / "evidence").rglob("run.json")}
    assert f"<p>{said}</p>" in (folder / "report.html").read_text("utf-8")
    assert f"{said}." in (folder / "report.md").read_text("utf-8")
    receipt = finished.receipt
    assert receipt is not None and receipt["failed_gate"] == "unique"
    assert (receipt["gate_failed_rows"], receipt["gate_evaluated_rows"]) == (2, 3)


def test_a_tolerance_lets_rows_through(project: Project) -> None:
    assert judged_by(project, "not_null", {"columns": ["name"], "tolerance": {"value": 1}}).exit_code == 0
    assert (
        judged_by(project, "not_null", {"columns": ["name"], "tolerance": {"mode": "pct", "value": 33}}).exit_code == 1
    )


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("not_null", {"columns": ["nmae"]}, "did you mean 'name'?"),
        ("freshness", {"column": "name", "max_age": "PT1H", "reference": "now"}, "freshness needs a date or timestamp"),
        ("accepted_values", {"column": "id", "values": ["one"]}, "one of the values is none"),
    ],
)
def test_a_column_that_a_rule_cannot_judge_is_refused_before_a_row_is_read(
    kind: str, fields: dict[str, Any], said: str, project: Project
) -> None:
    finished = judged_by(project, kind, fields)
    assert (finished.exit_code, finished.code) == (1, "gate_column_refused")
    assert said in finished.stdout and "phase=stage" not in finished.stderr
    assert project.target("SELECT table_name FROM duckdb_tables() WHERE NOT starts_with(table_name, '__dpone')") == []


def test_a_merge_that_would_make_a_key_of_the_target_repeat_is_not_published(project: Project) -> None:
    gates = {"gates": [{"type": "unique", "columns": ["name"], "within": "target"}]}
    merge = {"mode": "incremental_merge", "unique_key": ["id"]}
    project.written(append_flow(sink__strategy=merge, quality=gates))
    assert project.run("--run-id", "r1").exit_code == 0
    project.source("UPDATE orders SET name = 'b', updated_at = 30 WHERE id = 1")
    assert project.run("--run-id", "r2").exit_code == 0, "the name is free"
    project.source("UPDATE orders SET name = 'b', updated_at = 40 WHERE id = 3")
    finished = project.run("--run-id", "r3")
    assert (finished.exit_code, finished.code) == (1, "DPONE_QUALITY_GATES_FAILED"), finished.stdout
    assert project.target("SELECT count(*) FROM raw.orders WHERE name = 'b'") == [(1,)]


STATEMENT: Final = "SELECT count(*) FROM {{ staged }} WHERE updated_at < {{ ds }}::date - DATE '2020-01-01'"


def test_a_statement_of_a_file_is_judged_and_its_tokens_are_needed(project: Project) -> None:
    project.written(STATEMENT + ";\n", "rules/late.sql")
    gates = {"gates": [{"type": "custom_sql", "sql_file": "rules/late.sql", "tolerance": {"value": 1}}]}
    project.written(flow(quality=gates))
    missing = project.run("--run-id", "r1")
    assert (missing.exit_code, missing.code) == (2, "DPONE_INTERVAL_VALUE_MISSING")
    for day, exit_code in (("2020-01-12", 0), ("2020-02-12", 1)):
        finished = project.run("--execution-date", f"{day}T00:00:00Z")
        assert finished.exit_code == exit_code, finished.stdout + finished.stderr
    (result,) = finished.document["result"]["quality_gates"]["results"]
    assert result["metrics"] == {"evaluated_rows": 3, "failed_rows": 3}


def test_a_statement_that_fails_ends_the_load_or_warns_and_shows_nothing_of_itself(project: Project) -> None:
    broken = {"sql": f"SELECT count({CANARY.replace('-', '_')}) FROM {{{{ staged }}}}"}
    finished = judged_by(project, "custom_sql", broken)
    assert (finished.exit_code, finished.code) == (1, "rule_not_judged")
    assert finished.receipt is not None and finished.receipt["target_state"] == "not_mutated"
    assert CANARY.replace("-", "_") not in finished.stdout + finished.stderr
    other = {"type": "unique", "columns": ["id"]}
    project.written(flow(quality={"gates": [{"type": "custom_sql", "severity": "warning", **broken}, other]}))
    warned = project.run("--run-id", "r2")
    assert warned.exit_code == 0 and "rules_not_judged" in warned.stdout, warned.stdout
    assert warned.receipt is not None and (warned.receipt["gates_passed"], warned.receipt["gates_warned"]) == (1, 1)


REFUSED_STATEMENTS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "not over the load": ({"sql": "SELECT 0"}, "DPONE_MANIFEST_VALUE_INVALID"),
    "unknown token": ({"sql": "SELECT count(*) FROM {{ stagd }}, {{ staged }}"}, "DPONE_SQL_TOKEN_UNKNOWN"),
    "a change": ({"sql": "DELETE FROM {{ staged }}"}, "DPONE_GATE_NOT_READ_ONLY"),
    "an unknown function": ({"sql": "SELECT my_own(id) FROM {{ staged }}"}, "DPONE_GATE_NOT_READ_ONLY"),
    "quoted": ({"sql": "SELECT count(*) FROM {{ staged }} WHERE name = '{{ ds }}'"}, "DPONE_SQL_TOKEN_QUOTED"),
    "no text": ({}, "DPONE_MANIFEST_MISSING_FIELD"),
    "two texts": ({"sql": "SELECT 0 FROM {{ staged }}", "sql_file": "a.sql"}, "DPONE_MANIFEST_CONFLICT"),
    "no file": ({"sql_file": "nope.sql"}, "DPONE_PROJECT_FILE_NOT_FOUND"),
    "file not over the load": ({"sql_file": "zero.sql"}, "DPONE_MANIFEST_VALUE_INVALID"),
    "file with a change": ({"sql_file": "drop.sql"}, "DPONE_GATE_NOT_READ_ONLY"),
}


@pytest.mark.parametrize("verb", ["check", "plan", "run"])
@pytest.mark.parametrize("case", REFUSED_STATEMENTS.values(), ids=REFUSED_STATEMENTS)
def test_a_statement_that_is_no_rule_is_refused_by_every_verb_with_its_place(
    case: tuple[dict[str, Any], str], verb: str, project: Project
) -> None:
    fields, code = case
    project.written("SELECT 0\n", "zero.sql")
    project.written("DROP TABLE {{ staged }}\n", "drop.sql")
    project.written(flow(quality={"gates": [{"type": "custom_sql", **fields}]}))
    refused = project.dpone(verb, "m.yaml")
    assert refused.exit_code == 2, refused.stdout + refused.stderr
    said = refused.stdout + refused.stderr
    assert code in said and "m.yaml:" in said and "quality.gates[0]" in said, said


UNJUDGED: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "a statement over the source": (
        {"type": "custom_sql", "columns": None, "side": "source", "sql": "SELECT count(*) FROM {{ staged }}"},
        {},
    ),
}


@pytest.mark.parametrize("verb", ["check", "plan", "run"])
@pytest.mark.parametrize("case", UNJUDGED.values(), ids=UNJUDGED)
def test_a_rule_that_nothing_would_judge_is_refused_by_every_verb(
    case: tuple[dict[str, Any], dict[str, Any]], verb: str, project: Project
) -> None:
    fields, changes = case
    project.source("CREATE TABLE log (what INTEGER)")
    pre = hooks(pre=[hook("open", "INSERT INTO log VALUES (1)")])
    gate = {name: value for name, value in {"type": "unique", **fields}.items() if value is not None}
    gates = {"gates": [{"type": "min_rows", "threshold": 1}, gate]}
    project.written(flow(source__options=pre, **changes, quality=gates))
    refused = project.dpone(verb, "m.yaml", "--format", "json")
    assert refused.exit_code == 2, refused.stdout + refused.stderr
    assert "quality.gates[1]" in refused.stdout or "quality.gates.1" in refused.stdout


def test_freshness_counts_from_the_end_of_the_interval_and_needs_one(project: Project) -> None:
    project.written(flow(quality={"gates": [{"type": "freshness", "column": "at", "max_age": "PT1H"}]}))
    refused = project.run("--run-id", "r1")
    assert (refused.exit_code, refused.code) == (2, "DPONE_INTERVAL_VALUE_MISSING")
    for end, exit_code in (("2020-01-01T01:00:00Z", 0), ("2020-01-01T01:00:01Z", 1)):
        finished = project.run("--interval-start", "2020-01-01T00:00:00Z", "--interval-end", end)
        assert finished.exit_code == exit_code, finished.stdout
