"""One DAG per thing that can happen to a task's process; its load waits for a file before it changes anything."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.cncf.kubernetes.callbacks import KubernetesPodOperatorCallback
from airflow.providers.common.compat.sdk import DAG

from dpone_airflow.tasks import wire_dpone_gitops_task_group, wire_dpone_gitops_task_with_gate
from dpone_core.contracts.run_spec import parse_run_spec

RUN_SPEC = parse_run_spec((Path(__file__).parent / "workers.spec.json").read_text())
NAMES = json.loads(os.environ["WORKER_SCENARIOS"])
ADVICE = json.loads(os.environ["ADVICE_SCENARIOS"])


class SaysWhoRuns(KubernetesPodOperatorCallback):
    """Writes the id of the process that runs the task, once it follows its pod."""

    @staticmethod
    def on_pod_starting(*, pod, operator, context, **_):
        ti = context["ti"]
        file = Path(os.environ["WORKER_DIRECTORY"]) / f"{ti.dag_id}.{ti.try_number}.pid"
        file.with_suffix(".new").write_text(str(os.getpid()))
        file.with_suffix(".new").rename(file)


STEPS = parse_run_spec((Path(__file__).parent / "steps.spec.json").read_text())
for name in ADVICE:
    with DAG(name, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), max_active_runs=1) as dag:
        wire_dpone_gitops_task_group(dag=dag, run_spec=STEPS)
    globals()[f"dag_{name}"] = dag

for name in NAMES:
    with DAG(name, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), max_active_runs=1) as dag:
        load, _ = wire_dpone_gitops_task_with_gate(dag=dag, run_spec=RUN_SPEC)
        load.callbacks = [SaysWhoRuns]
    globals()[f"dag_{name}"] = dag
