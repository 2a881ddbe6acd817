"""Servers of docker-compose.yml, once per test process on free loopback ports, where a Docker engine answers."""

from __future__ import annotations

import atexit
import os
import subprocess
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final

from pytest_docker.plugin import get_docker_services

ROOT: Final = Path(__file__).resolve().parents[2]
PASSWORD: Final = "Dpone-test-1"
"""Of throwaway containers on loopback only."""
_PORTS: Final = {
    "clickhouse": ("DPONE_CLICKHOUSE_PORT", 8123),
    "postgres": ("DPONE_POSTGRES_PORT", 5432),
    "mysql": ("DPONE_MYSQL_PORT", 3306),
    "mssql": ("DPONE_MSSQL_PORT", 1433),
}
_URIS: Final = {
    "clickhouse": "clickhouse://dpone:{password}@127.0.0.1:{port}/default",
    "postgres": "postgresql://postgres:{password}@127.0.0.1:{port}/postgres",
    "mysql": "mysql://root:{password}@127.0.0.1:{port}/mysql",
    "mssql": "mssql://sa:{password}@127.0.0.1:{port}/master?trust_server_certificate=yes",
}
_ANSWER_SECONDS: Final = 10


@cache
def docker_answers() -> bool:
    try:
        done = subprocess.run(
            ["docker", "info"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@cache
def started(service: str) -> str | None:
    """The URI of a healthy container of this process; None without Docker. A container that fails to start raises."""
    if not docker_answers():
        return None
    variable, port = _PORTS[service]
    os.environ[variable] = ""  # an empty host port: Docker chooses a free one
    running = ExitStack()
    services = running.enter_context(
        get_docker_services(
            "docker compose",
            str(ROOT / "docker-compose.yml"),
            f"dpone-test-{os.getpid()}-{service}",
            [f"up --wait {service}"],
            ["down -v"],
        )
    )
    atexit.register(running.close)
    return _URIS[service].format(password=PASSWORD, port=services.port_for(service, port))
