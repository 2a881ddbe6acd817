"""The evidence server shows the files of one directory to this machine, and nothing else to anybody."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpone_airflow.local.evidence_server import EvidenceServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EvidenceServer]:
    run = tmp_path / "evidence" / "runs" / "flights"
    run.mkdir(parents=True)
    (run / "report.html").write_text("<!DOCTYPE html>ä")
    (run / "run.json").write_text("{}")
    (run / "core").write_text("memory")
    (tmp_path / "secret.json").write_text("secret")
    (run / "link.json").symlink_to(tmp_path / "secret.json")
    with EvidenceServer(tmp_path / "evidence") as serving:
        yield serving


def answer(server: EvidenceServer, path: str, host: str | None = None, method: str = "GET") -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path, headers={"Host": host} if host else {})
        response = connection.getresponse()
        return response.status, response.headers.get("Content-Type", ""), response.read()
    finally:
        connection.close()


def test_a_report_and_its_record_are_served_as_what_they_are(server: EvidenceServer) -> None:
    status, kind, body = answer(server, "/runs/flights/report.html")
    assert (status, kind, body) == (200, "text/html; charset=utf-8", "<!DOCTYPE html>ä".encode())
    assert answer(server, "/runs/flights/run.json")[:2] == (200, "application/json")


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/runs/", "/runs/flights", "/absent.html", "/runs/flights/core"),
        *("/runs/flights/link.json", "/../secret.json", "/%2e%2e/secret.json", "/runs/..%2f..%2fsecret.json"),
    ],
)
def test_listings_other_files_and_everything_outside_are_not_there(server: EvidenceServer, path: str) -> None:
    status, _, body = answer(server, path)
    assert status == 404 and b"secret" not in body.replace(path.encode(), b"") and b"memory" not in body


def test_a_foreign_name_for_this_machine_is_refused(server: EvidenceServer) -> None:
    """Otherwise a page of another site could read the evidence through a name that resolves to 127.0.0.1."""
    path = "/runs/flights/run.json"
    assert answer(server, path, host=f"evil.example:{server.port}")[0] == 404
    assert answer(server, path, host=f"localhost:{server.port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(server: EvidenceServer, method: str) -> None:
    assert answer(server, "/runs/flights/run.json", method=method)[0] == 501


def test_it_listens_on_loopback_only_and_stops(tmp_path: Path) -> None:
    with EvidenceServer(tmp_path) as serving:
        assert serving.url == f"http://127.0.0.1:{serving.port}"
        port = serving.port
    with socket.socket() as taken:
        assert taken.connect_ex(("127.0.0.1", port)) != 0
