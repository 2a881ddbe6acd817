"""What happens to a task's process while its pod runs never makes a load happen twice, nor a lost one look done.

Real api-server, scheduler, dag-processor and task supervisor; pods are processes of the local pod runner. The load
appends a line to a file when it mutates: one line is one mutation. Contract: AIR-13, AIR-14, AIR-35, AIR-36.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from dpone_airflow.local.fixtures import Fixtures
from dpone_airflow.local.runner import LocalPodRunner
from dpone_airflow.local.volumes import Mount
from examples.flights.components import Components, processes_of
from examples.flights.rest import AirflowClient
from tests.airflow.airflow_environment import CHECKOUT, build_environment, migrate
from tests.airflow.workers.ports import free_port
from tests.spec.contracts.documents import hook_step, load_step, run_spec_document, verify_step

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
LOAD = "dpone_run_flights"
GATE = f"{LOAD}_outcome_gate"
NAMES = ("worker_sigkill", "worker_finished", "worker_sigterm", "worker_clear", "worker_mark_failed")
ADVICE = ("advice_before", "advice_post_hook", "advice_marked")
PLATFORM = {
    "namespace": "default",
    "startup_check_interval_seconds": 1,
    "retry_delay_seconds": 0,
    "termination_grace_seconds": 5,
}
LIMIT_SECONDS = 300.0
_T = TypeVar("_T")


class Client(AirflowClient):
    """What a person does in the pages of Airflow."""

    def clear(self, dag_id: str, run_id: str, *task_ids: str) -> None:
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": list(task_ids), "only_failed": False}
        self._call("POST", f"/dags/{dag_id}/clearTaskInstances", body)

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        path = f"/dags/{dag_id}/dagRuns/{urllib.request.quote(run_id)}/taskInstances/{task_id}"  # type: ignore[attr-defined]
        self._call("PATCH", path, {"new_state": state})


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """A running Airflow, the directory that it shares with the pods, and the runner of the pods."""

    client: Client
    shared: Path
    runner: LocalPodRunner

    def started(self, dag_id: str) -> str:
        """Starts a run and waits until its load waits in its pod; the run id."""
        run_id = self.client.trigger(dag_id)
        self.waiting(dag_id, 1)
        return run_id

    def waiting(self, dag_id: str, try_number: int) -> int:
        """The id of the process that follows the pod of this try; the pod's step waits for its file."""
        process = until(lambda: self._process(dag_id, try_number))
        until(lambda: (self.shared / f"{dag_id}.waiting").exists())
        return process

    def _process(self, dag_id: str, try_number: int) -> int:
        with suppress(FileNotFoundError):
            return int((self.shared / f"{dag_id}.{try_number}.pid").read_text())
        return 0

    def go(self, dag_id: str) -> None:
        (self.shared / f"{dag_id}.go").touch()

    def mutations(self, dag_id: str) -> list[str]:
        """The try numbers of the steps that mutated."""
        with suppress(FileNotFoundError):
            return (self.shared / f"{dag_id}.mutations").read_text().split()
        return []

    def ended(self, dag_id: str, run_id: str) -> tuple[str, dict[str, dict[str, Any]]]:
        state = self.client.wait(dag_id, run_id, LIMIT_SECONDS)
        return state, self.client.tasks(dag_id, run_id)

    def ended_pod(self, dag_id: str) -> str | None:
        """The name of the pod of a DAG whose step has ended."""
        for pod in self.runner.state()["pods"]:
            statuses = pod["status"].get("containerStatuses", [])
            ended = any(one["name"] == "base" and "terminated" in one["state"] for one in statuses)
            if ended and pod["metadata"]["labels"].get("dag_id") == dag_id:
                return str(pod["metadata"]["name"])
        return None

    def pods(self, dag_id: str) -> tuple[int, int]:
        """How many pods of a DAG there are, and how many there were."""
        state = self.runner.state()
        named = [pod["metadata"]["labels"].get("dag_id") for pod in state["pods"]]
        finished = [report["pod"]["metadata"]["labels"].get("dag_id") for report in state["finished"]]
        return named.count(dag_id), finished.count(dag_id)


