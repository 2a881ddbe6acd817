"""Runs of `dpone` as forks of a process that has imported everything and opened nothing: cheaper than starting Python.

Run as `python -m tests.forks` it reads one JSON task per line, forks a session leader that enters the CLI as its
console script does, and answers with its pid. A fork that is `adopted` is given to the process that asked, a subreaper,
which waits for it: only the kernel knows how it ended. Else a second line says how it ended.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import threading
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
    """The process that forks. One that `adopts` lets this process wait for what it starts, at any time."""

    def __init__(self, *, adopts: bool = True) -> None:
        if adopts and ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "this process cannot be a subreaper")
        command = [sys.executable, "-m", "tests.forks"]
        root = Path(__file__).resolve().parents[1]
        # Without a buffer, so that a line that was read but not asked for cannot hide from select.
        self._process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def start(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], stdout: Path, pipe: Path) -> Forked:
        """`pipe` is where the named pipe for stderr is made."""
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        pid = self._ask(arguments, cwd, env, stdout, pipe, adopted=True)
        os.set_blocking(reader, True)
        return Forked(pid, open(reader, "rb"))

    def run(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], stdout: Path, stderr: Path, seconds: float
    ) -> int:
        """Exit status, negative for a signal, of a command that writes to these files (or to one, given twice);
        TimeoutExpired ends it.

        Whatever else interrupts the wait ends the process that forks too: its next answer would be another's.
        """
        answers = self._process.stdout
        assert answers is not None
        try:
            pid = self._ask(arguments, cwd, env, stdout, stderr, adopted=False)
            if not select.select([answers], [], [], seconds)[0]:
                os.killpg(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired("dpone", seconds)
            return int(answers.readline())
        except BaseException:
            self.close()
            raise

    def is_running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], stdout: Path, stderr: Path, *, adopted: bool
    ) -> int:
        """The pid of a fork that does this."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        task = {"argv": ["dpone", *arguments], "cwd": str(cwd), "env": dict(env), "adopted": adopted}
        line = json.dumps({**task, "stdout": str(stdout), "stderr": str(stderr)}).encode() + b"\n"
        while line:
            line = line[asked.write(line) or 0 :]
        return int(answers.readline())


_SHARED: Final = threading.Lock()
_shared: Forks | None = None


def forked(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str], stdout: Path, stderr: Path, seconds: float
) -> int:
    """`Forks.run` by one process that all tests of this process share; two at once get one each."""
    global _shared
    if not _SHARED.acquire(blocking=False):
        second = Forks(adopts=False)
        try:
            return second.run(arguments, cwd, env, stdout, stderr, seconds)
        finally:
            second.close()
    try:
        if _shared is None or not _shared.is_running():
            _shared = Forks(adopts=False)
        return _shared.run(arguments, cwd, env, stdout, stderr, seconds)
    finally:
        _SHARED.release()


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
    stdout = os.open(str(task["stdout"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (stdout, 1), (errors, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(str(task["cwd"]))
    os.environ.clear()
    os.environ.update(json.loads(json.dumps(task["env"])))
    time.tzset()
    sys.argv = list(json.loads(json.dumps(task["argv"])))
    from dpone_core.cli.main import entry_point

    entry_point()


def _fork(task: Mapping[str, object]) -> bool:
    """True in the fork itself, whose end is told. One that is adopted has a parent that ends before its pid is told, so
    that the subreaper takes it."""
    errors = os.open(str(task["stderr"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if not task["adopted"]:
        pid = os.fork()
        if pid == 0:
            _become(task, errors)
            return True
        os.close(errors)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        return False
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
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for line in sys.stdin:
        if _fork(json.loads(line)):
            return


if __name__ == "__main__":
    main()
