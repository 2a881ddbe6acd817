"""The runner serves its own machine and who holds its token, and answers every error as a Status document."""

from __future__ import annotations

import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.airflow.local_runner.kube import Kube


@pytest.mark.parametrize("path", ["/version", "/api/v1/namespaces/default/pods", "/_local/state"])
def test_a_wrong_token_is_unauthorized(kube: Kube, path: str) -> None:
    status, body = kube.request("GET", path, token="guess")

    assert (status, body["kind"], body["reason"], body["code"]) == (401, "Status", "Unauthorized", 401)


@pytest.mark.parametrize("path", ["/_local/fail", "/_local/clear-faults", "/_local/pods/default/x/kill"])
def test_a_control_request_needs_the_token_too(kube: Kube, path: str) -> None:
    assert kube.request("POST", path, {}, token="guess")[0] == 401


@pytest.mark.parametrize("path", ["/apis/apps/v1/deployments", "/api/v1/namespaces/default/secrets", "/nowhere"])
def test_an_unknown_path_is_not_found(kube: Kube, path: str) -> None:
    status, body = kube.request("GET", path)

    assert (status, body["kind"], body["reason"]) == (404, "Status", "NotFound")


def test_an_unknown_pod_is_named_in_the_answer(kube: Kube) -> None:
    status, body = kube.request("GET", "/api/v1/namespaces/default/pods/absent")

    assert (status, body["message"]) == (404, 'pods "absent" not found')


def test_the_kubeconfig_is_readable_by_its_owner_only(kube: Kube) -> None:
    assert stat.S_IMODE(kube.runner.kubeconfig_path.stat().st_mode) == 0o600


def test_a_root_that_exists_keeps_its_mode(start: Callable[..., Kube], tmp_path: Path) -> None:
    root = tmp_path / "runner"
    root.mkdir(mode=0o755)

    start()

    assert stat.S_IMODE(root.stat().st_mode) == 0o755
    assert [stat.S_IMODE(path.stat().st_mode) for path in root.glob("pods-*")] == [0o700]


def test_two_runners_do_not_share_a_token(start: Callable[..., Kube]) -> None:
    assert start().runner.token != start().runner.token


def test_it_listens_on_loopback_only(kube: Kube) -> None:
    with pytest.raises(OSError), socket.create_connection(("127.0.0.2", kube.runner.port), timeout=5):
        pass


def test_the_request_log_holds_no_token(kube: Kube) -> None:
    kube.request("GET", "/version")

    assert kube.runner.token not in str(kube.runner.state())


def test_the_state_names_each_request_with_its_answer(kube: Kube) -> None:
    kube.request("GET", "/nowhere")

    assert {"method": "GET", "path": "/nowhere", "status": 404}.items() <= kube.runner.state()["requests"][-1].items()
