"""A pod goes through the kubelet's phases, and its processes end with it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes.client import ApiException, V1DeleteOptions

from tests.airflow.local_runner.kube import FINAL, NAMESPACE, SIDECAR, Kube, shell, until


def process_exists(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{number}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def base_process(kube: Kube) -> int:
    until(lambda: kube.state().waiting is None and kube.log().endswith("\n"))
    return int(kube.log().splitlines()[0])


@pytest.mark.parametrize(("exit_code", "phase", "reason"), [(0, "Succeeded", "Completed"), (2, "Failed", "Error")])
def test_the_exit_code_decides_the_phase(kube: Kube, exit_code: int, phase: str, reason: str) -> None:
    pod = kube.run(shell(f"exit {exit_code}"))

    ended = kube.state().terminated
    assert (pod.status.phase, ended.exit_code, ended.reason) == (phase, exit_code, reason)
    assert ended.finished_at is not None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_container_exits_with_128_and_the_signal(kube: Kube, number: int) -> None:
    kube.create(shell("echo up; exec sleep 60"))
    kube.wait_for_line("up")

    kube.runner.kill(NAMESPACE, "subject", number)

    kube.wait_for("Failed")
    assert (kube.state().terminated.exit_code, kube.state().terminated.signal) == (128 + number, number)


def test_a_command_that_does_not_exist_is_a_start_error(kube: Kube) -> None:
    kube.run({"name": "base", "image": "x", "command": ["no-such-program"]})

    ended = kube.state().terminated
    assert (ended.exit_code, ended.reason) == (128, "StartError")
    assert ended.message == 'exec: "no-such-program": executable file not found in $PATH'


def test_a_word_that_no_system_call_takes_is_a_start_error(kube: Kube) -> None:
    kube.run({"name": "base", "image": "x", "command": ["echo", "a\0b"]})

    assert (kube.state().terminated.exit_code, kube.state().terminated.reason) == (128, "StartError")


def test_a_container_without_command_and_entrypoint_cannot_be_created(kube: Kube) -> None:
    kube.create({"name": "base", "image": "x"})

    until(lambda: kube.state().waiting and kube.state().waiting.reason == "CreateContainerError")
    assert kube.phase() == "Pending"


def test_the_entrypoint_serves_containers_that_declare_only_arguments(start: Callable[..., Kube]) -> None:
    kube = start(entrypoint=("echo", "entry"))

    kube.run({"name": "base", "image": "x", "args": ["point"]})

    assert kube.log() == "entry point\n"


def test_the_xcom_sidecar_keeps_the_pod_running_after_base_has_ended(kube: Kube) -> None:
    kube.create(shell("exit 0"), SIDECAR)

    until(lambda: kube.state().terminated)

    assert kube.phase() == "Running"
    assert kube.state(SIDECAR["name"]).running


def test_the_command_of_the_xcom_sidecar_is_never_run(kube: Kube, tmp_path: Any) -> None:
    mark = tmp_path / "ran"
    kube.create(shell("exit 0"), {**SIDECAR, "command": ["sh", "-c", f"touch {mark}"]})

    until(lambda: kube.state().terminated)
    kube.api.delete_namespaced_pod("subject", NAMESPACE)
    until(lambda: not kube.exists())

    assert not mark.exists()


def test_init_containers_run_in_order_before_the_others(kube: Kube) -> None:
    volume = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    first = shell("echo one >> /shared/order", **volume) | {"name": "first"}
    second = shell("echo two >> /shared/order", **volume) | {"name": "second"}

    kube.run(shell("cat /shared/order", **volume), initContainers=[first, second], volumes=[{"name": "shared"}])

    assert kube.log() == "one\ntwo\n"


def test_a_failed_init_container_fails_the_pod_before_base_starts(kube: Kube) -> None:
    pod = kube.run(shell("echo never"), initContainers=[shell("exit 7") | {"name": "first"}])

    assert pod.status.phase == "Failed"
    assert kube.state().waiting.reason == "PodInitializing"
    assert kube.state("first").terminated.exit_code == 7


def test_a_pod_is_pending_as_long_as_it_is_told_to(kube: Kube) -> None:
    kube.create(shell("exit 0"), metadata={"annotations": {"local.dpone/pending-seconds": "600"}})

    assert kube.phase() == "Pending"
    assert kube.state().waiting.reason == "ContainerCreating"


def test_a_pending_time_of_the_runner_holds_for_every_pod(start: Callable[..., Kube]) -> None:
    kube = start(pending_seconds=600.0)

    kube.create(shell("exit 0"))

    assert kube.phase() == "Pending"


def test_children_of_a_container_end_with_its_first_process(kube: Kube) -> None:
    kube.run(shell("sleep 600 & echo $!"))

    child = int(kube.log())
    until(lambda: not process_exists(child))


@pytest.mark.parametrize("place", ["query", "body"])
def test_a_deletion_terminates_waits_for_the_grace_period_and_kills(kube: Kube, place: str) -> None:
    kube.create(shell("trap 'echo ignored' TERM; echo $$$$; while :; do sleep 0.05; done"))
    process = base_process(kube)

    grace: dict[str, Any] = {"grace_period_seconds": 1}
    kube.api.delete_namespaced_pod(
        "subject", NAMESPACE, **grace if place == "query" else {"body": V1DeleteOptions(**grace)}
    )

    assert kube.read().metadata.deletion_timestamp is not None
    until(lambda: not kube.exists())
    assert not process_exists(process)
    report = kube.runner.state()["finished"][-1]
    assert report["exit_codes"] == {"base": 137}
    assert "ignored" in report["logs"]["base"]


def test_a_container_that_obeys_sigterm_reports_its_own_exit_code(kube: Kube) -> None:
    kube.create(shell("trap 'exit 143' TERM; echo $$$$; while :; do sleep 0.05; done"))
    base_process(kube)

    kube.api.delete_namespaced_pod("subject", NAMESPACE)

    until(lambda: not kube.exists())
    assert kube.runner.state()["finished"][-1]["exit_codes"] == {"base": 143}


def test_a_deletion_without_grace_kills_at_once(kube: Kube) -> None:
    kube.create(shell("trap 'echo heard' TERM; echo $$$$; while :; do sleep 0.05; done"))
    base_process(kube)

    kube.api.delete_namespaced_pod("subject", NAMESPACE, grace_period_seconds=0)

    until(lambda: not kube.exists())
    assert "heard" not in kube.runner.state()["finished"][-1]["logs"]["base"]


def test_a_deletion_just_after_the_creation_leaves_no_process(kube: Kube) -> None:
    kube.create(shell("echo $$$$; exec sleep 600"))

    kube.api.delete_namespaced_pod("subject", NAMESPACE)

    until(lambda: not kube.exists(), seconds=5)


def test_an_exceeded_deadline_fails_the_pod_and_its_sidecar(kube: Kube) -> None:
    kube.create(shell("exec sleep 600"), SIDECAR, activeDeadlineSeconds=1, terminationGracePeriodSeconds=1)

    pod = kube.wait_for("Failed")

    assert pod.status.reason == "DeadlineExceeded"
    assert kube.state(SIDECAR["name"]).terminated.exit_code == 137


def test_an_evicted_pod_stays_and_says_why(kube: Kube) -> None:
    kube.create(shell("echo up; exec sleep 600"), SIDECAR)
    kube.wait_for_line("up")

    kube.runner.evict(NAMESPACE, "subject")

    pod = kube.read()
    assert (pod.status.phase, pod.status.reason) == ("Failed", "Evicted")
    assert kube.state(SIDECAR["name"]).terminated is not None


def test_a_pod_that_has_ended_cannot_be_evicted(kube: Kube) -> None:
    kube.run(shell("exit 0"))

    kube.runner.evict(NAMESPACE, "subject")

    assert (kube.phase(), kube.read().status.reason) == ("Succeeded", None)


def test_a_vanished_pod_is_gone_with_its_processes(kube: Kube) -> None:
    kube.create(shell("echo $$$$; exec sleep 600"))
    process = base_process(kube)

    kube.runner.vanish(NAMESPACE, "subject")

    assert not kube.exists()
    assert not process_exists(process)


def test_a_name_can_be_taken_once(kube: Kube) -> None:
    kube.create(shell("exit 0"))

    with pytest.raises(ApiException) as refusal:
        kube.create(shell("exit 0"))

    assert refusal.value.status == 409


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "UPPER"}]}, "spec.containers"),
        ({"containers": [{"name": "a"}, {"name": "a"}]}, "spec.containers"),
        ({"containers": [{"name": "a"}], "volumes": [{"name": "v", "nfs": {}}]}, "spec.volumes[0]"),
    ],
)
def test_a_pod_that_is_not_modelled_is_refused(kube: Kube, spec: dict[str, Any], place: str) -> None:
    status, body = kube.request(
        "POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "subject"}, "spec": spec}
    )

    assert (status, body["reason"]) == (422, "Invalid")
    assert body["message"].startswith(place)


def test_a_serial_runner_queues_the_second_pod_until_base_of_the_first_has_ended(start: Callable[..., Kube]) -> None:
    kube = start(serial=True)
    kube.create(shell("echo up; while [ ! -e /gate/open ]; do sleep 0.02; done",
                      volumeMounts=[{"name": "gate", "mountPath": "/gate"}]), SIDECAR, name="first",
                volumes=[{"name": "gate", "persistentVolumeClaim": {"claimName": "gate"}}])  # fmt: skip
    kube.wait_for_line("up", name="first")

    kube.create(shell("echo second"), name="second")
    assert kube.phase("second") == "Pending"
    (kube.runner.kubeconfig_path.parent / "claims" / NAMESPACE / "gate" / "open").touch()

    kube.wait_for("Succeeded", name="second")
    assert kube.phase("first") == "Running"  # its sidecar does not hold the place


def test_a_queued_pod_can_be_deleted(start: Callable[..., Kube]) -> None:
    kube = start(serial=True)
    kube.create(shell("echo up; exec sleep 600"), name="first")
    kube.wait_for_line("up", name="first")
    kube.create(shell("exit 0"), name="second")

    kube.api.delete_namespaced_pod("second", NAMESPACE)

    until(lambda: not kube.exists("second"))
    assert kube.phase("first") == "Running"


def test_the_end_of_the_runner_is_the_end_of_every_process(start: Callable[..., Kube]) -> None:
    kube = start()
    kube.create(shell("trap '' TERM; echo $$$$; while :; do sleep 0.05; done"))
    process = base_process(kube)
    began = time.monotonic()

    kube.runner.stop()

    assert not process_exists(process)
    assert time.monotonic() - began < 10


def test_the_end_of_a_pod_deletes_its_files(kube: Kube) -> None:
    kube.run(shell("exit 0"))
    root = kube.runner.kubeconfig_path.parent
    assert list(root.glob("pods-*/*"))

    kube.api.delete_namespaced_pod("subject", NAMESPACE)

    until(lambda: not kube.exists())
    assert not list(root.glob("pods-*/*"))


def test_phases_end_only_once(kube: Kube) -> None:
    kube.run(shell("exit 0"))
    kube.runner.kill(NAMESPACE, "subject")

    assert kube.phase() in FINAL
    assert kube.state().terminated.exit_code == 0
