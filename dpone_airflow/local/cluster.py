"""The pods and events of one runner, and the operations on them."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from dpone_airflow.local.journal import ChangeType, Journal, Revisions
from dpone_airflow.local.pods import Node, Pod
from dpone_airflow.local.status import PodFailure
from dpone_airflow.local.volumes import unsupported_volume
from dpone_airflow.local.wire import ApiError, JsonObject, invalid, pod_not_found, timestamp

PodKey: TypeAlias = tuple[str, str]

_EVENT_LIMIT = 2000
_FINISHED_LIMIT = 500
_SHUTDOWN_GRACE_SECONDS = 1.0
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_WARNINGS = frozenset({"Failed", "FailedScheduling", "FailedMount", "Evicted"})
_EVICTION = PodFailure(reason="Evicted", message="The node was low on resource: memory.")


class Cluster:
    """The store behind the API. It returns live documents: serialise them at once and never change them."""

    def __init__(self, node: Node) -> None:
        self.revisions = Revisions()
        self.pod_journal = Journal(self.revisions)
        self.event_journal = Journal(self.revisions)
        self._node = node
        self._pods: dict[PodKey, Pod] = {}
        self._events: deque[JsonObject] = deque(maxlen=_EVENT_LIMIT)
        self._removed_pods: deque[JsonObject] = deque(maxlen=_FINISHED_LIMIT)
        self._removals: dict[str, asyncio.Task[None]] = {}

    def create(self, namespace: str, document: JsonObject) -> Pod:
        """Stores and starts a pod. ApiError 409 for a taken name, 422 for what this runner does not model."""
        _complete(namespace, document)
        name = document["metadata"]["name"]
        if (namespace, name) in self._pods:
            raise ApiError(409, "AlreadyExists", f'pods "{name}" already exists')
        home = self._node.pods_directory / document["metadata"]["uid"]
        pod = Pod(document, self._node, home=home, changed=self._pod_changed, record=self._record_event)
        self._pods[namespace, name] = pod
        self.pod_journal.record(ChangeType.ADDED, document)
        pod.start()
        return pod

    def find(self, namespace: str, name: str) -> Pod:
        """ApiError 404 when there is no such pod."""
        try:
            return self._pods[namespace, name]
        except KeyError:
            raise pod_not_found(name) from None

    def pods(self, wanted: Callable[[JsonObject], bool]) -> list[JsonObject]:
        return [pod.document for pod in self._pods.values() if wanted(pod.document)]

    def events(self, wanted: Callable[[JsonObject], bool]) -> list[JsonObject]:
        return [event for event in self._events if wanted(event)]

    def removed_pods(self) -> list[JsonObject]:
        """Reports of removed pods, oldest first."""
        return list(self._removed_pods)

    def delete(self, pod: Pod, grace_seconds: float | None) -> None:
        """Begins the deletion; the pod is gone once its processes are. A second call changes nothing."""
        if pod.uid in self._removals:
            return
        grace = pod.grace_seconds if grace_seconds is None else grace_seconds
        pod.document["metadata"] |= {"deletionTimestamp": timestamp(), "deletionGracePeriodSeconds": int(grace)}
        self._record_event(pod, "Killing", f"Stopping container {pod.container_names()[0]}")
        self._removals[pod.uid] = asyncio.create_task(self._remove(pod, grace))

    async def evict(self, pod: Pod) -> None:
        """Kills every container, the sidecar too, and leaves the pod behind as Failed: what node pressure does."""
        self._record_event(pod, "Evicted", _EVICTION.message)
        await pod.stop(0, _EVICTION)

    async def vanish(self, pod: Pod) -> None:
        """Removes the pod at once, as a forced deletion does."""
        self._pods.pop((pod.namespace, pod.name), None)
        await self._end(pod, 0)

    async def shut_down(self) -> None:
        """Stops and removes every pod, also those in the grace period of a deletion."""
        await asyncio.gather(*(self._end(pod, _SHUTDOWN_GRACE_SECONDS) for pod in list(self._pods.values())))

    async def _end(self, pod: Pod, grace_seconds: float) -> None:
        await pod.stop(grace_seconds)
        removal = self._removals.get(pod.uid)
        await (self._remove(pod, 0) if removal is None else removal)

    async def _remove(self, pod: Pod, grace_seconds: float) -> None:
        await pod.stop(grace_seconds)
        if self._pods.get((pod.namespace, pod.name)) is pod:
            del self._pods[pod.namespace, pod.name]
        self._removed_pods.append(pod.final_report())
        pod.discard()
        self.pod_journal.record(ChangeType.DELETED, pod.document)
        self._removals.pop(pod.uid, None)

    def _pod_changed(self, pod: Pod) -> None:
        if self._pods.get((pod.namespace, pod.name)) is pod:
            self.pod_journal.record(ChangeType.MODIFIED, pod.document)

    def _record_event(self, pod: Pod, reason: str, message: str) -> None:
        now = timestamp()
        metadata = {"name": f"{pod.name}.{uuid.uuid4().hex[:16]}", "namespace": pod.namespace, "uid": str(uuid.uuid4())}
        event: JsonObject = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {**metadata, "creationTimestamp": now},
            "type": "Warning" if reason in _WARNINGS else "Normal",
            "reason": reason,
            "message": message,
            "count": 1,
            "involvedObject": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            "source": {"component": "local-pod-runner"},
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        self._events.append(event)
        self.event_journal.record(ChangeType.ADDED, event)


def _complete(namespace: str, document: JsonObject) -> None:
    """Checks a posted pod and fills in what the API server would."""
    spec, metadata = document.get("spec"), document.setdefault("metadata", {})
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        raise invalid("spec and metadata must be objects")
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
    if not _NAME.fullmatch(str(metadata.get("name") or "")):
        raise invalid("metadata.name: must be a lowercase RFC 1123 subdomain")
    if metadata.get("namespace", namespace) not in (namespace, None):
        raise ApiError(400, "BadRequest", "the namespace of the object does not match the namespace of the request")
    _check_containers(spec)
    for key in [key for key, value in spec.items() if value in ({}, [], None)]:
        del spec[key]
    metadata |= {"namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}
    document |= {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Pending"}}
    spec |= {"restartPolicy": spec.get("restartPolicy", "Always"), "nodeName": "local"}
    spec.setdefault("serviceAccountName", "default")


def _check_containers(spec: JsonObject) -> None:
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    if not spec.get("containers"):
        raise invalid("spec.containers: required value")
    names = [item.get("name") for item in containers]
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in names) or len(set(names)) < len(names):
        raise invalid("spec.containers: names must be lowercase RFC 1123 labels, each used once")
    for item in containers:
        for entry in item.get("env") or []:
            if not isinstance(entry.get("value"), (str, type(None))):
                raise ApiError(400, "BadRequest", f"env {entry.get('name')}: value must be a string")
    if path := unsupported_volume(spec):
        raise invalid(f"{path}: only emptyDir, hostPath, secret, configMap and persistentVolumeClaim are modelled")
