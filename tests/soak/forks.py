"""Runs of `dpone` as forks of a process that has imported everything and opened nothing: cheaper than starting Python.

Run as `python -m tests.soak.forks` it reads one JSON task per line, forks a session leader that enters the CLI as
its console script does, and answers with its pid. The fork is given to the process that asked, a subreaper, which
waits for it: only the kernel knows how it ended.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

_PR_SET_CHILD_SUBREAPER: Final = 36
_DRIVERS: Final = (
    *("duckdb", "adbc_driver_sqlite.dbapi", "adbc_driver_postgresql.dbapi", "psycopg", "pymysql"),
    *("clickhouse_connect", "sqlglot", "pyarrow.parquet"),
)
_LEFT_OUT: Final = ("testing", "mssql", "__main__")


class Forked:
    """One fork; the part of Popen that a run needs."""

    def __init__(self, pid: int, stderr: IO[bytes]) -> None:
        self.pid = pid
        self.stderr = stderr
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() >= end:
                raise subprocess.TimeoutExpired("dpone", timeout or 0)
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class Forks:
    """The process that forks; one for a whole soak."""

    def __init__(self) -> None:
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "this process cannot be a subreaper")
        command = [sys.executable, "-m", "tests.soak.forks"]
        root = Path(__file__).resolve().parents[2]
        self._process = subprocess.Popen(
            command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def start(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], stdout: Path, pipe: Path) -> Forked:
        """`pipe` is where the named pipe for stderr is made."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        task = {"argv": ["dpone", *arguments], "cwd": str(cwd), "env": dict(env)}
        asked.write(json.dumps({**task, "stdout": str(stdout), "stderr": str(pipe)}) + "\n")
        pid = int(answers.readline())
        os.set_blocking(reader, True)
        return Forked(pid, open(reader, "rb"))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _import_all() -> None:
    import dpone_core

    for module in pkgutil.walk_packages(dpone_core.__path__, "dpone_core."):
        if not any(part in _LEFT_OUT for part in module.name.split(".")):
            importlib.import_module(module.name)
    for name in _DRIVERS:
        with suppress(ImportError):
            importlib.import_module(name)


def _become(task: Mapping[str, object], errors: int) -> None:
    os.setsid()
    stdout = os.open(str(task["stdout"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (stdout, 1), (errors, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(str(task["cwd"]))
    os.environ.clear()
    os.environ.update(json.loads(json.dumps(task["env"])))
    sys.argv = list(json.loads(json.dumps(task["argv"])))
    from dpone_core.cli.main import entry_point

    entry_point()


def _fork(task: Mapping[str, object]) -> bool:
    """True in the fork itself. The one between ends before its pid is told, so that the subreaper is the parent."""
    errors = os.open(str(task["stderr"]), os.O_WRONLY)
    told, tells = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid == 0:
            os.close(told)
            os.close(tells)
            _become(task, errors)
            return True
        os.write(tells, str(pid).encode())
        os._exit(0)
    os.close(errors)
    os.close(tells)
    os.waitpid(between, 0)
    print(os.read(told, 32).decode(), flush=True)
    os.close(told)
    return False


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for line in sys.stdin:
        if _fork(json.loads(line)):
            return


if __name__ == "__main__":
    main()
