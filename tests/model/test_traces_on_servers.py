"""Walks through the model of an append, replayed by real processes on real servers: what the model says comes true.

Each load is a process that stops itself before every step that others can see, and goes on when the walk says so; it is
killed by SIGKILL, loses the answer of its commit, or meets a lease that has ended. PostgreSQL is a server, ClickHouse
an HTTP endpoint over chDB. Contract: STATE-30.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from uuid import uuid4

import psycopg
import pytest

from dpone_core.evidence.audit import loads_table
from dpone_core.model.connector import ConnectorType
from dpone_core.ports.control import ControlTable
from dpone_core.state.cursor import cursor_table
from tests.connectors.test_clickhouse_lost_answers import Faults, faults
from tests.faults.test_frozen_writers import Server
from tests.live.servers import scratch_postgres
from tests.model.load import At, Guards, LoadModel, Way, World
from tests.spec.builders import CHECKOUT, Project, append_flow

__all__ = ("faults",)

WALKS = 10
LENGTH = 14
LOADS = 3
PATIENCE_SECONDS = 120
STOPS = {
    At.STAGE: "staged.stage#1",
    At.RENEW: "leases.read#2",
    At.ARM: "commit_intents#1",
    At.PUBLISH: "staged.finalize#1",
    At.EVIDENCE: "publish load.json#1",
    At.CURSOR: "cursor_state#1",
    At.RELEASE: "leases released#1",
}
"""Where a load of the model stands, and before which call its process does."""
PROCESS = """
import json, os, sys
from pathlib import Path
from tests.faults.bench import run
from tests.model.stopping import Stopping
root, sink, run_id, uris, stops = sys.argv[1:]
os.chdir(root)
moments = Stopping(json.loads(stops), Path(root, run_id + ".loses"))
sys.exit(run(Path(root), sink, run_id, moments, uris=json.loads(uris)))
"""


@dataclass
class Runner:
    """One load: its process, which is stopped or has ended."""

    process: subprocess.Popen[str]
    loses: Path
    exit_code: int | None = None

    def wait(self) -> None:
        """Until it stops or ends."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self.exit_code = self.process.returncode = os.waitstatus_to_exitcode(status)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.wait()

    def kill(self) -> None:
        self.process.kill()
        self.wait()


