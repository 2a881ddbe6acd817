"""The project of these tests as Airflow DAGs; one scenario is one run-spec folder named in SCENARIOS."""

import os
from datetime import UTC, datetime
from pathlib import Path

import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG

from dpone_airflow.tasks import wire_dpone_gitops_task_group, wire_dpone_gitops_task_with_gate

ROOT = Path(os.environ["SCENARIO_ROOT"])

for scenario in os.environ["SCENARIOS"].split(","):
    with DAG(scenario, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), max_active_runs=1) as dag:
        wire = wire_dpone_gitops_task_with_gate if scenario.endswith("one_task") else wire_dpone_gitops_task_group
        wire(
            dag=dag,
            run_spec=ROOT / f"{scenario}.run_spec.json",
            outlets=True,
        )
    globals()[f"dag_{scenario}"] = dag
