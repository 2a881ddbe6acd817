"""One DAG per case: a stock KubernetesPodOperator and a gate that shows what arrived as XCom.

As a program it runs the cases named on its command line with `dag.test()` and prints one JSON line per case.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG, task

RECEIPT = 'echo \'{"status":"%s"}\' > /airflow/xcom/return.json; '
CASES: dict[str, dict[str, Any]] = {
    "succeeded": {"arguments": [RECEIPT % "succeeded" + "echo working"]},
    "failed": {
        "arguments": [
            "echo working; " + RECEIPT % "failed" + "printf 'E_QUALITY: 3 rows' > /dev/termination-log; exit 2"
        ]
    },
    "evicted": {"arguments": [RECEIPT % "running" + "echo waiting; exec sleep 600"]},
    "log_reset": {
        "arguments": ["for i in 1 2 3 4; do echo line $i; sleep 0.3; done; " + RECEIPT % "succeeded"],
        "annotations": {"local.dpone/log-drop-after": "2"},
    },
    "server_errors": {"arguments": [RECEIPT % "succeeded"]},
}
RESULT_MARK = "@@RESULT "

dags: dict[str, DAG] = {}
for case, fields in CASES.items():
    with DAG(f"case_{case}", schedule=None, start_date=datetime(2026, 1, 1)) as dag:
        subject = KubernetesPodOperator(
            task_id="subject",
            namespace="default",
            image="dpone:1",
            cmds=["sh", "-c"],
            do_xcom_push=True,
            deferrable=os.environ.get("CASES_DEFERRABLE") == "1",
            poll_interval=1,
            startup_check_interval_seconds=1,
            termination_grace_period=1,
            log_pod_spec_on_failure=False,
            termination_message_policy="FallbackToLogsOnError",
            **fields,
        )

        @task(trigger_rule="all_done")
        def gate(**context: Any) -> None:
            receipt = context["ti"].xcom_pull(task_ids="subject")
            Path(os.environ["CASES_RECEIPT"]).write_text(json.dumps(receipt))

        subject >> gate()
    dags[case] = globals()[f"dag_{case}"] = dag


def call(method: str, path: str, body: Any = None) -> Any:
    kubeconfig = json.loads(Path(os.environ["KUBECONFIG"]).read_text())
    request = urllib.request.Request(
        kubeconfig["clusters"][0]["cluster"]["server"] + path,
        method=method,
        data=json.dumps(body or {}).encode() if method == "POST" else None,
        headers={"Authorization": f"Bearer {kubeconfig['users'][0]['user']['token']}"},
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        return json.load(response)


def evict_once_running() -> None:
    """Evicts the subject as soon as its base container runs."""
    while True:
        for pod in call("GET", "/_local/state")["pods"]:
            base = pod["status"]["containerStatuses"][0]
            if "running" in base["state"]:
                call("POST", f"/_local/pods/default/{pod['metadata']['name']}/evict")
                return
        time.sleep(0.05)


def run(case: str) -> dict[str, Any]:
    if case == "evicted":
        threading.Thread(target=evict_once_running, daemon=True).start()
    if case == "server_errors":
        call("POST", "/_local/fail", {"method": "GET", "path": r"/pods/subject[^/]*$", "status": 500, "times": 2})
    receipt = Path(os.environ["CASES_RECEIPT"])
    receipt.unlink(missing_ok=True)
    dag_run = dags[case].test()
    states = {instance.task_id: str(instance.state) for instance in dag_run.get_task_instances()}
    call("POST", "/_local/clear-faults")
    return {
        "case": case,
        "states": states,
        "receipt": json.loads(receipt.read_text()) if receipt.exists() else "absent",
    }


if __name__ == "__main__":
    for name in sys.argv[1:]:
        assert re.fullmatch(r"\w+", name)
        print(f"\n@@BEGIN {name}", flush=True)
        print(RESULT_MARK + json.dumps(run(name)), flush=True)
