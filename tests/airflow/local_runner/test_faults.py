"""A fault happens exactly where, when and as often as it was asked for."""

from __future__ import annotations

import http.client
from typing import Any

import pytest
from kubernetes.client import ApiException

from dpone_airflow.local.wire import ApiError
from tests.airflow.local_runner.kube import NAMESPACE, SIDECAR, Kube, shell, until

PODS = "/api/v1/namespaces/default/pods"


def fault(**faults: str) -> dict[str, Any]:
    return {"annotations": {f"local.dpone/{name.replace('_', '-')}": value for name, value in faults.items()}}


def test_a_request_fails_as_often_as_asked(kube: Kube) -> None:
    kube.runner.fail_next("GET", r"/pods$", 500, times=2)

    assert [kube.request("GET", PODS)[0] for _ in range(3)] == [500, 500, 200]


def test_only_the_named_method_and_path_fail(kube: Kube) -> None:
    kube.runner.fail_next("POST", r"/pods$", 403)

    assert kube.request("GET", PODS)[0] == 200
    with pytest.raises(ApiException) as refusal:
        kube.create(shell("true"))
    assert (refusal.value.status, refusal.value.reason) == (403, "Forbidden")


def test_cleared_faults_do_not_happen(kube: Kube) -> None:
    kube.runner.fail_next("GET", "pods", 500, times=9)

    kube.runner.clear_faults()

    assert kube.request("GET", PODS)[0] == 200


def test_the_control_endpoints_do_the_same(kube: Kube) -> None:
    kube.request("POST", "/_local/fail", {"method": "GET", "path": "pods", "status": 429, "times": 9})
    first = kube.request("GET", PODS)[0]
    kube.request("POST", "/_local/clear-faults")

    assert (first, kube.request("GET", PODS)[0]) == (429, 200)


def test_faults_spare_the_control_endpoints(kube: Kube) -> None:
    kube.runner.fail_next("GET", "", 500, times=9)

    assert kube.request("GET", "/_local/state")[0] == 200


@pytest.mark.parametrize(
    "body", [{}, [], {"method": "GET", "path": "(", "status": 500}, {"method": "GET", "path": "", "status": 200}]
)
def test_a_malformed_request_fault_is_refused(kube: Kube, body: Any) -> None:
    assert kube.request("POST", "/_local/fail", body)[0] == 400


@pytest.mark.parametrize("faults", [{"pendign_seconds": "1"}, {"pending_seconds": "soon"}, {"exec": "maybe"}])
def test_an_unknown_or_malformed_pod_fault_refuses_the_pod(kube: Kube, faults: dict[str, str]) -> None:
    with pytest.raises(ApiException) as refusal:
        kube.create(shell("true"), metadata=fault(**faults))

    assert refusal.value.status == 422
    assert not kube.exists()


def test_a_pending_pod_starts_when_its_time_is_over(kube: Kube) -> None:
    kube.create(shell("true"), metadata=fault(pending_seconds="0.3"))
    assert kube.phase() == "Pending"

    kube.wait_for("Succeeded")


def test_an_unschedulable_pod_says_so(kube: Kube) -> None:
    kube.create(shell("true"), metadata=fault(unschedulable="1"))

    until(lambda: kube.api.list_namespaced_event(NAMESPACE).items)
    conditions = {item.type: item.status for item in kube.read().status.conditions}
    assert (kube.phase(), conditions["PodScheduled"]) == ("Pending", "False")
    assert kube.api.list_namespaced_event(NAMESPACE).items[0].reason == "FailedScheduling"


def test_a_failing_image_pull_keeps_every_container_waiting(kube: Kube) -> None:
    kube.create(shell("true"), SIDECAR, metadata=fault(waiting="ErrImagePull|manifest unknown"))

    until(lambda: kube.state().waiting.reason == "ErrImagePull")
    assert kube.state(SIDECAR["name"]).waiting.message == "manifest unknown"
    assert kube.phase() == "Pending"


def test_a_followed_log_is_cut_after_the_given_lines(kube: Kube) -> None:
    kube.create(shell("seq 1 9; exec sleep 600"), metadata=fault(log_drop_after="2"))
    kube.wait_for_line("9")

    connection = http.client.HTTPConnection("127.0.0.1", kube.runner.port, timeout=20)
    connection.request(
        "GET", f"{PODS}/subject/log?follow=True", headers={"Authorization": f"Bearer {kube.runner.token}"}
    )
    with pytest.raises(http.client.IncompleteRead) as cut:
        connection.getresponse().read()

    assert cut.value.partial == b"1\n2\n"
    assert len(kube.log().splitlines()) == 9


def test_an_out_of_memory_kill_is_named(kube: Kube) -> None:
    kube.create(shell("echo up; exec sleep 600"), metadata=fault(oom="1"))
    kube.wait_for_line("up")

    kube.runner.kill(NAMESPACE, "subject")

    kube.wait_for("Failed")
    assert (kube.state().terminated.reason, kube.state().terminated.exit_code) == ("OOMKilled", 137)


def test_stripped_status_fields_are_not_served(kube: Kube) -> None:
    kube.create(shell("true"), metadata=fault(strip_status="phase,containerStatuses"))

    status = kube.request("GET", f"{PODS}/subject")[1]["status"]

    assert not {"phase", "containerStatuses"} & status.keys()
    assert "conditions" in status


@pytest.mark.parametrize(("action", "gone"), [("kill?signal=15", False), ("evict", False), ("vanish", True)])
def test_a_pod_can_be_broken_through_the_control_endpoints(kube: Kube, action: str, gone: bool) -> None:
    kube.create(shell("echo up; exec sleep 600"))
    kube.wait_for_line("up")

    assert kube.request("POST", f"/_local/pods/default/subject/{action}")[0] == 200

    until(lambda: not kube.exists() if gone else kube.phase() == "Failed")


@pytest.mark.parametrize("action", ["kill?signal=9", "evict", "vanish"])
def test_an_unknown_pod_cannot_be_broken(kube: Kube, action: str) -> None:
    assert kube.request("POST", f"/_local/pods/default/absent/{action}")[0] == 404
    with pytest.raises(ApiError):
        kube.runner.evict(NAMESPACE, "absent")


@pytest.mark.parametrize("number", ["0", "999", "x"])
def test_a_signal_must_exist(kube: Kube, number: str) -> None:
    kube.create(shell("true"))

    assert kube.request("POST", f"/_local/pods/default/subject/kill?signal={number}")[0] == 400
