"""What a pod's status proves of a container: how it ended, or that it never ran. The rest proves nothing (AIR-38).

The statuses are Kubernetes' own types, as its client reads them.
"""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import models as k8s

from dpone_airflow.pod_end import ContainerEnd, end_of, why_not_made, why_not_started

BASE = "base"


def container(name: str = BASE, *, restarts: int = 0, last: Any = None, **state: Any) -> k8s.V1ContainerStatus:
    return k8s.V1ContainerStatus(
        name=name,
        image="image",
        image_id="",
        ready=False,
        restart_count=restarts,
        state=k8s.V1ContainerState(**state) if state else None,
        last_state=last,
    )


def pod(*statuses: k8s.V1ContainerStatus, phase: str | None = "Pending", **status: Any) -> k8s.V1Pod:
    return k8s.V1Pod(status=k8s.V1PodStatus(phase=phase, container_statuses=list(statuses) or None, **status))


def waiting(reason: str | None) -> dict[str, Any]:
    return {"waiting": k8s.V1ContainerStateWaiting(reason=reason, message="docker.io/secret/image: not found")}


RUNNING: dict[str, Any] = {"running": k8s.V1ContainerStateRunning()}
ENDED: dict[str, Any] = {"terminated": k8s.V1ContainerStateTerminated(exit_code=137, message="text")}
UNSCHEDULED = k8s.V1PodCondition(type="PodScheduled", status="False", reason="Unschedulable")


@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", "PodInitializing"]
)
def test_a_container_that_waits_in_a_pod_that_is_gone_never_ran(reason: str) -> None:
    assert why_not_started(pod(container(**waiting(reason))), BASE) == reason


def test_so_did_no_container_of_a_pod_that_no_node_took() -> None:
    assert why_not_started(pod(conditions=[UNSCHEDULED]), BASE) == "Unschedulable"
    assert why_not_started(pod(), BASE) == "Pending"


@pytest.mark.parametrize(
    "seen",
    [
        None,
        k8s.V1Pod(),
        pod(container(**RUNNING)),
        pod(container(**ENDED)),
        pod(container()),
        pod(container(restarts=1, **waiting("CrashLoopBackOff"))),
        pod(container(last=k8s.V1ContainerState(**ENDED), **waiting("CrashLoopBackOff"))),
        pod(container("airflow-xcom-sidecar", **RUNNING)),
        pod(phase="Running"),
        pod(phase="Failed", reason="Evicted"),
        pod(phase="Unknown"),
        pod(phase=None),
    ],
    ids=[
        "none",
        "no status",
        "runs",
        "ended",
        "no state",
        "again",
        "ran once",
        "other",
        "late",
        "evicted",
        "lost",
        "?",
    ],
)
def test_everything_else_may_have_run(seen: Any) -> None:
    assert why_not_started(seen, BASE) is None


@pytest.mark.parametrize("reason", [None, "", "two words", "x" * 65, "Err\n", "Err\nInjected", "secret-\u202e"])
def test_only_a_word_of_kubernetes_is_repeated(reason: str | None) -> None:
    assert why_not_started(pod(container(**waiting(reason))), BASE) == "Pending"


def test_a_container_that_ended_is_read_by_its_name() -> None:
    seen = pod(container("airflow-xcom-sidecar", **RUNNING), container(**ENDED), phase="Running")
    assert end_of(seen, BASE) == ContainerEnd(exit_code=137, message="text")
    assert end_of(seen, "airflow-xcom-sidecar") is end_of(seen, "other") is end_of(None, BASE) is None


@pytest.mark.parametrize(("answer", "why"), [(403, "HTTP403"), (422, "HTTP422"), (429, "HTTP429")])
def test_a_request_that_was_refused_made_no_pod(answer: int, why: str) -> None:
    assert why_not_made(answer) == why


@pytest.mark.parametrize("answer", [None, 0, 200, 201, 408, 409, 500, 503, 504])
def test_any_other_answer_may_have_made_one(answer: int | None) -> None:
    assert why_not_made(answer) is None