def until(probe: Callable[[], _T], seconds: float = LIMIT_SECONDS) -> _T:
    limit = time.monotonic() + seconds
    while not (found := probe()):
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    root = tmp_path_factory.mktemp("workers")
    shared, commands = root / "shared", root / "commands"
    for directory in (shared, commands):
        directory.mkdir()
    stand_in = commands / "dpone"
    program = HERE.parent / "provider" / "stand_in_dpone.py"
    stand_in.write_text(f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} {program} "$@"\n', encoding="utf-8")
    stand_in.chmod(0o755)
    port = free_port()
    environment = build_environment(root / "airflow", root / "dags", api_port=port)
    migrate(environment)
    (root / "dags" / "worker_dags.py").write_text((HERE / "worker_dags.py").read_text(encoding="utf-8"), "utf-8")
    steps = [verify_step(), load_step(depends_on=["bundle_verify"], receipts_from=[])]
    spec = json.dumps(run_spec_document(steps=steps, platform=PLATFORM))
    (root / "dags" / "workers.spec.json").write_text(spec, encoding="utf-8")
    load = load_step(depends_on=["bundle_verify"], receipts_from=[], without_receipt="stop")
    steps = [verify_step(), load, hook_step("announce", "post_hook", depends_on=[LOAD])]
    whole = json.dumps(run_spec_document(steps=steps, platform=PLATFORM))
    (root / "dags" / "steps.spec.json").write_text(whole, encoding="utf-8")
    with LocalPodRunner(
        root=root / "pods",
        fixtures=Fixtures(secrets={"dpone-dwh": {"uri": "dwh://etl"}, "dpone-erp": {"uri": "erp://sa"}}),
        search_path=(commands,),
        bundles=(Mount(source=shared, target="/shared", read_only=False),),
    ) as runner:
        variables = {
            **environment.variables,
            "KUBECONFIG": str(runner.kubeconfig_path),
            "WORKER_DIRECTORY": str(shared),
            "WORKER_SCENARIOS": json.dumps(NAMES),
            "ADVICE_SCENARIOS": json.dumps(ADVICE),
        }
        components = Components(variables, root / "logs")
        client = Client(f"http://127.0.0.1:{port}")
        try:
            for component in ("api-server", "dag-processor", "scheduler"):
                components.start(component)
            until(lambda: listed(client, components) >= {*NAMES, *ADVICE})
            yield Workers(client=client, shared=shared, runner=runner)
        finally:
            components.stop()
        assert list(processes_of(environment.home)) == []


def listed(client: Client, components: Components) -> set[str]:
    components.check()
    with suppress(OSError):
        return client.dag_ids()
    return set()


def test_a_killed_task_process_finds_its_pod_again_and_the_load_happens_once(workers: Workers) -> None:
    dag_id = "worker_sigkill"
    run_id = workers.started(dag_id)
    os.kill(workers.waiting(dag_id, 1), signal.SIGKILL)
    workers.waiting(dag_id, 2)
    workers.go(dag_id)
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[LOAD]["state"], tasks[LOAD]["try_number"]) == ("success", "success", 2)
    assert workers.mutations(dag_id) == ["1"], "the second try followed the pod of the first"
    assert workers.pods(dag_id) == (0, 1)


def test_a_pod_that_committed_beside_a_dead_worker_is_believed_although_it_is_over(workers: Workers) -> None:
    """Airflow itself would remove it unread and start a second one past it."""
    dag_id = "worker_finished"
    run_id = workers.started(dag_id)
    os.kill(workers.waiting(dag_id, 1), signal.SIGKILL)
    workers.go(dag_id)
    until(lambda: workers.mutations(dag_id) == ["1"])
    name = until(lambda: workers.ended_pod(dag_id))
    workers.runner.evict("default", name)
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[LOAD]["state"], tasks[LOAD]["try_number"]) == ("success", "success", 2)
    assert workers.mutations(dag_id) == ["1"], "the second try read what the pod of the first had left"
    assert workers.pods(dag_id) == (0, 1), "no second pod was started"


