"""`python -m dpone_airflow.local` serves until it is told to stop, and takes its pods along however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kubernetes import client, config

from dpone_airflow.local.__main__ import parse_settings
from tests.airflow.local_runner.kube import NAMESPACE, shell, until
from tests.airflow.local_runner.test_lifecycle import process_exists

CHECKOUT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "dpone_airflow.local"]


@contextmanager
def program(root: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running program and the line it printed."""
    process = subprocess.Popen(
        [*COMMAND, "--root", str(root), *arguments], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def start_pod(kubeconfig: Path, script: str = "trap '' TERM; echo $$$$; while :; do sleep 0.05; done") -> int:
    """Starts a pod and returns what it printed first."""
    api = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
    api.create_namespaced_pod(NAMESPACE, {"metadata": {"name": "p"}, "spec": {"containers": [shell(script)]}})
    until(lambda: api.read_namespaced_pod("p", NAMESPACE).status.container_statuses[0].state.waiting is None)
    log = until(lambda: api.read_namespaced_pod_log("p", NAMESPACE, _preload_content=False).data)
    api.api_client.rest_client.pool_manager.clear()
    return int(log.splitlines()[0])


def test_it_prints_one_line_with_the_address_once_it_is_ready(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kube" / "config"
    with program(tmp_path / "r", "--kubeconfig", str(kubeconfig), "--token", "t0ken") as (_, line):
        port = re.fullmatch(
            rf"local pod runner: http://127\.0\.0\.1:(\d+) kubeconfig={kubeconfig} isolation=(mount|rewrite)\n", line
        )

        assert port is not None
        document = json.loads(kubeconfig.read_text())
        assert document["clusters"][0]["cluster"]["server"] == f"http://127.0.0.1:{port[1]}"
        assert document["users"][0]["user"]["token"] == "t0ken"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_and_kills_every_pod(tmp_path: Path, number: int) -> None:
    with program(tmp_path, "--isolation", "rewrite") as (process, _):
        pod = start_pod(tmp_path / "kubeconfig")

        process.send_signal(number)

        assert process.wait(20) == 0
        assert not process_exists(pod)
        assert not list(tmp_path.glob("pods-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_killed_runner_leaves_no_container_behind(tmp_path: Path) -> None:
    with program(tmp_path) as (process, _):
        pod = start_pod(tmp_path / "kubeconfig")

        process.kill()
        process.wait()

        until(lambda: not process_exists(pod))


def test_its_options_reach_the_containers(tmp_path: Path) -> None:
    tools, bundle, fixtures = tmp_path / "bin", tmp_path / "bundle", tmp_path / "fixtures.json"
    tools.mkdir()
    bundle.mkdir()
    (tools / "dpone").write_text("#!/bin/sh\ncat /opt/dpone/bundle/number\n")
    (tools / "dpone").chmod(0o755)
    (bundle / "number").write_text("4711\n")
    fixtures.write_text("{}")
    options = ["--path", str(tools), "--bundle", f"{bundle}:/opt/dpone/bundle", "--fixtures", str(fixtures), "--serial"]

    with program(tmp_path / "r", "--isolation", "auto", *options) as (_, line):
        if "isolation=mount" not in line:
            pytest.skip("a path inside a script needs mount isolation")
        assert start_pod(tmp_path / "r" / "kubeconfig", "dpone") == 4711


def test_its_help_says_what_it_is_for() -> None:
    done = subprocess.run([*COMMAND, "--help"], cwd=CHECKOUT, capture_output=True, text=True, check=True)

    assert "For laptops and tests, never a cluster" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--bundle", "x"],
        ["--bundle", "x:relative"],
        ["--isolation", "docker"],
        ["--fixtures", "absent.json"],
        ["--pending", "-1"],
    ],
)
def test_a_wrong_command_line_exits_with_2(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    root = ["--root", str(tmp_path)] if arguments else []

    with pytest.raises(SystemExit) as stop:
        parse_settings([*root, *arguments])

    assert stop.value.code == 2


def test_it_imports_neither_airflow_nor_kubernetes_nor_the_core() -> None:
    script = (
        "import sys, dpone_airflow.local.__main__, dpone_airflow.local.runner; "
        "print([name for name in ('airflow', 'kubernetes', 'dpone_core', 'dpone') if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=True, env=dict(os.environ)
    )

    assert done.stdout == "[]\n"
