"""`dpone run` as a real process, and all that one leaves: exit, receipt, printed report, run.json, phases."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.forks import Forked, Forks

CHECKOUT: Final = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS: Final = 180.0
"""For one process; what has not ended by then is ended, and is a violation."""
FAKETIME: Final = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
_PHASE: Final = re.compile(r"phase=(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """`exit_code` is negative for a death by signal. `published` is the run.json that the receipt names, or without a
    receipt the newest one of the run id; `tampered` says that its bytes are not those of the receipt's digest."""

    run_id: str
    exit_code: int
    in_time: bool
    receipt: dict[str, Any] | None
    report: dict[str, Any] | None
    published: dict[str, Any] | None
    tampered: bool
    phases: tuple[tuple[str, float], ...]
    seconds: float
    stderr: str

    @property
    def succeeded(self) -> bool:
        return self.receipt is not None and self.receipt["status"] == "succeeded"

    @property
    def code(self) -> str:
        """The stable code of the receipt, or how the process ended without one."""
        if self.receipt is not None:
            return str(self.receipt["error_code"] or self.receipt["status"])
        return "killed" if self.exit_code < 0 else f"exit {self.exit_code} without a receipt"


@dataclass(slots=True)
class Place:
    """A directory to run in, with its environment. `clock_offset` seconds are added to the clock of every process.

    `forks` start the runs that see the clock as it is; None = each run starts Python.
    """

    root: Path
    environment: dict[str, str]
    forks: Forks | None = None
    clock_offset: int = 0
    commands: list[str] = field(default_factory=list)

    @property
    def evidence(self) -> Path:
        return Path(self.environment["DPONE_EVIDENCE_DIR"])

    def variables(self, clock: str | None = None) -> dict[str, str]:
        """`clock` is what libfaketime shall make of the clock, in place of the offset of this place."""
        base = {"PATH": os.environ["PATH"], "HOME": str(self.root), "PYTHONPATH": str(CHECKOUT), **self.environment}
        spec = clock if clock is not None else (f"{self.clock_offset:+d}s" if self.clock_offset else None)
        if spec is None:
            return base
        path = f"{Path(__file__).parent / 'clock'}{os.pathsep}{CHECKOUT}"
        faked = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": spec, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        return {**base, **faked, "PYTHONPATH": path}

    def operate(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """An operator's command with JSON output: exit code and document, an empty one where none was printed."""
        command = Command(self, [*arguments, "--format", "json"], name="operator")
        command.wait(DEADLINE_SECONDS)
        exit_code = command.end()
        return exit_code, _document(command.printed()) or {}


class Command:
    """One `dpone` process on its way. `name` is that of its files in the place."""

    def __init__(self, place: Place, arguments: list[str], *, name: str, clock: str | None = None) -> None:
        self.place = place
        variables = place.variables(clock)
        shown = f"FAKETIME={variables['FAKETIME']} " if "FAKETIME" in variables else ""
        place.commands.append(f"{shown}dpone {' '.join(arguments)}")
        self._stdout = place.root / f"{name}.stdout"
        self._stdout.unlink(missing_ok=True)
        self.started_at = time.monotonic()
        self.process = self._process(arguments, variables, place.root / f"{name}.stderr")
        self.phases: list[tuple[str, float]] = []
        self.lines: list[str] = []
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _process(
        self, arguments: list[str], variables: Mapping[str, str], pipe: Path
    ) -> subprocess.Popen[bytes] | Forked:
        if self.place.forks is not None and "LD_PRELOAD" not in variables:
            return self.place.forks.start(arguments, self.place.root, variables, self._stdout, pipe)
        with self._stdout.open("wb") as stdout:
            return subprocess.Popen(
                [sys.executable, "-m", "dpone", *arguments],
                cwd=self.place.root,
                env=variables,
                stdout=stdout,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )

    def _read(self) -> None:
        assert self.process.stderr is not None
        for raw in self.process.stderr:
            line = raw.decode(errors="replace")
            with self._said:
                self.lines.append(line)
                if found := _PHASE.search(line):
                    self.phases.append((found[1], time.monotonic() - self.started_at))
                self._said.notify_all()

    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_for_phase(self, phase: str, seconds: float) -> None:
        """Until the phase is announced, the process is gone, or the time is over."""
        end = time.monotonic() + seconds
        with self._said:
            while phase not in {name for name, _ in self.phases} and self.is_running() and time.monotonic() < end:
                self._said.wait(0.02)

    def wait(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(seconds, 0))

    def end(self) -> int:
        """Its exit; one that still runs is ended, and its children with it."""
        if self.is_running():
            os.killpg(self.process.pid, signal.SIGKILL)
        exit_code = self.process.wait()
        self._reader.join(10)
        self._stdout.with_suffix(".log").write_text("".join(self.lines), encoding="utf-8")
        return exit_code

    def printed(self) -> bytes:
        return self._stdout.read_bytes() if self._stdout.is_file() else b""


class Started(Command):
    """A run of the manifest of a place."""

    def __init__(self, place: Place, run_id: str, *, name: str, clock: str | None = None) -> None:
        self.run_id = run_id
        self._receipt = place.root / f"{name}.receipt.json"
        self._receipt.unlink(missing_ok=True)
        arguments = ["run", "m.yaml", "--run-id", run_id, "--format", "json", "--progress", "log"]
        super().__init__(place, [*arguments, "--receipt-path", str(self._receipt)], name=name, clock=clock)

    def ended(self) -> Ended:
        self.wait(DEADLINE_SECONDS - (time.monotonic() - self.started_at))
        in_time = not self.is_running()
        seconds = time.monotonic() - self.started_at
        exit_code = self.end()
        receipt = _document(self._receipt.read_bytes()) if self._receipt.is_file() else None
        published, tampered = self._published(receipt)
        return Ended(
            run_id=self.run_id,
            exit_code=exit_code,
            in_time=in_time,
            receipt=receipt,
            report=_document(self.printed()),
            published=published,
            tampered=tampered,
            phases=tuple(self.phases),
            seconds=seconds,
            stderr="".join(self.lines),
        )

    def _published(self, receipt: Mapping[str, Any] | None) -> tuple[dict[str, Any] | None, bool]:
        evidence = self.place.evidence
        if receipt is not None:
            if receipt["evidence_path"] is None:
                return None, False
            path = evidence / receipt["evidence_path"]
            if not path.is_file():
                return None, True
            content = path.read_bytes()
            return _document(content), f"sha256:{hashlib.sha256(content).hexdigest()}" != receipt["evidence_sha256"]
        found = [path for path in evidence.glob(f"runs/*/{self.run_id}-*/*/run.json") if path.is_file()]
        return (_document(max(found).read_bytes()) if found else None), False


def _document(content: bytes) -> dict[str, Any] | None:
    with suppress(ValueError):
        found = json.loads(content)
        return found if isinstance(found, dict) else None
    return None
