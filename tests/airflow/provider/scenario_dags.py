"""One DAG per scenario for the local pod runner; the DAG id selects what the load's pod does (stand_in_dpone)."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.cncf.kubernetes.callbacks import KubernetesPodOperatorCallback
from airflow.providers.common.compat.sdk import DAG, task
from kubernetes.client.exceptions import ApiException

from dpone_airflow.gate import DponeOutcomeGateOperator
from dpone_airflow.outcome import step_contract
from dpone_airflow.pod_args import Platform
from dpone_airflow.tasks import load_run_spec, wire_dpone_gitops_task_group, wire_dpone_gitops_task_with_gate
from dpone_core.contracts.step_receipt import StepCounters, StepIdentity, StepResult, seal, upstream_fingerprint
from dpone_core.model.vocabulary import StepStatus


class KillAtStart(KubernetesPodOperatorCallback):
    """Interrupts the task while its pod runs, as a SIGTERM of the worker does."""

    @staticmethod
    def on_pod_starting(*, operator, **_):
        operator.on_kill()


class KillAtTheEnd(KubernetesPodOperatorCallback):
    """Interrupts the task when its pod has ended and its receipt is read."""

    @staticmethod
    def on_pod_cleanup(*, operator, **_):
        operator.on_kill()


class LosesTheApi(KubernetesPodOperatorCallback):
    """Fails the task with a client error after its pod has ended, before its receipt is read."""

    @staticmethod
    def on_pod_completion(**_):
        raise ApiException(status=500)


CALLBACKS = {"interrupted": KillAtStart, "interrupted_at_the_end": KillAtTheEnd, "api_lost": LosesTheApi}
TIMEOUTS = {"too_long": timedelta(seconds=3), "stopped_in_time": timedelta(seconds=3)}
RUN_SPEC = load_run_spec(Path(__file__).parent / "flights.spec.json")
MAPPED = load_run_spec(Path(__file__).parent / "ranges.spec.json")

CONTRACTS = {step.step_id: step_contract(MAPPED, step, "0.1.0") for step in MAPPED.steps}


def receipt_of(contract, ti, partitions, plan=None):
    """What a step of this run would leave that succeeded, behind the receipt of this plan."""
    now = datetime.now(UTC)
    identity = StepIdentity(
        kind=contract.kind,
        step_id=contract.step_id,
        process=contract.process,
        dag_id=ti.dag_id,
        dag_run_id=ti.run_id,
        run_id=ti.run_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        run_spec_fingerprint=contract.run_spec_fingerprint,
        pack_fingerprint=contract.pack_fingerprint,
        policy_snapshot_id=contract.policy_snapshot_id,
        transfer_plan="sha256:" + "a" * 64,
        partitions=partitions,
        upstream=upstream_fingerprint({"transfer_plan": plan["digest"]}) if plan else None,
    )
    ended = StepResult(status=StepStatus.SUCCEEDED, exit_code=0, started_at=now, finished_at=now)
    counted = StepCounters(extracted_rows=5, staged_rows=5)
    return seal(dpone_version="0.1.0", identity=identity, result=ended, counters=counted).wire()


for name in filter(None, os.environ.get("SCENARIOS", "").split(",")):
    with DAG(
        name,
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        max_active_runs=1,
        render_template_as_native_obj=name in ("native_templates", "mapped_native"),
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
        elif name == "stock_task":

            @task(task_id="dpone_run_flights")
            def ends_well_and_proves_nothing():
                return None

            contract = step_contract(RUN_SPEC, RUN_SPEC.load, "0.1.0")
            load = ends_well_and_proves_nothing()
            load >> DponeOutcomeGateOperator.of(
                task_id="outcome_gate", steps={"dpone_run_flights": contract}, run_spec_ref={"process": "flights"}
            )
        elif name == "mapped_stock":

            @task(task_id="transfer_plan")
            def plans(**context):
                return receipt_of(CONTRACTS["transfer_plan"], context["ti"], partitions=3)

            @task(task_id="transfer_partition")
            def stages(index, **context):
                """Ends well whatever it proves: index 1 leaves nothing, index 3 is none of the plan's."""
                partition, plan = CONTRACTS["transfer_partition"], context["ti"].xcom_pull(task_ids="transfer_plan")
                return receipt_of(partition, context["ti"], partitions=4, plan=plan) if index != 1 else None

            plan, partitions = plans(), stages.expand(index=[0, 1, 2, 3])
            gate = DponeOutcomeGateOperator.of(
                task_id="outcome_gate",
                steps={name: CONTRACTS[name] for name in ("transfer_plan", "transfer_partition")},
                run_spec_ref={"process": "flights"},
            )
            plan >> partitions >> gate
        else:
            spec = MAPPED if name.startswith("mapped") else RUN_SPEC
            tasks, _ = wire_dpone_gitops_task_group(dag=dag, run_spec=spec, platform=platform)
            if name in CALLBACKS:
                tasks["dpone_run_flights"].callbacks = [CALLBACKS[name]]
            if name in TIMEOUTS:
                tasks["dpone_run_flights"].execution_timeout = TIMEOUTS[name]
    globals()[f"dag_{name}"] = dag
