"""A driver's call ends with a signal, and no driver handles signals itself.

Contract: CLI-04, CLI-23.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from dpone_core.cli.signals import SignalCancellation
from dpone_core.connectors._sql.interruptible import interruptible
from dpone_core.errors import RunTerminated
from tests.live.servers import scratch_postgres
from tests.spec.builders import flow, project_with_orders

TELLS_ITS_THREADS: Final = """
import glob, logging, sys
class Tells(logging.Filter):
    def filter(self, record):
        names = sorted(open(name).read().strip() for name in glob.glob("/proc/self/task/*/comm"))
        print("threads:", *names, file=sys.stderr)
        return True
logging.getLogger("dpone").addFilter(Tells())
from dpone_core.cli.main import entry_point
entry_point()
"""
OF_ADBC: Final = "AdbcInterrupt"
"""The thread on which ADBC cancels; its driver manager starts it when it first takes SIGINT over."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with scratch_postgres() as uri:
        yield uri


def test_its_result_and_its_error_are_those_of_the_call() -> None:
    assert interruptible(lambda: 7, pytest.fail) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, pytest.fail)


def test_it_works_on_another_thread_than_the_one_that_hears_signals() -> None:
    assert interruptible(threading.current_thread, pytest.fail) is not threading.main_thread()
    seen: list[threading.Thread] = []
    caller = threading.Thread(target=lambda: seen.append(interruptible(threading.current_thread, pytest.fail)))
    caller.start()
    caller.join()
    assert seen == [caller]


def test_a_signal_cancels_until_the_call_has_ended_and_is_raised_then() -> None:
    """The first cancel comes too early for the statement, the second fails, the third is heard."""
    cancels: list[int] = []
    heard, begun = threading.Event(), threading.Event()

    def cancel() -> None:
        cancels.append(len(cancels))
        if len(cancels) == 2:
            raise OSError("no server")
        if len(cancels) == 3:
            heard.set()

    def work() -> None:
        begun.set()
        assert heard.wait(30)

    def send() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    with SignalCancellation().installed():
        sender = threading.Thread(target=send)
        sender.start()
        with pytest.raises(RunTerminated):
            interruptible(work, cancel)
        sender.join()
    assert cancels == [0, 1, 2]


@pytest.mark.parametrize("source", ["sqlite", "postgres"])
def test_no_driver_handles_signals_itself_during_a_load(source: str, tmp_path: Path, postgres: str) -> None:
    """ADBC's own handler cancels a statement that the main thread frees at the same moment: the process crashes."""
    project = project_with_orders(tmp_path)
    table = {"schema": "raw", "name": "orders"}
    project.environment["DPONE_CONN_DWH"] = postgres
    project.written(flow(sink__type="postgres", sink__table=table))
    if source == "postgres":
        assert project.dpone("run", "m.yaml").exit_code == 0
        project.environment.update({"DPONE_CONN_SHOP": postgres, "DPONE_CONN_DWH": "duckdb:///dwh.duckdb"})
        project.written(flow(source__type="postgres", source__table=table, sink__type="duckdb", sink__table=table))
    finished = project.dpone("run", "m.yaml", launcher=(sys.executable, "-c", TELLS_ITS_THREADS))
    assert finished.exit_code == 0, finished.stderr
    told = [line.split() for line in finished.stderr.splitlines() if line.startswith("threads:")]
    assert len(told) == 3 and all("python" in names for names in told), "one line for each phase"
    assert OF_ADBC not in {name for names in told for name in names}
