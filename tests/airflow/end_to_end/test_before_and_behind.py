"""What stands before and behind a process: a branch that skips it, a leaf behind its gate, arguments of the whole DAG.

Real dag.test() runs of tasks without pods where the process is skipped or broken. Contract: AIR-44, AIR-46, AIR-47.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.airflow_environment import AirflowEnvironment
from tests.spec.contracts.documents import run_spec_document

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(400)]

PROVIDER = Path(__file__).parents[1] / "provider"
DAG_FILE = """
from datetime import UTC, datetime
from pathlib import Path
import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG, BaseOperator
from airflow.providers.standard.operators.python import ShortCircuitOperator
from dpone_airflow.tasks import load_run_spec, watch_outcome_gates, wire_dpone_gitops_task_group

class Marks(BaseOperator):
    def execute(self, context):
        return self.task_id

SPEC = load_run_spec(Path(__file__).parent / "whole.spec.json")
AT = {"schedule": None, "start_date": datetime(2026, 1, 1, tzinfo=UTC), "max_active_runs": 1}

with DAG("skipped", **AT) as dag_skipped:
    decides = ShortCircuitOperator(
        task_id="decides", python_callable=lambda: False, ignore_downstream_trigger_rules=False
    )
    decides >> wire_dpone_gitops_task_group(dag=dag_skipped, run_spec=SPEC, outlets=True).group

for name in ("leaf", "watched"):
    with DAG(name, **AT) as dag:
        wired = wire_dpone_gitops_task_group(dag=dag, run_spec="absent.spec.json")
        wired.group >> Marks(task_id="cleans_up", trigger_rule="all_done")
        if name == "watched":
            watch_outcome_gates(wired.gate, dag=dag)
    globals()[f"dag_{name}"] = dag
"""
DEFAULTS = """
from datetime import UTC, datetime, timedelta
import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG
from dpone_airflow.tasks import wire_dpone_gitops_task_group

DEFAULTS = {
    "owner": "dwh",
    "retries": 9,
    "trigger_rule": "all_done",
    "execution_timeout": timedelta(seconds=1),
    "skip_on_exit_code": [1],
    "base_container_name": "other",
    "get_logs": False,
    "do_xcom_push": False,
}
with DAG("orders", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), default_args=DEFAULTS) as dag:
    wire_dpone_gitops_task_group(dag=dag)
"""


@pytest.fixture(scope="module")
def runs(airflow_environment: AirflowEnvironment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = airflow_environment.dags_folder
    dag_file, spec = folder / "before_and_behind.py", folder / "whole.spec.json"
    dag_file.write_text(DAG_FILE, encoding="utf-8")
    spec.write_text(json.dumps(run_spec_document(asset="x-dpone://dwh/raw/flights")), encoding="utf-8")
    result = tmp_path_factory.mktemp("runs") / "result.json"
    airflow_environment.run_script(PROVIDER / "run_scenarios.py", str(dag_file), str(result))
    dag_file.unlink()
    spec.unlink()
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found


def states(run: dict[str, Any]) -> dict[str, str]:
    return {name: task["state"] for name, task in run["tasks"].items()}


def test_a_process_that_a_short_circuit_skips_skips_its_gate_and_updates_no_asset(runs: dict[str, Any]) -> None:
    run = runs["skipped"]
    found = states(run)
    assert "success" in run["state"] and found.pop("decides") == "success"
    assert set(found.values()) == {"skipped"} and "outcome_gate" in found
    assert run["assets"] == []


def test_a_leaf_that_runs_in_any_case_hides_a_failed_gate_and_a_watcher_shows_it(runs: dict[str, Any]) -> None:
    assert "success" in runs["leaf"]["state"] and states(runs["leaf"])["outcome_gate"] == "failed"
    assert "failed" in runs["watched"]["state"] and states(runs["watched"])["outcome_watcher"] == "failed"
    assert states(runs["watched"])["cleans_up"] == "success"


def test_arguments_of_the_whole_dag_do_not_reach_what_decides_the_truth(
    airflow_environment: AirflowEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "orders.py").write_text(DEFAULTS, encoding="utf-8")
    (tmp_path / "orders.run_spec.json").write_text(json.dumps(run_spec_document()), encoding="utf-8")
    result = tmp_path / "result.json"
    airflow_environment.run_script(PROVIDER / "parse_dags.py", str(tmp_path), str(result))
    dag = json.loads(result.read_text(encoding="utf-8"))["dags"]["orders"]
    steps = {name: task for name, task in dag["tasks"].items() if not name.endswith("outcome_gate")}
    assert {task["trigger_rule"] for task in steps.values()} == {"all_success"}
    assert {task["do_xcom_push"] for task in steps.values()} == {True}
    assert all(task["retries"] < 9 and task["execution_timeout_seconds"] > 1 for task in steps.values())
    assert all("base" in {one["name"] for one in task["pod"]["spec"]["containers"]} for task in steps.values())
    (document,) = dag["groups"].values()
    assert "default_args without effect, the run-spec decides: base_container_name, do_xcom_push" in document
    assert {task["owner"] for task in dag["read_back"]["tasks"].values()} == {"dwh"}, "what it does not decide arrives"
