"""A signal at every step of a load, into every engine: exit 130 or 143, a receipt, and a target that is old or whole.

Contract: CLI-23, CLI-24, CLI-25.
Real processes of the command line. A filter of their log sends the signal to the process itself when a phase begins.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.live.servers import scratch_postgres
from tests.spec.builders import CHECKOUT, Finished, Project, flow, hook, hooks, project_with_orders

EXITS: Final = {signal.SIGINT: 130, signal.SIGTERM: 143}
ENGINES: Final = ("duckdb", "postgres", "clickhouse", "files", "mssql")
BEFORE: Final = ("pre_hook", "extract", "stage", "rows")
BEHIND: Final = ("finalize", "post_hook")
ROWS: Final = 200_000
SENDS_AT: Final = """
import logging, os, signal, sys, threading, time
moment, number = sys.argv[1], getattr(signal, sys.argv[2])
del sys.argv[1:3]
begins = ("phase=stage", "phase=load") if moment in ("rows", "stage") else ("phase=" + moment,)
def send():
    os.kill(os.getpid(), number)
def while_rows_flow():
    time.sleep(0.05)
    send()
sent = []
class Sends(logging.Filter):
    def filter(self, record):
        if not sent and record.getMessage().endswith(begins):
            sent.append(moment)
            threading.Thread(target=while_rows_flow, daemon=True).start() if moment == "rows" else send()
        return True
logging.getLogger("dpone").addFilter(Sends())
from dpone_core.cli.main import entry_point
entry_point()
"""
ARGUMENTS: Final = ("run", "m.yaml", "--format", "json", "--run-id", "r1", "--retry-attempts", "2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A project with rows that load for a while, and how many of them the target holds."""

    project: Project
    held: Callable[[], int]


@pytest.fixture(name="project")
def shop_with_orders(tmp_path: Path) -> Project:
    return project_with_orders(tmp_path)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with scratch_postgres() as uri:
        yield uri


def target_of(engine: str, root: Path, request: pytest.FixtureRequest) -> Target:
    uris = {"duckdb": "duckdb:///dwh.duckdb", "clickhouse": "chdb:///house", "files": "file:///lake"}
    double: Any = None
    if engine == "postgres":
        uri = request.getfixturevalue("postgres")
    elif engine == "mssql":
        from tests.connectors.tds_double import tds_double

        opened = tds_double()
        double = opened.__enter__()
        request.addfinalizer(lambda: opened.__exit__(None, None, None))
        uri = double.uri
    else:
        uri = uris[engine]
    project = Project(root, environment={"DPONE_CONN_DWH": uri})
    project.orders((number, "n" * 40, number) for number in range(2_000 if engine == "mssql" else ROWS))
    project.source("CREATE TABLE log (what INTEGER)")
    both = hooks(pre=[hook("open", "INSERT INTO log VALUES (1)")], post=[hook("close", "INSERT INTO log VALUES (2)")])
    table = {"schema": "raw", "name": f"orders_{os.urandom(4).hex()}"}
    project.written(flow(sink__type=engine, sink__table=table, source__options=both))
    name = f"raw.{table['name']}"

    def held() -> int:
        match engine:
            case "duckdb":
                found = project.target(
                    f"SELECT count(*) FROM information_schema.tables WHERE table_name = '{name[4:]}'"
                )
                return 0 if found == [(0,)] else int(project.target(f"SELECT count(*) FROM {name}")[0][0])
            case "postgres":
                return _held_in_postgres(uri, name)
            case "mssql":
                found = double.run(f"SELECT COUNT_BIG(*) AS held FROM sys.objects WHERE name = '{name[4:]}'")
                return 0 if found == [(0,)] else int(double.run(f"SELECT COUNT_BIG(*) AS held FROM {name}")[0][0])
            case "files":
                import pyarrow.parquet as pq

                parts = (root / "lake/raw" / name[4:]).glob("part-*")
                return sum(pq.read_metadata(part).num_rows for part in parts)
            case _:
                return _held_in_clickhouse(root, name)

    return Target(project=project, held=held)


def _held_in_postgres(uri: str, name: str) -> int:
    import psycopg

    with psycopg.connect(uri) as server:
        if server.execute("SELECT to_regclass(%s)", (name,)).fetchone() == (None,):
            return 0
        row = server.execute(f"SELECT count(*) FROM {name}".encode()).fetchone()
        assert row is not None
        return int(row[0])