def test_a_terminated_task_process_stops_its_pod_and_never_looks_done(workers: Workers) -> None:
    dag_id = "worker_sigterm"
    run_id = workers.started(dag_id)
    os.kill(workers.waiting(dag_id, 1), signal.SIGTERM)
    until(lambda: (workers.shared / f"{dag_id}.stopped").exists())
    workers.go(dag_id)
    state, tasks = workers.ended(dag_id, run_id)
    assert tasks[LOAD]["state"] == ("success" if tasks[LOAD]["try_number"] == 2 else "failed")
    assert state == tasks[LOAD]["state"] == tasks[GATE]["state"]
    assert workers.mutations(dag_id) == (["2"] if state == "success" else [])
    assert workers.pods(dag_id)[0] == 0


def test_a_cleared_task_stops_its_pod_before_the_next_one_changes_anything(workers: Workers) -> None:
    dag_id = "worker_clear"
    run_id = workers.started(dag_id)
    workers.client.clear(dag_id, run_id, LOAD)
    until(lambda: (workers.shared / f"{dag_id}.stopped").exists())
    workers.waiting(dag_id, 2)
    workers.go(dag_id)
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[LOAD]["state"], tasks[LOAD]["try_number"]) == ("success", "success", 2)
    assert workers.mutations(dag_id) == ["2"]
    assert workers.pods(dag_id)[0] == 0


def test_a_task_marked_failed_stops_its_pod_and_the_gate_fails(workers: Workers) -> None:
    dag_id = "worker_mark_failed"
    run_id = workers.started(dag_id)
    workers.client.mark(dag_id, run_id, LOAD, "failed")
    until(lambda: (workers.shared / f"{dag_id}.stopped").exists())
    workers.go(dag_id)
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[LOAD]["state"], tasks[LOAD]["try_number"]) == ("failed", "failed", 1)
    assert tasks[GATE]["state"] == "failed"
    assert workers.mutations(dag_id) == []
    until(lambda: workers.pods(dag_id)[0] == 0)


STEP = "dpone_flights."
"""Tasks of the DAGs of advice stand in a group."""


def advised(workers: Workers, dag_id: str) -> tuple[str, str]:
    """A run that failed, and what its gate advises."""
    run_id = workers.client.trigger(dag_id)
    assert workers.ended(dag_id, run_id)[0] == "failed"
    verdict = workers.client.xcom(dag_id, run_id, f"{STEP}outcome_gate")
    return run_id, str(verdict["advice"])


def test_the_advice_to_clear_the_failed_task_and_the_gate_leads_to_a_green_run(workers: Workers) -> None:
    dag_id = "advice_before"
    run_id, advice = advised(workers, dag_id)
    assert "correct the cause, then clear the failed task, the tasks behind it and the gate" in advice
    behind = f"{STEP}post_hook_announce"
    workers.client.clear(dag_id, run_id, f"{STEP}{LOAD}", behind, f"{STEP}outcome_gate")
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[f"{STEP}{LOAD}"]["state"], tasks[behind]["state"]) == ("success", "success", "success")


def test_the_advice_behind_a_committed_load_clears_the_hook_and_never_the_load(workers: Workers) -> None:
    dag_id = "advice_post_hook"
    run_id, advice = advised(workers, dag_id)
    assert "correct and clear post_hook_announce and the gate, never the load's task" in advice
    workers.client.clear(dag_id, run_id, f"{STEP}post_hook_announce", f"{STEP}outcome_gate")
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[f"{STEP}{LOAD}"]["try_number"]) == ("success", 1)


def test_the_advice_to_mark_a_committed_load_names_the_tasks_behind_it_too(workers: Workers) -> None:
    dag_id = "advice_marked"
    run_id, advice = advised(workers, dag_id)
    assert "mark its task as success, then clear the tasks behind it and the gate" in advice
    workers.client.mark(dag_id, run_id, f"{STEP}{LOAD}", "success")
    workers.client.clear(dag_id, run_id, f"{STEP}post_hook_announce", f"{STEP}outcome_gate")
    state, tasks = workers.ended(dag_id, run_id)
    assert state == "success" and tasks[f"{STEP}{LOAD}"]["try_number"] == 1
    assert tasks[f"{STEP}post_hook_announce"]["state"] == "success"