@dataclass
class Walk:
    """The same walk in the model and on a server."""

    model: LoadModel
    world: World
    project: Project
    server: Server
    runners: dict[int, Runner] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)

    def choices(self) -> list[tuple[str, int]]:
        """A load goes on four times as often as anything happens to it."""
        found: list[tuple[str, int]] = []
        for number, load in enumerate(self.world.loads):
            if load.at is At.START:
                return [*found, ("go", number), ("go", number), *self._expiry()]
            if load.at in (At.DONE, At.OUT):
                continue
            found += [("go", number)] * 4 + [("kill", number)]
            if load.at is At.PUBLISH:
                found += [("lose", number)] * 2
        return [*found, *self._expiry()] if found else []

    def _expiry(self) -> list[tuple[str, int]]:
        return [("expire", -1)] * 2 if self.world.owner >= 0 and self.world.fresh else []

    def take(self, what: str, number: int) -> None:
        self.steps.append(f"{what} L{number}" if number >= 0 else what)
        match what:
            case "expire":
                self.world = self._by("the lease expires")
                self.server.end_leases()
            case "kill":
                self.world = self._by(f"L{number} is killed at {self.world.loads[number].at.name}")
                self.runners[number].kill()
            case _:
                self._go(number, loses=what == "lose")
        self._compare()

    def _go(self, number: int, *, loses: bool) -> None:
        """To the next stop. A load that has just begun has looked at everything before it comes to one."""
        begins = self.world.loads[number].at is At.START
        if loses:
            self.world = self._by(f"L{number} publishes, the answer is lost", f"L{number} is refused by the sink")
        else:
            self.world = self._first(number)
        while self.world.loads[number].at not in (*STOPS, At.DONE, At.OUT):
            self.world = self._first(number)
        if begins:
            self.project.add_orders((10 + number, "n", 100 + number))
            self.runners[number] = self._started(number)
        else:
            runner = self.runners[number]
            if loses:
                runner.loses.touch()
            runner.go_on()
        while self.world.loads[number].at in (At.DONE, At.OUT) and self.runners[number].exit_code is None:
            self.runners[number].go_on()  # what a refused load gives back is one step of the model

    def _first(self, number: int) -> World:
        """The step of a load to which nothing happens: the model names it before its variants."""
        for name, world in self.model.steps(self.world):
            if name.startswith(f"L{number} ") and "is killed" not in name:
                return world
        raise AssertionError(f"L{number} has no step")

    def _by(self, *names: str) -> World:
        found = {name: world for name, world in self.model.steps(self.world) if name in names}
        assert found, names
        return next(iter(found.values()))

    def _started(self, number: int) -> Runner:
        root, run_id = self.project.root, f"r{number}"
        uris = {"DPONE_CONN_SHOP": self.project.environment["DPONE_CONN_SHOP"], "DPONE_CONN_DWH": self.server.uri}
        arguments = (str(root), str(self.server.kind), run_id, json.dumps(uris), json.dumps(list(STOPS.values())))
        with open(root / f"{run_id}.log", "w") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", PROCESS, *arguments], cwd=CHECKOUT, stdout=log, stderr=log, text=True
            )
        runner = Runner(process, root / f"{run_id}.loses")
        runner.wait()
        return runner

    def _compare(self) -> None:
        """What target, cursor and processes say is what the model says."""
        said = " | ".join(self.steps)
        for number, runner in self.runners.items():
            at = self.world.loads[number].at
            log = (self.project.root / f"r{number}.log").read_text()
            if at in STOPS:
                assert runner.exit_code is None, f"{said}: L{number} stands at {at.name}, its process ended: {log}"
            else:
                assert runner.exit_code is not None, f"{said}: L{number} has ended, its process has not"
                assert (runner.exit_code == 0) is (at is At.DONE), f"{said}: L{number} is {at.name}: {runner.exit_code}"
        published = sorted(f"r{number}" for number, times in enumerate(self.world.target) for _ in range(times))
        ids = self.rows("id")
        assert len(ids) == len(set(ids)), f"{said}: rows twice: {ids}"
        assert self._runs_in_target() == published, said
        assert self._cursor() == (f"r{self.world.cursor}" if self.world.cursor >= 0 else None), said

    def rows(self, column: str) -> list[str]:
        """One column of the target, which comes with the first publication."""
        if not any(load.at > At.STAGE for load in self.world.loads):
            return []
        try:
            return [str(row[0]) for row in self.server.rows(column)]
        except (psycopg.errors.UndefinedTable, HTTPError):
            return []

    def _runs_in_target(self) -> list[str]:
        runs = {str(row["load_id"]): str(row["run_id"]) for row in self._control(loads_table(self.server.state))}
        return sorted(runs[load_id] for load_id in set(self.rows("__dpone__load_id")))

    def _cursor(self) -> str | None:
        """The run that saved it."""
        saved = [str(row["run_id"]) for row in self._control(cursor_table(self.server.state))]
        return saved[0] if saved else None

    def _control(self, table: ControlTable) -> list[Mapping[str, Any]]:
        with self.server.control() as control:
            control.ensure(table)
            return list(control.read(table, {}))


@pytest.fixture(params=["postgres", "clickhouse"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "postgres":
        with scratch_postgres() as uri:
            yield Server(ConnectorType.POSTGRES, uri)
        return
    faults: Faults = request.getfixturevalue("faults")
    own = f"s{uuid4().hex[:8]}"
    uri = f"clickhouse://127.0.0.1:{faults.port}/default"
    yield Server(ConnectorType.CLICKHOUSE, uri, schema=own, state=f"{own}_state")


GUARDS = {
    ConnectorType.POSTGRES: Guards(lease_in_transaction=True),
    ConnectorType.CLICKHOUSE: Guards(staging_taken_away=True),
}


@pytest.fixture
def walk(tmp_path: Path, server: Server) -> Iterator[Walk]:
    project = Project(tmp_path, environment={"DPONE_CONN_DWH": server.uri})
    project.orders()
    options = {"lineage": {"enabled": True, "preset": "standard"}}
    options["load_governance"] = {"enabled": True, "audit": {"state_schema": server.state}}
    project.written(
        append_flow(
            sink__type=str(server.kind),
            sink__table={"schema": server.schema, "name": "orders"},
            sink__options=options,
        )
    )
    model = LoadModel(way=Way.APPEND, guards=GUARDS[server.kind], loads=LOADS)
    made = Walk(model, model.start, project, server)
    yield made
    for runner in made.runners.values():
        if runner.exit_code is None:
            runner.kill()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(WALKS))
def test_a_walk_of_the_model_comes_true(walk: Walk, seed: int) -> None:
    """Seeds are enough to replay one; a failure names the steps so far."""
    choose = random.Random(seed)
    for _ in range(LENGTH):
        found = walk.choices()
        if not found:
            break
        walk.take(*choose.choice(found))
    assert len(walk.runners) > 1
