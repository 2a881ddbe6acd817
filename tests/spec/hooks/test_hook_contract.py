"""Which hook statements need a flag, which kinds exist, and what a script may not do to its transaction."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.spec.builders import Project, flow, hook, hooks, project_with_log
from tests.spec.gitops.test_bundles import PLATFORM, SEPARATE
from tests.spec.manifest.manifests import codes_and_paths

CHANGES = [
    "INSERT INTO t VALUES (1)",
    "UPDATE t SET a = 1",
    "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = 1",
    "CREATE TABLE t (a int)",
    "ALTER TABLE t ADD COLUMN b int",
    "DROP TABLE t",
    "TRUNCATE TABLE t",
    "EXEC p_refresh",
    "DELETE FROM t",
]
KINDS = [
    "source_refresh",
    "source_materialization",
    "source_maintenance",
    "target_preparation",
    "target_maintenance",
    "data_quality_probe",
    "notification",
    "custom",
]


@pytest.mark.parametrize("sql", CHANGES)
@pytest.mark.parametrize("connector", ["source", "sink"])
def test_a_statement_that_changes_data_needs_the_flag_on_either_side(tmp_path: Path, sql: str, connector: str) -> None:
    silent = {"id": "h", "type": "sql", "connector": connector, "sql": sql}
    found = codes_and_paths(tmp_path, flow(source__options=hooks(pre=[silent])))
    assert found == [("DPONE_HOOK_MUTATION_NOT_DECLARED", "source.options.hooks.pre_hook[0].sql")]
    assert codes_and_paths(tmp_path, flow(source__options=hooks(pre=[{**silent, "mutates_source": True}]))) == []


@pytest.mark.parametrize("kind", KINDS)
def test_each_of_the_eight_kinds_is_accepted(tmp_path: Path, kind: str) -> None:
    manifest = flow(source__options=hooks(pre=[{"id": "h", "type": "sql", "kind": kind, "sql": "SELECT 1"}]))
    assert codes_and_paths(tmp_path, manifest) == []


@pytest.fixture(name="project")
def shop_with_log(tmp_path: Path) -> Project:
    return project_with_log(tmp_path)


@pytest.mark.parametrize(
    ("connector", "sql", "autocommit"),
    [
        ("source", "BEGIN; INSERT INTO log VALUES ('lost')", True),
        ("source", "INSERT INTO log VALUES ('early'); COMMIT", False),
        ("sink", "BEGIN; CREATE TABLE scratch (a INTEGER)", True),
        ("sink", "CREATE TABLE scratch (a INTEGER); COMMIT", False),
    ],
)
def test_a_script_that_leaves_its_transaction_in_another_state_fails_and_nothing_is_read(
    project: Project, connector: str, sql: str, autocommit: bool
) -> None:
    project.written(flow(source__options=hooks(pre=[hook("h", sql, connector=connector, autocommit=autocommit)])))
    execution = project.execute("r1")
    document = json.loads(json.dumps(execution.report.as_json()))
    assert document["result"]["error_code"] == "hook_failed"
    steps = {step["step_id"]: step for step in document["result"]["details"]["load_steps"]}
    assert steps["h"]["details_json"]["reason"] == "hook_transaction_state_changed"
    assert "source_described" not in steps
    assert project.target("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'raw'") == [(0,)]


def test_a_script_without_autocommit_is_undone_as_a_whole_when_it_fails(project: Project) -> None:
    sql = "INSERT INTO log VALUES ('first'); INSERT INTO absent VALUES (1)"
    project.written(flow(source__options=hooks(pre=[hook("h", sql, autocommit=False)])))
    assert not project.execute("r1").report.passed
    with sqlite3.connect(project.root / "shop.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)


def test_a_run_spec_lists_separate_hooks_in_dependency_order_whatever_the_authored_order(project: Project) -> None:
    project.written(PLATFORM, "platform.yaml")
    (project.root / "dpone.yaml").touch()
    last = hook("last", "DELETE FROM log", depends_on=["middle"], **SEPARATE)
    middle = hook("middle", "DELETE FROM log", depends_on=["first"], **SEPARATE)
    first = hook("first", "DELETE FROM log", **SEPARATE)
    project.written(flow(source__options=hooks(pre=[last, middle, first])))
    assert project.dpone("gitops", "pack", "m.yaml", "--output", "m.pack.json").exit_code == 0
    options = ("--pack", "m.pack.json", "--platform", "platform.yaml")
    compiled = project.dpone("gitops", "airflow", "run-spec", "m.yaml", *options)
    assert compiled.exit_code == 0, compiled.stdout
    assert [step["step_id"] for step in json.loads(compiled.stdout)["steps"]] == [
        "bundle_verify",
        "pre_hook_first",
        "pre_hook_middle",
        "pre_hook_last",
        "dpone_run_orders",
    ]
