"""Failed pods that are kept for a look are never found in place of the pod of the next try (POD-08, POD-09).

A real dag.test() run: the first try fails where a repeat is safe, its pod stays, the second try has a pod of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dpone_airflow.local.fixtures import Fixtures
from dpone_airflow.local.runner import LocalPodRunner
from dpone_airflow.pod_args import Platform
from dpone_core.errors import ETLConfigurationError
from tests.airflow.airflow_environment import CHECKOUT, AirflowEnvironment
from tests.spec.contracts.documents import load_step, run_spec_document, verify_step

HERE = Path(__file__).parent
DAG_FILE = """
from datetime import UTC, datetime
from pathlib import Path
import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG
from dpone_airflow.tasks import load_run_spec, wire_dpone_gitops_task_with_gate

with DAG("safe_retry", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), max_active_runs=1) as dag_kept:
    wire_dpone_gitops_task_with_gate(dag=dag_kept, run_spec=load_run_spec(Path(__file__).parent / "kept.spec.json"))
"""
KEPT = {
    "namespace": "default",
    "startup_check_interval_seconds": 1,
    "startup_timeout_seconds": 30,
    "retry_delay_seconds": 0,
    "on_finish_action": "delete_succeeded_pod",
}


@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_kept_pod_is_not_the_pod_of_the_next_try(airflow_environment: AirflowEnvironment, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    stand_in = commands / "dpone"
    program = f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} {HERE / "stand_in_dpone.py"} "$@"\n'
    stand_in.write_text(program, encoding="utf-8")
    stand_in.chmod(0o755)
    folder, result = airflow_environment.dags_folder, tmp_path / "result.json"
    (folder / "kept.py").write_text(DAG_FILE, encoding="utf-8")
    steps = [verify_step(), load_step(depends_on=["bundle_verify"], receipts_from=[])]
    document = run_spec_document(steps=steps, platform=KEPT)
    (folder / "kept.spec.json").write_text(json.dumps(document), encoding="utf-8")
    fixtures = Fixtures(secrets={"dpone-dwh": {"uri": "dwh://etl"}})
    with LocalPodRunner(root=tmp_path / "pods", fixtures=fixtures, search_path=(commands,)) as runner:
        output = airflow_environment.run_script(
            HERE / "run_scenarios.py",
            str(folder / "kept.py"),
            str(result),
            variables={"KUBECONFIG": str(runner.kubeconfig_path)},
            timeout_seconds=240,
        )
        left = runner.state()["pods"]
    (folder / "kept.py").unlink()
    found = json.loads(result.read_text(encoding="utf-8"))["safe_retry"]
    load = found["tasks"]["dpone_run_flights"]
    assert (load["state"], load["try_number"]) == ("success", 2) and "success" in found["state"]
    assert "More than one pod" not in output
    assert [pod["metadata"]["labels"]["try_number"] for pod in left] == ["1"], "the failed one is there to be looked at"


@pytest.mark.airflow
@pytest.mark.parametrize("status", [403, 429])
def test_a_pod_that_cannot_be_read_when_its_task_resumes_is_no_pod_that_was_never_made(
    airflow_environment: AirflowEnvironment, tmp_path: Path, status: int
) -> None:
    steps = [verify_step(), load_step(depends_on=["bundle_verify"], receipts_from=[], without_receipt="stop")]
    spec, result = tmp_path / "load.spec.json", tmp_path / "result.json"
    spec.write_text(json.dumps(run_spec_document(steps=steps, platform=KEPT)), encoding="utf-8")
    with LocalPodRunner(root=tmp_path / "pods") as runner:
        runner.fail_next("GET", r"/api/v1/namespaces/default/pods/gone", status, 50)
        airflow_environment.run_script(
            HERE / "resumed_task.py",
            str(spec),
            str(result),
            variables={"KUBECONFIG": str(runner.kubeconfig_path), "AIRFLOW__WORKERS__API_RETRIES": "1"},
        )
    found = json.loads(result.read_text(encoding="utf-8"))
    assert found["raised"] == "AirflowFailException", "a load without receipt stops"
    assert found["left"]["dpone_step_end"]["not_started"] is None


@pytest.mark.parametrize("keyword", ["reattach_on_restart", "durable", "is_delete_operator_pod", "random_name_suffix"])
def test_how_a_pod_is_found_again_is_not_for_a_platform_to_change(keyword: str) -> None:
    with pytest.raises(ETLConfigurationError, match=f"'{keyword}' is set by dpone"):
        Platform.of({"kubernetes_pod_operator": {keyword: False}})


@pytest.mark.parametrize("label", ["dag_id", "task_id", "run_id", "map_index", "try_number", "already_checked"])
def test_nor_are_the_labels_that_tell_pods_apart(label: str) -> None:
    with pytest.raises(ETLConfigurationError, match="labels"):
        Platform.of({"labels": {label: "x"}})


def test_a_finished_pod_that_nobody_removes_is_no_choice() -> None:
    with pytest.raises(ETLConfigurationError, match="on_finish_action"):
        Platform.of({"on_finish_action": "keep_pod"})
