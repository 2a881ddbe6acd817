"""The Kubernetes resources: pods (create, read, list, watch, patch, delete), events and version."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from dpone_airflow.local.cluster import Cluster
from dpone_airflow.local.journal import ChangeType, Journal
from dpone_airflow.local.patches import apply_patch
from dpone_airflow.local.pods import Pod
from dpone_airflow.local.selectors import fields_match, labels_match
from dpone_airflow.local.wire import ApiError, JsonObject, bad_request, is_true

PODS_PATH = "/api/v1/namespaces/{namespace}/pods"
POD_PATH = PODS_PATH + "/{name}"

_VERSION = {"major": "1", "minor": "33", "gitVersion": "v1.33.0-local"}
_WATCH_TIMEOUT_SECONDS = 300.0


class ResourceApi:
    """Handlers for what clients of a cluster ask; error answers are ApiError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/version", self._version)
        router.add_get("/api/v1/pods", self._list_pods)
        router.add_get(PODS_PATH, self._list_pods)
        router.add_post(PODS_PATH, self._create)
        router.add_get(POD_PATH, self._read)
        router.add_get(POD_PATH + "/status", self._read)
        router.add_patch(POD_PATH, self._patch)
        router.add_delete(POD_PATH, self._delete)
        router.add_get("/api/v1/events", self._list_events)
        router.add_get("/api/v1/namespaces/{namespace}/events", self._list_events)

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response(_VERSION)

    async def _create(self, request: web.Request) -> web.Response:
        document = await json_body(request)
        if not isinstance(document, dict):
            raise bad_request("the body is not an object")
        pod = self._cluster.create(request.match_info["namespace"], document)
        return web.json_response(pod.document, status=201)

    async def _read(self, request: web.Request) -> web.Response:
        return web.json_response(requested_pod(self._cluster, request).document)

    async def _patch(self, request: web.Request) -> web.Response:
        pod = requested_pod(self._cluster, request)
        apply_patch(pod.document, await json_body(request), request.content_type)
        pod.refresh()
        return web.json_response(pod.document)

    async def _delete(self, request: web.Request) -> web.Response:
        pod = requested_pod(self._cluster, request)
        body = await json_body(request) if request.can_read_body else None
        options = body if isinstance(body, dict) else {}
        grace = request.query.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
        self._cluster.delete(pod, None if grace is None else _number("gracePeriodSeconds", grace))
        return web.json_response(pod.document)

    async def _list_pods(self, request: web.Request) -> web.StreamResponse:
        selected = _selection(request)

        def wanted(pod: JsonObject) -> bool:
            labels = pod["metadata"].get("labels") or {}
            return selected(pod) and labels_match(request.query.get("labelSelector"), labels)

        return await self._answer(request, "PodList", self._cluster.pods, self._cluster.pod_journal, wanted)

    async def _list_events(self, request: web.Request) -> web.StreamResponse:
        selected = _selection(request)
        return await self._answer(request, "EventList", self._cluster.events, self._cluster.event_journal, selected)

    async def _answer(
        self,
        request: web.Request,
        kind: str,
        stored: Callable[[Callable[[JsonObject], bool]], list[JsonObject]],
        journal: Journal,
        wanted: Callable[[JsonObject], bool],
    ) -> web.StreamResponse:
        revision = self._cluster.revisions.current
        if is_true(request.query.get("watch")):
            return await _watch(request, stored(wanted), journal, wanted, revision)
        metadata = {"resourceVersion": str(revision)}
        return web.json_response({"apiVersion": "v1", "kind": kind, "metadata": metadata, "items": stored(wanted)})


def requested_pod(cluster: Cluster, request: web.Request) -> Pod:
    """The pod that the path names; ApiError 404."""
    return cluster.find(request.match_info["namespace"], request.match_info["name"])


async def json_body(request: web.Request) -> Any:
    """The parsed body; ApiError 400 when it is not JSON."""
    try:
        return await request.json() if request.can_read_body else None
    except ValueError as error:
        raise bad_request("the body is not a JSON document") from error


def number_in_query(request: web.Request, name: str) -> float | None:
    """A number of the query, None when absent; ApiError 400 when it is not one."""
    text = request.query.get(name)
    return None if not text else _number(name, text)


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise bad_request(f"{name}: not a number") from error
    if not 0 <= number < float("inf"):
        raise bad_request(f"{name}: must not be negative")
    return number


def _selection(request: web.Request) -> Callable[[JsonObject], bool]:
    namespace = request.match_info.get("namespace")

    def selected(document: JsonObject) -> bool:
        in_namespace = namespace in (None, document["metadata"]["namespace"])
        return in_namespace and fields_match(request.query.get("fieldSelector"), document)

    return selected


async def _watch(
    request: web.Request,
    present: list[JsonObject],
    journal: Journal,
    wanted: Callable[[JsonObject], bool],
    revision: int,
) -> web.StreamResponse:
    """Streams `{"type", "object"}` lines. Without a resourceVersion what is there comes first, as ADDED."""
    since = int(number_in_query(request, "resourceVersion") or 0)
    timeout = number_in_query(request, "timeoutSeconds") or _WATCH_TIMEOUT_SECONDS
    lines = [] if since else [{"type": str(ChangeType.ADDED), "object": document} for document in present]
    encoded = [json.dumps(line).encode() + b"\n" for line in lines]
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    for line in encoded:
        await response.write(line)
    try:
        async for change in journal.watch(since or revision, wanted, timeout):
            await response.write(json.dumps(change.render()).encode() + b"\n")
    except ApiError as error:
        await response.write(json.dumps({"type": "ERROR", "object": error.status_document()}).encode() + b"\n")
    await response.write_eof()
    return response
