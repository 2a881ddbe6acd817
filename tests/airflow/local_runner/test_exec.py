"""Exec speaks the websocket protocol of the API server and ends the XCom sidecar without running its kill command."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from kubernetes.stream import stream
from kubernetes.stream.ws_client import WSClient

from tests.airflow.local_runner.kube import NAMESPACE, SIDECAR, Kube, shell, until

XCOM = {"volumes": [{"name": "xcom", "emptyDir": {}}]}
MOUNT = {"volumeMounts": [{"name": "xcom", "mountPath": "/airflow/xcom"}]}


def with_receipt(kube: Kube, script: str = "echo '{}' > /airflow/xcom/return.json", **pod: Any) -> None:
    kube.create(shell(script, **MOUNT), SIDECAR | MOUNT, **XCOM, **pod)
    until(lambda: kube.state().terminated)


def execute(kube: Kube, *command: str, container: str = SIDECAR["name"], stdin: bool = False) -> WSClient:
    return stream(
        kube.api.connect_get_namespaced_pod_exec,
        "subject",
        NAMESPACE,
        container=container,
        command=list(command),
        stdin=stdin,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )


def frames(
    kube: Kube, *command: str, protocol: str, container: str = SIDECAR["name"]
) -> tuple[str | None, list[bytes]]:
    """The answered protocol and every frame, from a plain websocket."""

    async def talk() -> tuple[str | None, list[bytes]]:
        url = f"{kube.runner.url}/api/v1/namespaces/{NAMESPACE}/pods/subject/exec"
        query = [("container", container), ("stdout", "True"), *(("command", word) for word in command)]
        headers = {"Authorization": f"Bearer {kube.runner.token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.ws_connect(url, params=query, protocols=(protocol,), timeout=aiohttp.ClientWSTimeout(20)) as socket,
        ):
            return socket.protocol, [message.data async for message in socket]

    return asyncio.run(talk())


def test_a_command_runs_with_the_files_of_its_container(kube: Kube) -> None:
    with_receipt(kube)

    socket = execute(kube, "cat", "/airflow/xcom/return.json")
    socket.run_forever(timeout=20)

    assert (socket.read_stdout(), socket.returncode) == ("{}\n", 0)


def test_stdout_stderr_and_the_exit_code_are_told_apart(kube: Kube) -> None:
    with_receipt(kube)

    socket = execute(kube, "sh", "-c", "echo out; echo err >&2; exit 3")
    socket.run_forever(timeout=20)

    assert (socket.read_stdout(), socket.read_stderr(), socket.returncode) == ("out\n", "err\n", 3)


def test_two_megabytes_arrive_whole(kube: Kube) -> None:
    with_receipt(kube, "head -c 2000000 /dev/zero | tr '\\0' a > /airflow/xcom/return.json")

    socket = execute(kube, "cat", "/airflow/xcom/return.json")
    socket.run_forever(timeout=20)

    assert len(socket.read_stdout()) == 2_000_000


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_either_protocol_version_is_answered_with_channel_bytes(kube: Kube, protocol: str) -> None:
    with_receipt(kube)

    answered, received = frames(kube, "echo", "x", protocol=protocol)

    assert answered == protocol
    assert received[0] == b"\x01x\n"
    assert received[-1][:1] == b"\x03"
    assert json.loads(received[-1][1:]) == {"metadata": {}, "status": "Success"}


def test_a_foreign_protocol_is_refused(kube: Kube) -> None:
    with_receipt(kube)

    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        frames(kube, "true", protocol="v1.channel.k8s.io")

    assert refusal.value.status == 400


def test_the_kill_command_ends_the_sidecar_and_the_pod_succeeds(kube: Kube) -> None:
    with_receipt(kube)
    assert kube.phase() == "Running"

    socket = execute(kube, "/bin/sh", stdin=True)
    socket.write_stdin("kill -2 $(pgrep -u $(id -u) -f 'sh')\n")
    socket.run_forever(timeout=20)

    kube.wait_for("Succeeded")
    assert kube.state(SIDECAR["name"]).terminated.exit_code == 0


def test_stdin_reaches_no_shell(kube: Kube, tmp_path: Any) -> None:
    with_receipt(kube)

    socket = execute(kube, "/bin/sh", stdin=True)
    socket.write_stdin(f"touch {tmp_path}/ran\nkill -2 1\n")
    socket.run_forever(timeout=20)

    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("container", "command"),
    [("base", ["true"]), ("nope", ["true"]), (SIDECAR["name"], [])],
    ids=["ended", "unknown", "empty"],
)
def test_an_exec_that_makes_no_sense_is_a_bad_request(kube: Kube, container: str, command: list[str]) -> None:
    with_receipt(kube)

    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        frames(kube, *command, container=container, protocol="v5.channel.k8s.io")

    assert refusal.value.status == 400


def test_an_exec_without_a_websocket_is_a_bad_request(kube: Kube) -> None:
    with_receipt(kube)

    path = f"/api/v1/namespaces/default/pods/subject/exec?container={SIDECAR['name']}&command=true"
    assert kube.request("GET", path)[0] == 400


def test_a_garbled_exec_answers_half_a_document(kube: Kube) -> None:
    with_receipt(kube, metadata={"annotations": {"local.dpone/exec": "garbage"}})

    socket = execute(kube, "cat", "/airflow/xcom/return.json")
    socket.run_forever(timeout=20)

    assert socket.read_stdout() == '{"half": '


def test_a_hanging_exec_does_not_keep_the_runner_from_stopping(kube: Kube) -> None:
    with_receipt(kube, metadata={"annotations": {"local.dpone/exec": "hang"}})

    socket = execute(kube, "cat", "/airflow/xcom/return.json")

    assert socket.is_open()
    assert socket.peek_stdout(timeout=0.1) == ""
    kube.runner.stop()
    socket.close()


def test_an_exec_ends_with_its_container(kube: Kube) -> None:
    kube.create(shell("echo up; exec sleep 600"))
    kube.wait_for_line("up")
    socket = execute(kube, "sleep", "600", container="base")

    kube.api.delete_namespaced_pod("subject", NAMESPACE, grace_period_seconds=0)

    socket.run_forever(timeout=20)
    assert not socket.is_open()
    until(lambda: not kube.exists())
