"""Cost of parsing DAGs from run-specs, against the same DAGs written by hand with bare KubernetesPodOperators.

    python parse_cost.py [--dags 200] [--repeat 7]

200 DAGs of 5 tasks. Both forms are built in this one process after all imports, in turn, with the garbage collector off
while the clock of CPU time runs: it is what a parse adds to its imports. Reading the run-spec files is part of it.
Airflow's home is a directory that is deleted afterwards. The last line printed is one JSON object.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dpone_core.contracts.run_spec import parse_run_spec, render_run_spec

IMAGE = "registry.example/dpone@sha256:" + "0" * 64
FINGERPRINT = "sha256:" + "1" * 64
ENVIRONMENT = {
    "DPONE_PROJECT_DIR": "/opt/dpone/bundle",
    "DPONE_RUN_SPEC_FINGERPRINT": FINGERPRINT,
    "DPONE_DAG_ID": "{{ ti.dag_id }}",
    "DPONE_DAG_RUN_ID": "{{ ti.run_id }}",
    "DPONE_TRY_NUMBER": "{{ ti.try_number }}",
    "DPONE_FIRST_TRY": "{{ ti.max_tries - task.retries + 1 }}",
    "DPONE_UPSTREAM": "{{ {'a': (ti.xcom_pull(task_ids='a', map_indexes=-1) or {}).get('digest')} | tojson }}",
    "DPONE_MAP_INDEX": "{{ ti.map_index }}",
    "DPONE_LOGICAL_DATE": "{{ dag_run.logical_date.isoformat() if dag_run.logical_date else '' }}",
    "DPONE_INTERVAL_START": "{{ dag_run.data_interval_start.isoformat() if dag_run.data_interval_start else '' }}",
    "DPONE_INTERVAL_END": "{{ dag_run.data_interval_end.isoformat() if dag_run.data_interval_end else '' }}",
}
RECEIPT = ["--receipt-path", "/airflow/xcom/return.json"]
START = datetime(2026, 1, 1, tzinfo=UTC)


def run_spec(process: str) -> dict[str, Any]:
    """verify, two pre-hooks, load, post-hook."""
    verify = step("bundle_verify", "bundle_verify", [], ["dpone", "gitops", "verify"])
    hooks = [hook_step("pre_hook", name, ["bundle_verify"]) for name in ("refresh", "analyze")]
    load = step(
        f"dpone_run_{process}",
        "load",
        [one["step_id"] for one in hooks],
        ["dpone", "run", f"{process}.yaml", "--separate-hooks", "receipts", "--format", "json"],
    )
    load |= {"receipts_from": load["depends_on"], "secret_env": [secret("SHOP"), secret("WAREHOUSE")]}
    return {
        "schema": "dpone.run_spec.v1",
        "process": process,
        "manifest": f"{process}.yaml",
        "image": IMAGE,
        "pack": f"{process}.pack.json",
        "pack_fingerprint": FINGERPRINT,
        "policy_snapshot_id": FINGERPRINT,
        "platform": {"namespace": "default"},
        "steps": [verify, *hooks, load, hook_step("post_hook", "optimize", [load["step_id"]])],
    }


def step(step_id: str, kind: str, depends_on: list[str], argv: list[str]) -> dict[str, Any]:
    return {
        "step_id": step_id,
        "kind": kind,
        "depends_on": depends_on,
        "timeout_seconds": 900,
        "retries": 1,
        "without_receipt": "retry",
        "argv": [*argv, *RECEIPT],
    }


def hook_step(phase: str, hook_id: str, depends_on: list[str]) -> dict[str, Any]:
    argv = ["dpone", "hooks", "execute", "m.yaml", "--phase", phase, "--hook-id", hook_id]
    reference = {"phase": phase, "id": hook_id, "kind": "source_refresh", "sql_hash": FINGERPRINT}
    made = step(f"{phase}_{hook_id}", "hook", depends_on, argv)
    return made | {"secret_env": [secret("SHOP")], "hook": reference}


def secret(ref: str) -> dict[str, str]:
    return {"name": f"DPONE_CONN_{ref}", "secret": "dpone-orders", "key": ref.lower()}


def from_run_specs(directory: Path) -> list[Any]:
    """What `dag_factories/many_run_specs.py` does."""
    from airflow.providers.common.compat.sdk import DAG

    from dpone_airflow.tasks import load_run_specs, wire_dpone_gitops_task_group

    specs = load_run_specs(directory)
    dags = []
    for dag_id, spec in specs.items():
        with DAG(dag_id, schedule=None, start_date=START, catchup=False, max_active_runs=1) as dag:
            wire_dpone_gitops_task_group(dag=dag, run_spec=spec)
        dags.append(dag)
    return dags


def pod_task(spec: dict[str, Any], one: dict[str, Any]) -> Any:
    """A bare operator with the arguments that dpone gives its own."""
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
    from airflow.providers.cncf.kubernetes.secret import Secret

    return KubernetesPodOperator(
        task_id=one["step_id"],
        task_display_name=one["step_id"],
        doc_md=f"**{one['step_id']}** of {spec['process']}",
        name=one["step_id"].replace("_", "-"),
        namespace="default",
        image=spec["image"],
        cmds=one["argv"][:1],
        arguments=one["argv"][1:],
        env_vars={**ENVIRONMENT, "DPONE_STEP_ID": one["step_id"]},
        secrets=[Secret("env", s["name"], s["secret"], s["key"]) for s in one.get("secret_env", [])],
        labels={"dpone_process": spec["process"], "dpone_step": one["step_id"], "dpone_version": "0.1.0"},
        annotations={},
        retries=one["retries"],
        retry_delay=timedelta(seconds=60),
        execution_timeout=timedelta(seconds=600 + one["timeout_seconds"]),
        active_deadline_seconds=780 + one["timeout_seconds"],
        startup_timeout_seconds=600,
        startup_check_interval_seconds=5,
        termination_grace_period=60,
        termination_message_policy="FallbackToLogsOnError",
        automount_service_account_token=False,
        on_finish_action="delete_pod",
        on_kill_action="delete_pod",
        deferrable=False,
        poll_interval=10.0,
        do_xcom_push=True,
        log_pod_spec_on_failure=False,
        log_events_on_failure=True,
    )


def by_hand(specs: list[dict[str, Any]]) -> list[Any]:
    """The same pods in the same order, without dpone_airflow; the last task is an EmptyOperator that judges nothing."""
    from airflow.providers.common.compat.sdk import DAG, TaskGroup
    from airflow.providers.standard.operators.empty import EmptyOperator

    dags = []
    for spec in specs:
        dag = DAG(spec["process"], schedule=None, start_date=START, catchup=False, max_active_runs=1)
        with dag, TaskGroup(f"group_{spec['process']}"):
            tasks: dict[str, Any] = {}
            end = EmptyOperator(task_id="end", trigger_rule="all_done")
            for one in spec["steps"]:
                task = tasks[one["step_id"]] = pod_task(spec, one)
                for needed in one["depends_on"]:
                    tasks[needed] >> task
                task >> end
        dags.append(dag)
    return dags


def seconds_of(build: Callable[[], list[Any]], dags: int) -> float:
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        built = build()
        seconds = time.process_time() - started
    finally:
        gc.enable()
    assert len(built) == dags and all(len(dag.tasks) == 6 for dag in built)
    return seconds


def measured(directory: Path, dags: int, repeat: int) -> dict[str, object]:
    """Medians after one uncounted build of each, and the median of the ratios of neighbours."""
    specs = [run_spec(f"process_{number:03}") for number in range(dags)]
    for spec in specs:
        compiled = render_run_spec(parse_run_spec(json.dumps(spec)))
        (directory / f"{spec['process']}.run_spec.json").write_bytes(compiled)
    forms = (lambda: by_hand(specs), lambda: from_run_specs(directory))
    pairs = [[seconds_of(form, dags) for form in forms] for _ in range(repeat + 1)][1:]
    hand, spec_seconds = (statistics.median(pair[index] for pair in pairs) for index in (0, 1))
    return {
        "dags": dags,
        "tasks": dags * 5,
        "by_hand_seconds": round(hand, 3),
        "run_spec_seconds": round(spec_seconds, 3),
        "ratio": round(statistics.median(pair[1] / pair[0] for pair in pairs), 2),
        "runs": repeat,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dags", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["AIRFLOW_HOME"] = home
        os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
        directory = Path(home) / "dags"
        directory.mkdir()
        result = measured(directory, arguments.dags, arguments.repeat)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
