"""One process as one DAG of visible tasks: verify, hooks, load, outcome gate.

Copy this file beside `orders.run_spec.json` (compiled by `dpone gitops airflow run-spec`) and change what is marked.
The run-spec is read from `<dag_id>.run_spec.json` in this folder; in the place of a missing or broken one stands a
task that fails and says why.
"""

from datetime import UTC, datetime

# Airflow pre-imports modules named literally in a DAG file before it forks: parsing drops from seconds to 0.1 s.
import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG

from dpone_airflow.tasks import wire_dpone_gitops_task_group

DAG_ID = "orders"  # change: the name of the run-spec file
SCHEDULE = None  # change: for example "0 5 * * *"

with DAG(
    DAG_ID,
    schedule=SCHEDULE,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # two runs at once would compete for one target
    tags=["dpone"],
) as dag:
    step_tasks, outcome_gate = wire_dpone_gitops_task_group(dag=dag)
