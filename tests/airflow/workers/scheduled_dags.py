"""One DAG per way in which Airflow starts, holds back or interrupts runs; a load writes down which run it was."""

from datetime import UTC, datetime
from pathlib import Path

import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from dpone_airflow.tasks import watch_outcome_gates, wire_dpone_gitops_task_group
from dpone_core.contracts.run_spec import parse_run_spec

HERE = Path(__file__).parent
STEPS, ONCE, MAPPED = (parse_run_spec((HERE / f"{name}.spec.json").read_text()) for name in ("steps", "once", "mapped"))
JANUARY = {"start_date": datetime(2026, 1, 1, tzinfo=UTC), "catchup": False}
INTERVALS = CronDataIntervalTimetable("@daily", timezone="UTC")
DAILY = {**JANUARY, "schedule": INTERVALS, "end_date": datetime(2026, 1, 3, tzinfo=UTC)}

with DAG("scheduled_backfill", max_active_runs=1, **DAILY) as dag_backfill:
    wire_dpone_gitops_task_group(dag=dag_backfill, run_spec=STEPS)

with DAG("scheduled_one_at_a_time", schedule=None, max_active_runs=1, **JANUARY) as dag_one:
    wire_dpone_gitops_task_group(dag=dag_one, run_spec=STEPS)

with DAG("scheduled_side_by_side", schedule=None, max_active_runs=2, **JANUARY) as dag_two:
    wire_dpone_gitops_task_group(dag=dag_two, run_spec=STEPS)

with DAG(
    "scheduled_after_past", schedule=None, max_active_runs=2, default_args={"depends_on_past": True}, **JANUARY
) as dag_past:
    wire_dpone_gitops_task_group(dag=dag_past, run_spec=STEPS)

for name, spec in (("scheduled_preempted", STEPS), ("scheduled_preempted_once", ONCE)):
    with DAG(name, schedule=None, max_active_runs=1, **JANUARY) as dag:
        wire_dpone_gitops_task_group(dag=dag, run_spec=spec)
    globals()[f"dag_{name}"] = dag

with DAG("scheduled_trigger", schedule=None, max_active_runs=1, **JANUARY) as dag_trigger:
    wire_dpone_gitops_task_group(
        dag=dag_trigger, run_spec=STEPS, platform={"deferrable": True, "poll_interval_seconds": 1}
    )

with DAG("scheduled_mapped", schedule=None, max_active_runs=1, **JANUARY) as dag_mapped:
    wire_dpone_gitops_task_group(dag=dag_mapped, run_spec=MAPPED)

with DAG("scheduled_watched", schedule=None, max_active_runs=1, **JANUARY) as dag_watched:
    try:
        from airflow.providers.standard.operators.empty import EmptyOperator
    except ImportError:
        from airflow.operators.empty import EmptyOperator

    group = wire_dpone_gitops_task_group(dag=dag_watched, run_spec=STEPS)
    group.group >> EmptyOperator(task_id="tidy_up", trigger_rule="all_done")
    watch_outcome_gates(group.gate, dag=dag_watched)

with DAG("scheduled_changed", schedule=None, max_active_runs=1, **JANUARY) as dag_changed:
    wire_dpone_gitops_task_group(dag=dag_changed, run_spec=HERE / "changing.spec.json")
