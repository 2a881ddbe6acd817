"""Where a live server is looked for: the environment first, then Docker, then this machine, else UNVERIFIED."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ASK = """
import pytest
from tests.live.servers import Server, address
server = Server(name="PostgreSQL", service="postgres", variable="DPONE_TEST_ABSENT_URI", local=None, port=1)
try:
    print(address(server))
except pytest.skip.Exception as skipped:
    print(skipped.msg)
"""
DOCKER = """#!/bin/sh
echo "$@" >> "{journal}"
case "$*" in
  info) exit {info} ;;
  *" port postgres 5432") echo 127.0.0.1:49153 ;;
esac
"""


def asked(tmp_path: Path, *, info: int, **environment: str) -> tuple[str, list[str]]:
    """The answer of a fresh process whose `docker` is a script, and the commands which that script was given."""
    journal, docker = tmp_path / "journal", tmp_path / "docker"
    journal.touch()
    docker.write_text(DOCKER.format(journal=journal, info=info))
    docker.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=ROOT,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), journal.read_text().splitlines()


def test_a_given_address_is_taken_without_asking_docker(tmp_path: Path) -> None:
    answer, commands = asked(tmp_path, info=0, DPONE_TEST_ABSENT_URI="postgresql://given/db")
    assert (answer, commands) == ("postgresql://given/db", [])


def test_where_docker_answers_the_service_is_started_and_taken_down(tmp_path: Path) -> None:
    answer, commands = asked(tmp_path, info=0)
    assert answer == "postgresql://postgres:Dpone-test-1@127.0.0.1:49153/postgres"
    assert commands[0] == "info"
    assert commands[1].endswith("up --wait postgres")
    assert commands[-1].endswith("down -v")


def test_without_docker_and_without_a_local_server_the_cell_is_unverified(tmp_path: Path) -> None:
    answer, commands = asked(tmp_path, info=1)
    assert answer.startswith("UNVERIFIED: no PostgreSQL answers")
    assert commands == ["info"]


@pytest.mark.parametrize("service", ["clickhouse", "postgres", "mysql", "mssql"])
def test_every_service_is_pinned_checked_and_on_loopback_only(service: str) -> None:
    found = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"][service]
    tag = found["image"].rpartition(":")[2]
    assert tag[0].isdigit() and tag != "latest"
    assert found["healthcheck"]["test"]
    assert all(port.startswith("127.0.0.1:") for port in found["ports"])
