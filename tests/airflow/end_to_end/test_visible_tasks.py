"""The main job as visible Airflow tasks: verify -> pre-hook -> load -> post-hooks -> gate, each proven by receipt.

Real Airflow, real KubernetesPodOperators, real dpone in every pod, SQLite to DuckDB. Contract: DAG-01, DAG-04, DAG-05,
DAG-08.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpone_airflow.local.fixtures import Fixtures
from dpone_airflow.local.runner import LocalPodRunner
from dpone_airflow.local.volumes import Mount
from tests.airflow.airflow_environment import AirflowEnvironment

pytestmark = pytest.mark.airflow

HERE = Path(__file__).parent
RUN_SCENARIOS = HERE.parent / "provider" / "run_scenarios.py"
BIN = Path(os.environ.get("DPONE_TEST_POD_BIN") or Path(sys.executable).parent)
CANARY = "canary-secret-93b1"
HOOK, LOAD = "pre_hook_refresh_mart", "dpone_run_orders"
COUNT, BROKEN = "post_hook_count_rows", "post_hook_read_absent"
SCENARIOS = ("orders", "orders_one_task", "orders_tampered", "orders_too_few", "orders_post")

HOOK_SQL = """BEGIN;
DELETE FROM mart;
INSERT INTO mart SELECT id, amount FROM orders WHERE amount > 0;
INSERT INTO refreshes (at) VALUES (datetime('now'));
COMMIT;
"""
MANIFEST = """kind: dpone.flow.v1
name: orders
source:
  type: sqlite
  connection_ref: shop
  table: {{name: mart}}
  options:
    hooks:
      pre_hook:
        - id: refresh_mart
          kind: source_refresh
          type: sql
          connector: source
          sql_file: refresh.sql
          mutates_source: true
          retry_policy: none
          lineage: {{inputs: [main.orders], outputs: [main.mart]}}
          execution: {{cli: inline, airflow: separate_task}}
{post_hooks}sink:
  type: duckdb
  connection_ref: warehouse
  table: {{schema: raw, name: orders}}
  strategy: {{mode: full_refresh}}
quality:
  gates:
    - {{type: row_count_reconciliation}}
    - {{type: min_rows, threshold: {threshold}}}
  acceptance:
    enabled: true
    mode: required
    checks: {{row_count: true, null_counts: all_columns}}
"""
POST_HOOKS = """      post_hook:
        - id: read_absent
          kind: target_maintenance
          connector: sink
          sql: DELETE FROM raw.absent
          mutates_source: true
          depends_on: [count_rows]
          execution: {airflow: separate_task}
        - id: count_rows
          kind: target_maintenance
          connector: sink
          sql: >-
            CREATE TABLE IF NOT EXISTS raw.counted (found BIGINT);
            INSERT INTO raw.counted SELECT count(*) FROM raw.orders
          mutates_source: true
          execution: {airflow: separate_task}
"""
PLATFORM = """kind: dpone.platform.v1
image: "registry.example/dpone@sha256:{digest}"
connections:
  shop: {{secret: {scenario}, key: shop}}
  warehouse: {{secret: {scenario}, key: warehouse}}
