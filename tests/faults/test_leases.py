"""Two loads of one target: the second is refused and changes nothing; a dead owner's lease ends with its time.

Contract: STATE-06, STATE-26.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dpone_core.state.lease import LEASE_DURATION
from dpone_core.testing.fakes import FixedClock
from tests.faults.bench import connections, run, seen
from tests.faults.fault_points import Fault, FaultKind, Moments, When
from tests.faults.load_matrix import NEW, OLD, manifest
from tests.spec.builders import Finished, Project

SINKS = ["duckdb", "files"]
START = datetime(2026, 1, 1, tzinfo=UTC)


class Meanwhile(Moments):
    """Starts `dpone run` as a second process when the first row is on its way, and keeps what became of it."""

    def __init__(self, project: Project, sink: str) -> None:
        super().__init__(None)
        self._project, self._environment = project, connections(project.root, sink)
        self.second: Finished | None = None

    def _reach(self, call: str, number: int, when: When) -> None:
        if (call, number, when) == ("rows", 1, When.BEFORE):
            self.second = self._project.run("--run-id", "second", environment=self._environment)


def loaded_once(root: Path, sink: str) -> Project:
    project = Project(root)
    project.orders()
    project.source("CREATE TABLE log (what INTEGER)")
    project.written(manifest(sink))
    assert run(root, sink, "first", Moments(None), FixedClock(START)) == 0
    project.add_orders((4, "d", 40), (5, "e", 50))
    return project


def code_of(project: Project, run_id: str) -> str | None:
    report = json.loads((project.root / f"{run_id}.stdout").read_text("utf-8"))
    code = report["result"].get("error_code")
    return None if code is None else str(code)


@pytest.mark.parametrize("sink", SINKS)
def test_a_second_writer_is_refused_while_the_first_one_writes(tmp_path: Path, sink: str) -> None:
    project = loaded_once(tmp_path, sink)
    meanwhile = Meanwhile(project, sink)
    assert run(project.root, sink, "owner", meanwhile) == 0
    refused = meanwhile.second
    assert refused is not None and (refused.exit_code, refused.code) == (1, "load_in_progress")
    context = refused.result["failure_context"]
    assert (context["target_state"], context["source_state"]) == ("not_mutated", "not_advanced")
    assert context["retry_classification"] == "retry_before_target_mutation"
    assert refused.receipt is not None and refused.receipt["status"] == "failed"
    found = seen(project.root, sink)
    assert found.ids == NEW and "second" not in found.loads


@pytest.mark.parametrize("sink", SINKS)
def test_the_lease_of_a_dead_owner_holds_until_it_expires(tmp_path: Path, sink: str) -> None:
    """On a server nobody else can prove an owner dead, so only time ends its lease."""
    project = loaded_once(tmp_path, sink)
    died_at = START + timedelta(hours=1)
    dies = (
        "from datetime import datetime\nfrom pathlib import Path\nimport sys\n"
        "from dpone_core.testing.fakes import FixedClock\nfrom tests.faults.bench import run\n"
        "from tests.faults.fault_points import Fault, FaultKind, Moments, When\n"
        "fault = Fault(call='target.preflight', when=When.BEFORE, kind=FaultKind.SIGKILL)\n"
        "clock = FixedClock(datetime.fromisoformat(sys.argv[3]))\n"
        "run(Path(sys.argv[1]), sys.argv[2], 'dead', Moments(fault), clock, is_server=True)\n"
    )
    arguments = (str(project.root), sink, died_at.isoformat())
    assert subprocess.run([sys.executable, "-c", dies, *arguments], cwd=Path(__file__).parents[2]).returncode == -9

    shortly_before = FixedClock(died_at + LEASE_DURATION - timedelta(minutes=1))
    assert run(project.root, sink, "early", Moments(None), shortly_before, is_server=True) == 1
    assert code_of(project, "early") == "load_in_progress"
    assert seen(project.root, sink).ids == OLD

    afterwards = FixedClock(died_at + LEASE_DURATION + timedelta(minutes=1))
    assert run(project.root, sink, "late", Moments(None), afterwards, is_server=True) == 0
    assert seen(project.root, sink).ids == NEW


@pytest.mark.parametrize("sink", SINKS)
def test_the_lease_of_a_dead_owner_ends_with_its_engine_lock(tmp_path: Path, sink: str) -> None:
    """An embedded engine has one process: whoever opens it has the proof that the owner is gone."""
    project = loaded_once(tmp_path, sink)
    release = Fault(call="leases released", when=When.BEFORE, kind=FaultKind.ERROR)
    assert run(project.root, sink, "owner", Moments(release), FixedClock(START + timedelta(hours=1))) == 1
    assert run(project.root, sink, "next", Moments(None), FixedClock(START + timedelta(hours=2))) == 0
    assert seen(project.root, sink).ids == NEW
