"""One process whose key ranges are tasks of their own: verify, plan, one pod for each partition, publish, outcome gate.

The manifest says `source.options.partitioning: {..., airflow: mapped}`. Copy this file beside `orders.run_spec.json`
(compiled by `dpone gitops airflow run-spec`) and change what is marked. A run-spec without a mapped step is refused.
"""

from datetime import UTC, datetime
from pathlib import Path

# Airflow pre-imports modules named literally in a DAG file before it forks: parsing drops from seconds to 0.1 s.
import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG

from dpone_airflow.tasks import load_mapped_run_spec, wire_dpone_gitops_task_group

DAG_ID = "orders"  # change: the name of the DAG
RUN_SPEC = "orders.run_spec.json"  # change: the run-spec beside this file
SCHEDULE = None  # change: for example "0 5 * * *"

with DAG(
    DAG_ID,
    schedule=SCHEDULE,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # two runs at once would compete for one target
    max_active_tasks=16,  # change: pods at once; partitioning.workers bounds the partitions among them
    tags=["dpone"],
) as dag:
    run_spec = load_mapped_run_spec(Path(__file__).parent / RUN_SPEC)
    step_tasks, outcome_gate = wire_dpone_gitops_task_group(dag=dag, run_spec=run_spec)
    # step_tasks["transfer_partition"] is the mapped task, step_tasks["dpone_run_<process>"] the one that publishes