defaults:
  namespace: default
  startup_check_interval_seconds: 1
  retry_delay_seconds: 1
  local_pod_runner: true
  bundle_root: /opt/dpone/{bundle}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One scenario: a bundle as an image would hold it, its source, its warehouse."""

    scenario: str
    root: Path

    @property
    def bundle(self) -> Path:
        return self.root / self.scenario / "bundle"

    @property
    def source(self) -> Path:
        return self.root / self.scenario / f"shop-{CANARY}.sqlite"

    @property
    def secrets(self) -> dict[str, str]:
        return {
            "shop": f"sqlite:///{self.source}",
            "warehouse": f"duckdb:///{self.root / self.scenario / 'warehouse.duckdb'}",
        }

    def make(self, *, threshold: int = 1, post_hooks: str = "") -> None:
        self.bundle.mkdir(parents=True)
        with sqlite3.connect(self.source) as database:
            database.executescript(
                "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, amount INTEGER NOT NULL);"
                "CREATE TABLE mart (id INTEGER NOT NULL PRIMARY KEY, amount INTEGER NOT NULL);"
                "CREATE TABLE refreshes (at TEXT NOT NULL);"
                "INSERT INTO orders VALUES (1, 10), (2, 20), (3, 0);"
            )
        database.close()
        (self.bundle / "dpone.yaml").write_text("# root\n")
        (self.bundle / "orders.yaml").write_text(MANIFEST.format(threshold=threshold, post_hooks=post_hooks))
        (self.bundle / "refresh.sql").write_text(HOOK_SQL)
        (self.bundle / "platform.yaml").write_text(
            PLATFORM.format(digest="0" * 64, scenario=self.scenario.replace("_", "-"), bundle=self.scenario)
        )
        self.dpone("gitops", "pack", "orders.yaml", "--output", "orders.pack.json")
        spec = str(self.root / f"{self.scenario}.run_spec.json")
        pack, platform = ("--pack", "orders.pack.json"), ("--platform", "platform.yaml")
        self.dpone("gitops", "airflow", "run-spec", "orders.yaml", *pack, *platform, "--output", spec)

    def dpone(self, *arguments: str) -> None:
        subprocess.run([str(BIN / "dpone"), *arguments], cwd=self.bundle, check=True, capture_output=True, timeout=60)

    def counted(self) -> list[tuple[int]]:
        with duckdb.connect(str(self.root / self.scenario / "warehouse.duckdb"), read_only=True) as database:
            return database.execute("SELECT found FROM raw.counted").fetchall()

    def refreshes(self) -> int:
        with sqlite3.connect(self.source) as database:
            count = database.execute("SELECT count(*) FROM refreshes").fetchone()[0]
        database.close()
        return int(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    results: dict[str, Any]
    output: str
    projects: dict[str, Project]

    def task(self, scenario: str, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.results[scenario]["tasks"][task_id]
        return found

    def states(self, scenario: str) -> dict[str, str]:
        return {name: task["state"] for name, task in self.results[scenario]["tasks"].items()}


@pytest.fixture(scope="module")
def runs(airflow_environment: AirflowEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """All scenarios in one Airflow process, one after another."""
    root = tmp_path_factory.mktemp("projects")
    projects = {scenario: Project(scenario=scenario, root=root) for scenario in SCENARIOS}
    for scenario, project in projects.items():
        project.make(
            threshold=100 if scenario == "orders_too_few" else 1,
            post_hooks=POST_HOOKS if scenario == "orders_post" else "",
        )
    tampered = projects["orders_tampered"].bundle / "refresh.sql"
    tampered.write_text(HOOK_SQL.replace("amount > 0", "amount > 15"))
    dag_file = airflow_environment.dags_folder / "visible_tasks.py"
    dag_file.write_text((HERE / "dags.py").read_text(encoding="utf-8"), encoding="utf-8")
    result = root / "result.json"
    with LocalPodRunner(
        root=root / "pods",
        fixtures=Fixtures(secrets={name.replace("_", "-"): project.secrets for name, project in projects.items()}),
        search_path=(BIN,),
        bundles=tuple(
            Mount(source=project.bundle, target=f"/opt/dpone/{name}", read_only=True)
            for name, project in projects.items()
        ),
    ) as runner:
        output = airflow_environment.run_script(
            RUN_SCENARIOS,
            str(dag_file),
            str(result),
            variables={
                "KUBECONFIG": str(runner.kubeconfig_path),
                "SCENARIOS": ",".join(SCENARIOS),
                "SCENARIO_ROOT": str(root),
            },
        )
    dag_file.unlink()
    return Runs(results=json.loads(result.read_text(encoding="utf-8")), output=output, projects=projects)


def test_every_step_is_a_task_and_the_gate_passes(runs: Runs) -> None:
    assert runs.states("orders") == {
        "bundle_verify": "success",
        HOOK: "success",
        LOAD: "success",
        "outcome_gate": "success",
    }
    assert runs.task("orders", "outcome_gate")["xcom"]["return_value"]["passed"] is True


def test_a_separate_hook_runs_once_per_dag_run(runs: Runs) -> None:
    assert runs.projects["orders"].refreshes() == 1


def test_the_single_task_form_runs_the_hook_inline_and_once(runs: Runs) -> None:
    assert runs.states("orders_one_task") == {LOAD: "success", f"{LOAD}_outcome_gate": "success"}
    assert runs.projects["orders_one_task"].refreshes() == 1


def test_the_load_receipt_says_what_was_loaded_and_is_bound_to_this_run(runs: Runs) -> None:
    receipt = runs.task("orders", LOAD)["xcom"]["return_value"]
    assert (receipt["extracted_rows"], receipt["staged_rows"], receipt["final_rows"]) == (2, 2, 2)
    assert (receipt["dag_id"], receipt["dag_run_id"]) == ("orders", runs.results["orders"]["run_id"])
    assert (receipt["gates_passed"], receipt["acceptance_sides"], receipt["status"]) == (2, 3, "succeeded")


def test_a_tampered_sql_file_fails_verification_and_nothing_downstream_runs(runs: Runs) -> None:
    assert runs.states("orders_tampered") == {
        "bundle_verify": "failed",
        HOOK: "upstream_failed",
        LOAD: "upstream_failed",
        "outcome_gate": "failed",
    }
    verdict = runs.task("orders_tampered", "outcome_gate")["xcom"]["return_value"]
    assert (verdict["primary_step"], verdict["primary_code"]) == ("bundle_verify", "DPONE_BUNDLE_MISMATCH")
    assert runs.projects["orders_tampered"].refreshes() == 0


def test_a_mismatch_is_permanent_and_not_retried(runs: Runs) -> None:
    assert runs.task("orders_tampered", "bundle_verify")["try_number"] == 1


def test_a_blocking_gate_fails_the_run_and_leaves_its_counts(runs: Runs) -> None:
    verdict = runs.task("orders_too_few", "outcome_gate")["xcom"]["return_value"]
    assert (verdict["primary_step"], verdict["primary_code"]) == (LOAD, "DPONE_QUALITY_GATES_FAILED")
    receipt = runs.task("orders_too_few", LOAD)["xcom"]["return_value"]
    assert (receipt["extracted_rows"], receipt["gates_failed"], receipt["target_state"]) == (2, 1, "not_mutated")


def test_a_post_hook_with_a_task_runs_once_and_behind_the_load(runs: Runs) -> None:
    assert runs.states("orders_post") == {
        "bundle_verify": "success",
        HOOK: "success",
        LOAD: "success",
        COUNT: "success",
        BROKEN: "failed",
        "outcome_gate": "failed",
    }
    assert runs.projects["orders_post"].counted() == [(2,)]


def test_a_failed_post_hook_fails_the_run_and_the_verdict_says_that_the_load_is_committed(runs: Runs) -> None:
    verdict = runs.task("orders_post", "outcome_gate")["xcom"]["return_value"]
    assert (verdict["passed"], verdict["primary_step"], verdict["primary_code"]) == (False, BROKEN, "hook_failed")
    assert (verdict["target_state"], verdict["final_rows"]) == ("mutation_returned_success", 2)
    assert verdict["retry_classification"] == "operator_verification_required"
    assert (runs.task("orders_post", BROKEN)["try_number"], runs.task("orders_post", LOAD)["try_number"]) == (1, 1)


def test_the_target_is_an_asset_that_only_a_gate_which_passes_updates(runs: Runs) -> None:
    updated = {scenario: runs.results[scenario]["assets"] for scenario in SCENARIOS}
    assert updated == {
        "orders": ["outcome_gate"],
        "orders_one_task": [f"{LOAD}_outcome_gate"],
        "orders_tampered": [],
        "orders_too_few": [],
        "orders_post": [],
    }


def test_no_secret_reaches_airflow(runs: Runs) -> None:
    assert CANARY not in json.dumps(runs.results)
    assert CANARY not in runs.output
