"""Airflow's processes: started in groups of their own, watched, and ended without leaving one behind.

A process belongs to an Airflow when its environment names that Airflow's home: this also finds what left its group or
lost its parent (Linux; elsewhere the process groups have to do).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_POLL_SECONDS = 0.2
_LAST_LINES = 15


class ComponentEndedError(Exception):
    """A component is not running any more although nobody stopped it; the message ends with its last log lines."""


@dataclass(slots=True)
class Components:
    """What was started, in that order. `logs` gets one file per component."""

    environment: Mapping[str, str]
    logs: Path
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return Path(self.environment["AIRFLOW_HOME"])

    def run(self, *arguments: str) -> None:
        """One airflow command to its end; raises ComponentEndedError."""
        self.start(arguments[0], *arguments[1:])
        process = self._running[arguments[0]]
        if process.wait() != 0:
            raise self._ended(arguments[0], process.returncode)
        del self._running[arguments[0]]

    def start(self, name: str, *arguments: str) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "airflow", name, *arguments],
                env=dict(self.environment),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def restart(self, name: str, *arguments: str) -> None:
        """Kills a component as a node that goes away does, and starts it again."""
        process = self._running.pop(name)
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        self.start(name, *arguments)

    def check(self) -> None:
        """Raises ComponentEndedError if one has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise self._ended(name, process.returncode)

    def stop(self, grace_seconds: float = 20.0) -> None:
        """Ends every process of this Airflow; returns when none is left."""
        for process in self._running.values():
            _signal_group(process.pid, signal.SIGTERM)
        limit = time.monotonic() + grace_seconds
        while time.monotonic() < limit and self._alive():
            time.sleep(_POLL_SECONDS)
        for process in self._running.values():
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()
        end_leftovers(self.home)
        self._running.clear()

    def _alive(self) -> bool:
        ended = [process.poll() is not None for process in self._running.values()]
        return not all(ended) or any(True for _ in processes_of(self.home))

    def _ended(self, name: str, code: int) -> ComponentEndedError:
        log = self.logs / f"{name}.log"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        tail = "\n".join(f"  {line}" for line in lines)
        return ComponentEndedError(f"airflow {name} ended with {code}; the end of {log}:\n{tail}")


def processes_of(home: Path) -> Iterator[int]:
    """Every process with this Airflow home, except this one."""
    mark = f"AIRFLOW_HOME={home}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and mark in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def end_leftovers(home: Path) -> int:
    """Kills what is left of an Airflow whose supervisor is gone; how many processes that were."""
    found = 0
    limit = time.monotonic() + 10
    while left := list(processes_of(home)):
        found = max(found, len(left))
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > limit:
            break
        time.sleep(_POLL_SECONDS)
    return found


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
