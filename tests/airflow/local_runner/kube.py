"""A test's view of the runner: the real `kubernetes` client, raw requests, and waiting without fixed pauses."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

from kubernetes import client, config

from dpone_airflow.local.runner import LocalPodRunner

NAMESPACE = "default"
SIDECAR = {"name": "airflow-xcom-sidecar", "image": "alpine", "command": ["sh", "-c", "sleep 3600"]}
FINAL = ("Succeeded", "Failed")

_T = TypeVar("_T")


def until(probe: Callable[[], _T], *, seconds: float = 15.0) -> _T:
    """The first true answer of the probe; fails when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"still {answer!r} after {seconds} s"
        time.sleep(0.01)
    return answer


def shell(script: str, **fields: Any) -> dict[str, Any]:
    """A base container that runs a shell script. As in a cluster `$$` stands for one dollar sign in it."""
    return {"name": "base", "image": "dpone:1", "command": ["sh", "-c", script], **fields}


class Kube:
    """One runner, seen through the Kubernetes API."""

    def __init__(self, runner: LocalPodRunner) -> None:
        self.runner = runner
        self.api = client.CoreV1Api(config.new_client_from_config(str(runner.kubeconfig_path)))

    def close(self) -> None:
        self.api.api_client.rest_client.pool_manager.clear()

    def create(self, *containers: dict[str, Any], name: str = "subject", **pod: Any) -> Any:
        """Creates a pod; `metadata` is merged, other keywords are spec fields."""
        metadata = {"name": name, **pod.pop("metadata", {})}
        body = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": list(containers), **pod}}
        return self.api.create_namespaced_pod(NAMESPACE, body)

    def read(self, name: str = "subject") -> Any:
        return self.api.read_namespaced_pod(name, NAMESPACE)

    def phase(self, name: str = "subject") -> str:
        return str(self.read(name).status.phase)

    def wait_for(self, *phases: str, name: str = "subject") -> Any:
        until(lambda: self.phase(name) in phases)
        return self.read(name)

    def run(self, *containers: dict[str, Any], **pod: Any) -> Any:
        """Creates a pod and waits for its end."""
        self.create(*containers, **pod)
        return self.wait_for(*FINAL)

    def state(self, container: str = "base", name: str = "subject") -> Any:
        statuses = self.read(name).status
        every = [*statuses.container_statuses, *(statuses.init_container_statuses or [])]
        return next(status.state for status in every if status.name == container)

    def wait_for_line(self, line: str, name: str = "subject") -> None:
        """Waits until the base container has written a line."""
        until(lambda: self.state(name=name).waiting is None and line in self.log(name).splitlines())

    def log(self, name: str = "subject", **query: Any) -> str:
        query = {"container": "base", "_preload_content": False, **query}
        return str(self.api.read_namespaced_pod_log(name, NAMESPACE, **query).data.decode())

    def exists(self, name: str = "subject") -> bool:
        listed = self.api.list_namespaced_pod(NAMESPACE, field_selector=f"metadata.name={name}")
        return bool(listed.items)

    def request(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> tuple[int, Any]:
        """A raw request: (HTTP status, parsed body)."""
        headers = {"Authorization": f"Bearer {token or self.runner.token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.runner.url + path, method=method, data=content, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=15) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
