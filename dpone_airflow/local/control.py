"""The runner's own endpoints below `/_local`: look inside, and break things on purpose.

| request | effect |
|---|---|
| `GET /_local/state` | pods, removed pods (exit codes, logs), requests so far, isolation |
| `POST /_local/fail` | body `{"method", "path", "status", "times"}`: the next matching API requests fail |
| `POST /_local/clear-faults` | forgets the above |
| `POST /_local/pods/{namespace}/{name}/kill?signal=9` | a signal to the pod's processes |
| `POST /_local/pods/{namespace}/{name}/evict` | the pod fails as evicted |
| `POST /_local/pods/{namespace}/{name}/vanish` | the pod is gone at once |
"""

from __future__ import annotations

import signal
from collections import deque

from aiohttp import web

from dpone_airflow.local.api import json_body, number_in_query, requested_pod
from dpone_airflow.local.cluster import Cluster
from dpone_airflow.local.faults import RequestFaults
from dpone_airflow.local.settings import Isolation
from dpone_airflow.local.wire import JsonObject, bad_request

CONTROL_PREFIX = "/_local/"

_REQUEST_LIMIT = 10_000
_POD_PATH = CONTROL_PREFIX + "pods/{namespace}/{name}"


class RequestLog:
    """The last requests without headers and bodies, which hold the token and the secrets of pods."""

    def __init__(self) -> None:
        self._entries: deque[JsonObject] = deque(maxlen=_REQUEST_LIMIT)

    def begin(self, request: web.Request) -> JsonObject:
        """Adds the request; the caller sets `status` on the returned entry once it is known."""
        entry: JsonObject = {
            "method": request.method,
            "path": request.path,
            "query": [[name, value] for name, value in request.query.items()],
            "content_type": request.headers.get("Content-Type"),
            "status": None,
        }
        self._entries.append(entry)
        return entry

    def entries(self) -> list[JsonObject]:
        return [dict(entry) for entry in self._entries]


class ControlApi:
    """Handlers of the endpoints above; `state` also serves the Python interface."""

    def __init__(self, cluster: Cluster, faults: RequestFaults, requests: RequestLog, isolation: Isolation) -> None:
        self._cluster = cluster
        self._faults = faults
        self._requests = requests
        self._isolation = isolation

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get(CONTROL_PREFIX + "state", self._state)
        router.add_post(CONTROL_PREFIX + "fail", self._fail)
        router.add_post(CONTROL_PREFIX + "clear-faults", self._clear_faults)
        router.add_post(_POD_PATH + "/kill", self._kill)
        router.add_post(_POD_PATH + "/evict", self._evict)
        router.add_post(_POD_PATH + "/vanish", self._vanish)

    def state(self) -> JsonObject:
        """`isolation`, `pods` (documents), `finished` (reports of removed pods, oldest first), `requests`."""
        return {
            "isolation": str(self._isolation),
            "pods": self._cluster.pods(lambda _: True),
            "finished": self._cluster.removed_pods(),
            "requests": self._requests.entries(),
        }

    async def _state(self, request: web.Request) -> web.Response:
        return web.json_response(self.state())

    async def _fail(self, request: web.Request) -> web.Response:
        body = await json_body(request)
        try:
            self._faults.fail_next(body["method"], body["path"], body["status"], body.get("times", 1))
        except (KeyError, TypeError, AttributeError) as error:
            raise bad_request("expected an object with method, path, status and times") from error
        return _empty_answer()

    async def _clear_faults(self, request: web.Request) -> web.Response:
        self._faults.clear()
        return _empty_answer()

    async def _kill(self, request: web.Request) -> web.Response:
        number = number_in_query(request, "signal")
        requested_pod(self._cluster, request).signal(require_signal(signal.SIGKILL if number is None else number))
        return _empty_answer()

    async def _evict(self, request: web.Request) -> web.Response:
        await self._cluster.evict(requested_pod(self._cluster, request))
        return _empty_answer()

    async def _vanish(self, request: web.Request) -> web.Response:
        await self._cluster.vanish(requested_pod(self._cluster, request))
        return _empty_answer()


def require_signal(number: float) -> int:
    """The number of a signal that exists; ApiError 400."""
    try:
        return int(signal.Signals(int(number)))
    except ValueError as error:
        raise bad_request(f"signal: there is no signal {number:g}") from error


def _empty_answer() -> web.Response:
    return web.json_response({"done": True})
