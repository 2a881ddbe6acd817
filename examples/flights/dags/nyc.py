"""The flights example as DAGs: every step a task, all of it in one task, the dimensions, and a load that fails.

With a PostgreSQL server also a load of which every key range is a pod of its own.

Run-specs are read from the folder named by DPONE_RUN_SPECS (default: beside this file).
"""

import os
from datetime import UTC, datetime
from pathlib import Path

# Airflow pre-imports modules named literally in a DAG file before it forks: parsing drops from seconds to 0.1 s.
import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG

from dpone_airflow.tasks import load_run_specs, wire_dpone_gitops_task_group, wire_dpone_gitops_task_with_gate

RUN_SPECS = Path(os.environ.get("DPONE_RUN_SPECS") or Path(__file__).parent)

run_specs = load_run_specs(RUN_SPECS)


def nyc_dag(dag_id, *tags):
    return DAG(
        dag_id,
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["dpone", *tags],
    )


if "flights" in run_specs:
    with nyc_dag("flights") as flights:
        wire_dpone_gitops_task_group(dag=flights, run_spec=run_specs["flights"])
    with nyc_dag("flights_one_task") as flights_one_task:
        wire_dpone_gitops_task_with_gate(dag=flights_one_task, run_spec=run_specs["flights"])

if "carriers_lake" in run_specs:
    with nyc_dag("carriers_lake", "fails on purpose") as carriers_lake:
        wire_dpone_gitops_task_group(dag=carriers_lake, run_spec=run_specs["carriers_lake"])

if "flights_ranges" in run_specs:
    with nyc_dag("flights_ranges", "a pod for each key range") as flights_ranges:
        wire_dpone_gitops_task_group(dag=flights_ranges, run_spec=run_specs["flights_ranges"])

dimension_specs = {name: spec for name, spec in run_specs.items() if name.startswith("main_")}
if dimension_specs:
    with nyc_dag("dimensions") as dimensions:
        for name, spec in dimension_specs.items():
            wire_dpone_gitops_task_group(dag=dimensions, run_spec=spec, group_id=name)