def _held_in_clickhouse(root: Path, name: str) -> int:
    """Asked by a process of its own: one opens one directory."""
    script = (
        "import clickhouse_connect, sys\n"
        "client = clickhouse_connect.get_client(interface='chdb', path=sys.argv[1])\n"
        f"there = client.command('EXISTS TABLE {name}')\n"
        f"print(client.command('SELECT count() FROM {name}') if int(there) else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root / "house")], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-1])


def ended(project: Project, moment: str, number: signal.Signals) -> Finished:
    receipt = ("--receipt-path", str(project.root / "receipt.json"))
    launcher = (sys.executable, "-c", SENDS_AT, moment, number.name)
    return project.dpone(*ARGUMENTS, *receipt, launcher=launcher)


def cells(moments: tuple[str, ...], quick: frozenset[tuple[str, str, signal.Signals]]) -> list[Any]:
    return [
        pytest.param(
            engine,
            moment,
            number,
            id=f"{engine}-{moment}-{number.name}",
            marks=() if (engine, moment, number) in quick else pytest.mark.slow,
        )
        for engine in ENGINES
        for moment in moments
        for number in EXITS
    ]


QUICK_BEFORE: Final = frozenset({("postgres", "rows", signal.SIGINT), ("duckdb", "rows", signal.SIGTERM)})
QUICK_BEHIND: Final = frozenset({("duckdb", "finalize", signal.SIGINT)})


@pytest.mark.parametrize(("engine", "moment", "number"), cells(BEFORE, QUICK_BEFORE))
def test_a_signal_before_the_commit_ends_the_run_and_nothing_is_retried(
    engine: str, moment: str, number: signal.Signals, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    target = target_of(engine, tmp_path, request)
    finished = ended(target.project, moment, number)
    assert finished.exit_code == EXITS[number], finished.stderr
    assert finished.document["attempts"] == 1
    assert finished.receipt is not None
    assert (finished.receipt["status"], finished.receipt["exit_code"]) == ("interrupted", EXITS[number])
    assert finished.receipt["target_state"] == "not_mutated" and target.held() == 0
    assert finished.code == ("DPONE_RUN_INTERRUPTED" if number is signal.SIGINT else "DPONE_RUN_TERMINATED")


@pytest.mark.parametrize(("engine", "moment", "number"), cells(BEHIND, QUICK_BEHIND))
def test_a_signal_behind_the_commit_names_itself_and_the_whole_load(
    engine: str, moment: str, number: signal.Signals, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "files" and moment == "finalize":
        pytest.skip("a files target has no such phase")
    target = target_of(engine, tmp_path, request)
    finished = ended(target.project, moment, number)
    assert finished.exit_code == EXITS[number], finished.stderr
    assert finished.receipt is not None and finished.receipt["status"] == "interrupted"
    assert finished.receipt["target_state"] == "mutation_returned_success"
    assert target.held() == finished.receipt["extracted_rows"] > 0
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_while_modules_are_imported_leaves_a_receipt(project: Project, number: signal.Signals) -> None:
    project.written(flow())
    arguments = ("run", "m.yaml", "--receipt-path", str(project.root / "receipt.json"))
    process = project.start(*arguments)
    wait_for(lambda: stays_blocked(process.pid, number), process)
    process.send_signal(number)
    finished = project.finished(process, arguments)
    assert finished.exit_code == EXITS[number], finished.stderr
    assert finished.receipt is not None and finished.receipt["status"] == "interrupted"
    assert finished.receipt["target_state"] is None and "Traceback" not in finished.stderr
    assert not (project.root / "dwh.duckdb").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_signals_after_the_verdict_change_nothing(project: Project, number: signal.Signals) -> None:
    project.written(flow())
    receipt = project.root / "receipt.json"
    arguments = ("run", "m.yaml", "--format", "json", "--receipt-path", str(receipt))
    finished = signalled_behind_its_receipt(project, arguments, receipt, number)
    assert finished.exit_code == 0 and finished.document["passed"] is True
    assert finished.receipt is not None and finished.receipt["status"] == "succeeded"
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_signals_after_the_verdict_of_a_step_without_a_load_change_nothing(
    project: Project, number: signal.Signals
) -> None:
    project.written(flow())
    packed = project.dpone("gitops", "pack", "m.yaml", "--output", "m.pack.json")
    assert packed.exit_code == 0, packed.stderr
    fingerprint = json.loads((project.root / "m.pack.json").read_text("utf-8"))["pack_fingerprint"]
    receipt = project.root / "receipt.json"
    bound = ("--pack", "m.pack.json", "--pack-fingerprint", fingerprint)
    arguments = ("gitops", "verify", *bound, "--format", "json", "--receipt-path", str(receipt))
    reader, writer = full_pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "dpone", *arguments],
        cwd=project.root,
        env={**os.environ, **project.environment, "PYTHONPATH": str(CHECKOUT)},
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    wait_for(receipt.exists, process)
    for _ in range(20):  # its result waits for room: the verdict stands and the process does not end
        process.send_signal(number)
        time.sleep(0.01)
    with open(reader, "rb") as printed:
        text = printed.read().lstrip(b" ")
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, json.loads(receipt.read_text("ascii"))["status"]) == (0, "succeeded"), stderr
    assert json.loads(text) and b"Traceback" not in stderr


def full_pipe() -> tuple[int, int]:
    """Both ends of a pipe that takes nothing more before it is read; it holds spaces."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b" " * 4096)
    os.set_blocking(writer, True)
    return reader, writer


def signalled_behind_its_receipt(
    project: Project, arguments: tuple[str, ...], receipt: Path, number: signal.Signals
) -> Finished:
    """Signals are sent from the moment the receipt stands until the process is gone."""
    process = project.start(*arguments)
    wait_for(receipt.exists, process)
    while process.poll() is None:
        process.send_signal(number)
        time.sleep(0.001)
    return project.finished(process, arguments)


def wait_for(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.001)


def stays_blocked(pid: int, number: signal.Signals) -> bool:
    """The C library blocks every signal for the moment in which it makes a thread; that does not count."""
    for _ in range(5):
        if not is_blocked(pid, number):
            return False
        time.sleep(0.002)
    return True


def is_blocked(pid: int, number: signal.Signals) -> bool:
    """Whether the main thread of the process has the signal blocked, which is so as soon as it is waited for."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    (mask,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:")]
    return bool(int(mask, 16) >> (number - 1) & 1)
