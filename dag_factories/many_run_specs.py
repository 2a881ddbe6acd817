"""Every `<dag_id>.run_spec.json` beside this file as a DAG of its own.

One file for many DAGs parses faster than many files. In the place of a run-spec that cannot be used stands a DAG of
the same name with a task that fails and says why (tag dpone-broken); the other DAGs load. In a task process only the
DAG that is needed is built.
"""

from datetime import UTC, datetime
from pathlib import Path

# Airflow pre-imports modules named literally in a DAG file before it forks: parsing drops from seconds to 0.1 s.
import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG, get_parsing_context

from dpone_airflow.tasks import load_run_specs, wire_dpone_gitops_task_group

SCHEDULES = {}  # change: dag id -> schedule, for example {"orders": "0 5 * * *"}

wanted = get_parsing_context().dag_id  # in a task process the one DAG that is needed, else None
run_specs = load_run_specs(Path(__file__).parent, wanted=wanted)

for dag_id, run_spec in run_specs.items():
    with DAG(
        dag_id,
        schedule=SCHEDULES.get(dag_id),
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,  # two runs at once would compete for one target
        tags=["dpone"],
    ) as dag:
        wire_dpone_gitops_task_group(dag=dag, run_spec=run_spec)
    globals()[f"dag_{dag_id}"] = dag
