"""Makes a container's volumes visible at their mount paths: in a private mount namespace, or by rewriting paths.

The namespace gives real paths and writes nothing to the host's `/`. Rewriting serves where namespaces are not
allowed: mount paths in command, args and environment are replaced by the host's paths, so a program that has such a
path built in will not find it. Neither is a security boundary: a container sees and can write the rest of the host's
files as its owner can.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, assert_never

from dpone_airflow.local import rootfs
from dpone_airflow.local.settings import Isolation
from dpone_airflow.local.volumes import Mount

_NAMESPACES = (("-m",), ("-r", "-m"))  # the second works without privileges where user namespaces are allowed
_PROBE_TIMEOUT_SECONDS = 20


class IsolationUnavailableError(RuntimeError):
    """Mount isolation was demanded and this machine does not allow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a container runs. `scratch` is a directory of its own for the files of one start."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    mounts: tuple[Mount, ...]
    working_directory: str
    scratch: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command line to execute, and the file with the reason why the program could not start; it is absent or empty if
    it did start."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    start_error: Path


class Sandbox(Protocol):
    """A way to run a program with its mounts."""

    @property
    def isolation(self) -> Isolation: ...

    def enter(self, program: Program) -> Launch:
        """Prepares one start of the program; makes files in `program.scratch` only."""
        ...


@dataclass(frozen=True, slots=True)
class MountSandbox:
    """A private mount namespace per container; `unshare` is the command line that makes one."""

    unshare: tuple[str, ...]
    isolation: Isolation = Isolation.MOUNT

    def enter(self, program: Program) -> Launch:
        root = program.scratch / "root"
        root.mkdir(parents=True)
        return _launch(self.unshare, program, root=root)


@dataclass(frozen=True, slots=True)
class RewriteSandbox:
    """The host's file system with mount paths rewritten."""

    isolation: Isolation = Isolation.REWRITE

    def enter(self, program: Program) -> Launch:
        program.scratch.mkdir(parents=True)
        paths = _PathRewriting(program.mounts)
        directory = paths.apply(program.working_directory)
        if not Path(directory).is_dir():
            directory = str(program.scratch)
        rewritten = Program(
            argv=tuple(map(paths.apply, program.argv)),
            env={name: paths.apply(value) for name, value in program.env.items()},
            mounts=(),
            working_directory=directory,
            scratch=program.scratch,
        )
        return _launch((), rewritten, root=None)


def detect_sandbox(isolation: Isolation) -> Sandbox:
    """The sandbox asked for; AUTO prefers mount namespaces. Raises IsolationUnavailableError for MOUNT without them."""
    match isolation:
        case Isolation.REWRITE:
            return RewriteSandbox()
        case Isolation.AUTO:
            return _probe_namespaces() or RewriteSandbox()
        case Isolation.MOUNT:
            if sandbox := _probe_namespaces():
                return sandbox
            raise IsolationUnavailableError(
                "isolation `mount` needs private mount namespaces, which this"
                " machine does not allow; use `rewrite` or `auto`"
            )
        case _:
            assert_never(isolation)


def _probe_namespaces() -> MountSandbox | None:
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    for flags in _NAMESPACES:
        sandbox = MountSandbox((unshare, *flags, "--propagation", "private"))
        if _runs_true(sandbox):
            return sandbox
    return None


def _runs_true(sandbox: MountSandbox) -> bool:
    with tempfile.TemporaryDirectory(prefix="dpone-local-probe-") as directory:
        launch = sandbox.enter(
            Program(argv=("true",), env={}, mounts=(), working_directory="/", scratch=Path(directory) / "a")
        )
        probe = subprocess.run(launch.argv, capture_output=True, timeout=_PROBE_TIMEOUT_SECONDS, check=False)
        return probe.returncode == 0


def _launch(prefix: tuple[str, ...], program: Program, *, root: Path | None) -> Launch:
    start_error, plan = program.scratch / "start-error", program.scratch / "plan.json"
    mounts = sorted(program.mounts, key=lambda mount: mount.target.rstrip("/").count("/"))
    plan.write_text(
        json.dumps(
            {
                "root": None if root is None else str(root),
                "mounts": [(str(mount.source), mount.target, mount.read_only) for mount in mounts],
                "working_directory": program.working_directory,
                "argv": program.argv,
                "env_names": list(program.env),
                "start_error": str(start_error),
            }
        ),
        encoding="utf-8",
    )
    argv = (*prefix, sys.executable, "-I", "-S", rootfs.__file__, str(plan))
    return Launch(argv=argv, env=program.env, start_error=start_error)


class _PathRewriting:
    """Replaces mount targets at path borders.

    `/data` is replaced in `--to=/data/x` and `file:///data`, not in `/my/data` or `/data2`.
    """

    def __init__(self, mounts: tuple[Mount, ...]) -> None:
        self._sources = {mount.target.rstrip("/"): str(mount.source) for mount in mounts}
        targets = sorted(self._sources, key=len, reverse=True)
        alternatives = "|".join(map(re.escape, targets))
        self._pattern = re.compile(rf"(?<![\w.~%-])(?:{alternatives})(?![\w.-])") if targets else None

    def apply(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._sources[match[0]], text)
