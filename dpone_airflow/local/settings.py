"""The settings of a local pod runner."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from dpone_airflow.local.fixtures import Fixtures
from dpone_airflow.local.volumes import Mount

DEFAULT_LOG_LIMIT_BYTES = 4 << 20


class Isolation(StrEnum):
    """How a container gets to see its volumes at their mount paths."""

    AUTO = "auto"
    MOUNT = "mount"
    REWRITE = "rewrite"


def random_token() -> str:
    """A bearer token of 256 bits."""
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The runner's configuration; nothing of it changes while it runs.

    `root` holds the pods' files; it is created unless it exists. `search_path` is put before every container's
    PATH. `bundles` are mounted in every container, as if its image had them. `env` is all that a container
    inherits. `entrypoint` stands for the images' own: it runs where a container declares no command.
    """

    root: Path
    port: int = 0
    token: str = field(default_factory=random_token, repr=False)
    kubeconfig: Path | None = None
    fixtures: Fixtures = field(default_factory=Fixtures)
    isolation: Isolation = Isolation.AUTO
    pending_seconds: float = 0.0
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    search_path: tuple[Path, ...] = ()
    bundles: tuple[Mount, ...] = ()
    serial: bool = False
    entrypoint: tuple[str, ...] = ()
    log_limit_bytes: int = DEFAULT_LOG_LIMIT_BYTES

    def __post_init__(self) -> None:
        for bundle in self.bundles:
            if not bundle.source.exists():
                raise ValueError(f"bundle source does not exist: {bundle.source}")
        if self.log_limit_bytes < 1 or self.pending_seconds < 0:
            raise ValueError("log_limit_bytes must be greater than 0, and pending_seconds at least 0")


def select_env(parent: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """PATH, HOME and the named variables of `parent`; no other variable is passed on."""
    defaults = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/"}
    return defaults | {name: parent[name] for name in ("PATH", "HOME", *names) if name in parent}
