"""One DAG per scenario of the matrix for the local pod runner; its id selects what the pod does (stand_in_dpone)."""

import json
import os
import threading
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
from airflow.providers.common.compat.sdk import DAG

from dpone_airflow.tasks import wire_dpone_gitops_task_with_gate
from dpone_core.contracts.run_spec import parse_run_spec
from tests.airflow.provider.matrix import SCENARIOS

MODE = os.environ.get("MATRIX_MODE", "sync")
DOCUMENT = json.loads((Path(__file__).parent / "matrix.spec.json").read_text())
SETTINGS = {
    "namespace": "default",
    "startup_check_interval_seconds": 1,
    "startup_timeout_seconds": 30,
    "retry_delay_seconds": 0,
    "termination_grace_seconds": 2,
    **({"deferrable": True, "poll_interval_seconds": 1} if MODE == "deferred" else {}),
}


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


def once_running(action: str) -> Callable[[], None]:
    """Does something to the first pod whose step runs and has said so in its log."""

    def wait_and_act() -> None:
        while True:
            for pod in call("GET", "/_local/state")["pods"]:
                name = pod["metadata"]["name"]
                base = next((one for one in pod["status"].get("containerStatuses", []) if one["name"] == "base"), None)
                if base is not None and "running" in base["state"] and said(name):
                    call("POST", f"/_local/pods/default/{name}/{action}")
                    return
            time.sleep(0.05)

    return lambda: threading.Thread(target=wait_and_act, daemon=True).start()


def said(name: str) -> bool:
    kubeconfig = json.loads(Path(os.environ["KUBECONFIG"]).read_text())
    request = urllib.request.Request(
        kubeconfig["clusters"][0]["cluster"]["server"] + f"/api/v1/namespaces/default/pods/{name}/log?container=base",
        headers={"Authorization": f"Bearer {kubeconfig['users'][0]['user']['token']}"},
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        return b"waiting" in response.read()


def failing(method: str, path: str, status: int, times: int) -> Callable[[], None]:
    return lambda: call("POST", "/_local/fail", {"method": method, "path": path, "status": status, "times": times})


BEFORE = {
    "vanished": once_running("vanish"),
    "evicted": once_running("evict"),
    "sigterm": once_running("kill?signal=15"),
    "api_500": failing("GET", r"/pods/dpone-[^/]*$", 500, 2),
    "api_403": failing("POST", r"/pods$", 403, 1),
}
AFTER = {name: lambda: call("POST", "/_local/clear-faults") for name in BEFORE}

for scenario in SCENARIOS:
    document = json.loads(json.dumps(DOCUMENT))
    if scenario.name == "missing_secret":
        document["steps"][-1]["secret_env"][0]["secret"] = "nowhere"
    run_spec = parse_run_spec(json.dumps({**document, "platform": {**SETTINGS, **scenario.platform}}))
    with DAG(scenario.name, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), max_active_runs=1) as dag:
        load, gate = wire_dpone_gitops_task_with_gate(dag=dag, run_spec=run_spec)
        for attribute, value in scenario.attributes.items():
            setattr(load, attribute, value)
        if scenario.name in ("execution_timeout", "no_container_statuses"):
            load.execution_timeout = timedelta(seconds=3)
        if scenario.name == "active_deadline":
            load.active_deadline_seconds = 8
    globals()[f"dag_{scenario.name}"] = dag
