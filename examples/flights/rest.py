"""The few calls of Airflow's REST API that start a DAG run and look at what became of it.

For an Airflow of `make airflow`: on this machine, without login. Standard library only.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

_TIMEOUT_SECONDS = 30
_POLL_SECONDS = 0.5
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(slots=True)
class AirflowClient:
    """`url` as `make airflow` prints it. Raises urllib.error.URLError for what Airflow refuses."""

    url: str
    _token: str = field(default="", repr=False)

    def trigger(self, dag_id: str) -> str:
        """Unpauses the DAG and starts a run now; its run id."""
        self._call("PATCH", f"/dags/{dag_id}", {"is_paused": False})
        return str(self._call("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None})["dag_run_id"])

    def newest_run(self, dag_id: str) -> str | None:
        """The id of the newest run that has ended."""
        runs = self._call("GET", f"/dags/{dag_id}/dagRuns?order_by=-run_after&state=success&state=failed")["dag_runs"]
        return str(runs[0]["dag_run_id"]) if runs else None

    def wait(self, dag_id: str, run_id: str, timeout_seconds: float) -> str:
        """The state the run ends in; raises TimeoutError."""
        limit = time.monotonic() + timeout_seconds
        while time.monotonic() < limit:
            state = str(self._call("GET", f"/dags/{dag_id}/dagRuns/{quote(run_id)}")["state"])
            if state in ("success", "failed"):
                return state
            time.sleep(_POLL_SECONDS)
        raise TimeoutError(f"run {run_id} of {dag_id} did not end within {timeout_seconds} s")

    def dag_ids(self) -> set[str]:
        return {str(dag["dag_id"]) for dag in self._call("GET", "/dags")["dags"]}

    def import_errors(self) -> list[str]:
        return [str(error["stack_trace"]) for error in self._call("GET", "/importErrors")["import_errors"]]

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """Task instances by task id; those of a mapped task by `task_id[map_index]`."""
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances?limit=100"
        return {_name(task): dict(task) for task in self._call("GET", path)["task_instances"]}

    def xcom(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """The `return_value` of a task."""
        path = f"{_task(dag_id, run_id, task_id)}/xcomEntries/return_value?deserialize=true"
        return self._call("GET", path)["value"]

    def links(self, dag_id: str, run_id: str, task_id: str) -> Mapping[str, str | None]:
        """The extra links of a task; None where there is nothing to open."""
        found: Mapping[str, str | None] = self._call("GET", f"{_task(dag_id, run_id, task_id)}/links")["extra_links"]
        return found

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """The task's log as one text, one record a line."""
        content = self._call("GET", f"{_task(dag_id, run_id, task_id)}/logs/{try_number}")["content"]
        return "\n".join(_texts(content))

    def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        if not self._token:
            self._token = str(_answer(urllib.request.Request(f"{self.url}/auth/token"))["access_token"])
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
        }
        return _answer(urllib.request.Request(f"{self.url}/api/v2{path}", data=data, headers=headers, method=method))


def _answer(request: urllib.request.Request) -> dict[str, Any]:
    with _LOCAL.open(request, timeout=_TIMEOUT_SECONDS) as response:
        return dict(json.load(response))


def _name(task: Mapping[str, Any]) -> str:
    index = int(task["map_index"])
    return str(task["task_id"]) if index < 0 else f"{task['task_id']}[{index}]"


def _task(dag_id: str, run_id: str, task_id: str) -> str:
    return f"/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances/{task_id}"


def _texts(content: Any) -> Iterator[str]:
    for record in content:
        if isinstance(record, dict):
            yield str(record.get("event", ""))
            for error in record.get("error_detail") or ():
                yield f"{error.get('exc_type')}: {error.get('exc_value')}"
        else:
            yield str(record)
