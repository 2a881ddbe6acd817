"""One DAG per scenario for the local pod runner; the DAG id selects what the load's pod does (stand_in_dpone)."""

import os
from datetime import UTC, datetime
from pathlib import Path

import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG

from dpone_airflow.pod_args import Platform
from dpone_airflow.tasks import load_run_spec, wire_dpone_gitops_task_group, wire_dpone_gitops_task_with_gate

RUN_SPEC = load_run_spec(Path(__file__).parent / "flights.spec.json")

for name in os.environ["SCENARIOS"].split(","):
    with DAG(
        name,
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        max_active_runs=1,
        render_template_as_native_obj=name == "native_templates",
    ) as dag:
        platform = Platform(
            namespace="default",
            startup_check_interval_seconds=1,
            startup_timeout_seconds=30,
            retry_delay_seconds=0,
            poll_interval_seconds=1,
            termination_grace_seconds=2,
            deferrable=name.endswith("_deferred"),
        )
        if name == "with_gate":
            wire_dpone_gitops_task_with_gate(dag=dag, run_spec=RUN_SPEC, platform=platform)
        else:
            wire_dpone_gitops_task_group(dag=dag, run_spec=RUN_SPEC, platform=platform)
    globals()[f"dag_{name}"] = dag
