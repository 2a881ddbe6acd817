"""A real Airflow for one module: api-server, scheduler, dag-processor and task supervisor; pods are processes of the
local pod runner, and the `dpone` inside them is a stand-in that leaves real receipts.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dpone_airflow.local.fixtures import Fixtures
from dpone_airflow.local.runner import LocalPodRunner
from dpone_airflow.local.volumes import Mount
from examples.flights.components import Components, processes_of
from examples.flights.rest import AirflowClient
from tests.airflow.airflow_environment import CHECKOUT, AirflowEnvironment, build_environment, migrate
from tests.airflow.workers.ports import free_port
from tests.spec.contracts.documents import run_spec_document

STAND_IN = Path(__file__).parents[1] / "provider" / "stand_in_dpone.py"
PLATFORM = {
    "namespace": "default",
    "startup_check_interval_seconds": 1,
    "retry_delay_seconds": 0,
    "termination_grace_seconds": 5,
}
SECRET = "dwh://etl:canary-7c1f"
LIMIT_SECONDS = 300.0
_T = TypeVar("_T")


class Client(AirflowClient):
    """What a person does in the pages of Airflow."""

    def clear(self, dag_id: str, run_id: str, *task_ids: str) -> None:
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": list(task_ids), "only_failed": False}
        self._call("POST", f"/dags/{dag_id}/clearTaskInstances", body)

    def unpause(self, dag_id: str) -> None:
        self._call("PATCH", f"/dags/{dag_id}", {"is_paused": False})

    def trigger_at(self, dag_id: str, logical_date: str) -> str:
        self.unpause(dag_id)
        return str(self._call("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": logical_date})["dag_run_id"])

    def runs(self, dag_id: str) -> list[str]:
        return [str(run["dag_run_id"]) for run in self._call("GET", f"/dags/{dag_id}/dagRuns")["dag_runs"]]

    def state(self, dag_id: str, run_id: str) -> str:
        path = f"/dags/{dag_id}/dagRuns/{urllib.request.quote(run_id)}"  # type: ignore[attr-defined]
        return str(self._call("GET", path)["state"])

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        path = f"/dags/{dag_id}/dagRuns/{urllib.request.quote(run_id)}/taskInstances/{task_id}"  # type: ignore[attr-defined]
        self._call("PATCH", path, {"new_state": state})


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """A running Airflow, the directory that it shares with the pods, and the runner of the pods."""

    client: Client
    shared: Path
    runner: LocalPodRunner
    environment: AirflowEnvironment
    components: Components

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A migrated Airflow that nothing runs of yet; `variables` are those of its processes."""

    environment: AirflowEnvironment
    shared: Path
    runner: LocalPodRunner
    variables: Mapping[str, str]
    port: int


@contextmanager
def prepared(root: Path, dag_file: Path, specs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Prepared]:
    """`specs` are the steps of the run-specs that stand beside the DAG file."""
    shared, commands = root / "shared", root / "commands"
    for directory in (shared, commands):
        directory.mkdir()
    stand_in = commands / "dpone"
    stand_in.write_text(f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} {STAND_IN} "$@"\n', encoding="utf-8")
    stand_in.chmod(0o755)
    port = free_port()
    environment = build_environment(root / "airflow", root / "dags", api_port=port)
    migrate(environment)
    (root / "dags" / dag_file.name).write_text(dag_file.read_text(encoding="utf-8"), "utf-8")
    for name, steps in specs.items():
        document = run_spec_document(steps=list(steps), platform=PLATFORM)
        (root / "dags" / f"{name}.spec.json").write_text(json.dumps(document), encoding="utf-8")
    with LocalPodRunner(
        root=root / "pods",
        fixtures=Fixtures(secrets={"dpone-dwh": {"uri": SECRET}, "dpone-erp": {"uri": "erp://sa"}}),
        search_path=(commands,),
        bundles=(Mount(source=shared, target="/shared", read_only=False),),
    ) as runner:
        variables = {"KUBECONFIG": str(runner.kubeconfig_path), "WORKER_DIRECTORY": str(shared)}
        yield Prepared(
            environment=environment,
            shared=shared,
            runner=runner,
            variables={**environment.variables, **variables},
            port=port,
        )
    assert list(processes_of(environment.home)) == []


@contextmanager
def running(
    root: Path,
    dag_file: Path,
    specs: Mapping[str, Sequence[Mapping[str, Any]]],
    dag_ids: Set[str],
    variables: Mapping[str, str],
    components: Sequence[str] = (),
) -> Iterator[Workers]:
    """Until every one of `dag_ids` is listed; `components` are started beside those that every Airflow has."""
    with prepared(root, dag_file, specs) as made:
        started = Components({**made.variables, **variables}, root / "logs")
        client = Client(f"http://127.0.0.1:{made.port}")
        try:
            for component in ("api-server", "dag-processor", "scheduler", *components):
                started.start(component)
            until(lambda: listed(client, started) >= dag_ids)
            yield Workers(
                client=client,
                shared=made.shared,
                runner=made.runner,
                environment=made.environment,
                components=started,
            )
        finally:
            started.stop()


def listed(client: Client, components: Components) -> set[str]:
    components.check()
    with suppress(OSError):
        return client.dag_ids()
    return set()
