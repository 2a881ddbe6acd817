"""Dockerfile and docker-compose.yml can be read by the tools that will read them, without an engine at hand."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
INSTRUCTIONS = {"FROM", "ARG", "RUN", "COPY", "WORKDIR", "USER", "ENTRYPOINT", "ENV", "LABEL", "CMD"}


def logical_lines(text: str) -> list[str]:
    joined = re.sub(r"\\\n", " ", text)
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def test_every_dockerfile_line_is_a_known_instruction_and_starts_from_an_image() -> None:
    lines = logical_lines((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert lines[0].startswith("FROM ")
    assert {line.split()[0] for line in lines} <= INSTRUCTIONS


def test_every_path_the_dockerfile_copies_exists() -> None:
    lines = logical_lines((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert [word for word in copied if "$" not in word and not (ROOT / word).exists()] == []


def test_the_image_runs_the_cli_as_an_unprivileged_user() -> None:
    lines = logical_lines((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert lines.index("USER dpone") < lines.index('ENTRYPOINT ["dpone"]')


def test_the_compose_file_publishes_on_loopback_and_pins_its_image() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    for service in services.values():
        assert re.fullmatch(r"[^:]+:[0-9].*", service["image"])
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["healthcheck"]["test"]
