"""Container states and the pod status made of them; pure.

Rules: kubelet `getPhase` for restartPolicy Never: one waiting container keeps the whole pod Pending, one running
container keeps it Running (the XCom sidecar does), and since Kubernetes 1.27 a phase is final only when no container
runs any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

from dpone_airflow.local.wire import JsonObject

NODE_ADDRESS = "127.0.0.1"
_SIGNAL_BASE = 128


class Phase(StrEnum):
    """The phase of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The state of a container that has not started."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The state of a container whose process runs."""

    started_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """`message` is the termination message of the container, at most 4096 bytes."""

    exit_code: int
    reason: str
    started_at: str
    finished_at: str
    message: str = ""


ContainerState: TypeAlias = Waiting | Running | Terminated


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFailure:
    """Why a pod fails as a whole, independent of its containers: Evicted, DeadlineExceeded."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """The facts that the status of a container is rendered from."""

    name: str
    image: str
    state: ContainerState


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """The facts that the status of a pod is rendered from."""

    pod_name: str
    containers: Sequence[ContainerView]
    init_containers: Sequence[ContainerView]
    scheduled: bool
    failure: PodFailure | None
    started_at: str | None
    changed_at: str


def pod_phase(pod: PodView) -> Phase:
    """The phase that a kubelet would report for this pod."""
    main = [container.state for container in pod.containers]
    init = [container.state for container in pod.init_containers]
    if any(isinstance(state, Running) for state in main):
        return Phase.PENDING if any(isinstance(state, Waiting) for state in main) else Phase.RUNNING
    if pod.failure is not None or any(isinstance(state, Terminated) and state.exit_code for state in init):
        return Phase.FAILED
    if any(isinstance(state, Waiting) for state in main):
        return Phase.PENDING
    succeeded = all(isinstance(state, Terminated) and state.exit_code == 0 for state in main)
    return Phase.SUCCEEDED if succeeded else Phase.FAILED


def status_document(pod: PodView) -> JsonObject:
    """The `status` of a pod as the API serves it."""
    phase = pod_phase(pod)
    document: JsonObject = {
        "phase": str(phase),
        "qosClass": "BestEffort",
        "hostIP": NODE_ADDRESS,
        "podIP": NODE_ADDRESS,
        "conditions": _conditions(pod, phase),
        "containerStatuses": [_container_status(pod, container) for container in pod.containers],
    }
    if pod.init_containers:
        document["initContainerStatuses"] = [_container_status(pod, container) for container in pod.init_containers]
    if pod.started_at is not None:
        document["startTime"] = pod.started_at
    if pod.failure is not None:
        document |= {"reason": pod.failure.reason, "message": pod.failure.message}
    return document


def _conditions(pod: PodView, phase: Phase) -> list[JsonObject]:
    initialized = all(isinstance(container.state, Terminated) for container in pod.init_containers)
    conditions = {
        "PodScheduled": pod.scheduled,
        "Initialized": initialized,
        "ContainersReady": phase is Phase.RUNNING,
        "Ready": phase is Phase.RUNNING,
    }
    return [
        {"type": name, "status": str(holds), "lastProbeTime": None, "lastTransitionTime": pod.changed_at}
        for name, holds in conditions.items()
    ]


def _container_status(pod: PodView, container: ContainerView) -> JsonObject:
    running = isinstance(container.state, Running)
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"local://{container.image}",
        "containerID": _container_id(pod, container),
        "ready": running,
        "started": running,
        "restartCount": 0,
        "state": _state(pod, container),
        "lastState": {},
    }


def _state(pod: PodView, container: ContainerView) -> JsonObject:
    match container.state:
        case Waiting(reason=reason, message=message):
            return {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}
        case Running(started_at=started_at):
            return {"running": {"startedAt": started_at}}
        case Terminated() as ended:
            document: JsonObject = {
                "exitCode": ended.exit_code,
                "reason": ended.reason,
                "startedAt": ended.started_at,
                "finishedAt": ended.finished_at,
                "containerID": _container_id(pod, container),
            }
            if ended.message:
                document["message"] = ended.message
            if ended.exit_code > _SIGNAL_BASE:
                document["signal"] = ended.exit_code - _SIGNAL_BASE
            return {"terminated": document}
        case _:
            assert_never(container.state)


def _container_id(pod: PodView, container: ContainerView) -> str:
    return f"local://{pod.pod_name}/{container.name}"
