"""Sixteen key ranges under Airflow's own scheduler: expanded, a few at a time, one killed and read again alone.

`make airflow POSTGRES=...` drives it: real api-server, scheduler, dag-processor, task processes. Design 12; case A22.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from examples.flights.rest import AirflowClient
from tests.airflow.end_to_end.test_make_airflow import environ, page_at, started
from tests.live.servers import scratch_postgres

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]

RUN_TIMEOUT_SECONDS = 600.0
GROUP, KILLED, FLIGHTS = "dpone_flights_ranges", 5, 336_776
STAGED = f"{GROUP}.transfer_partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one run of flights_ranges left."""

    state: str
    tasks: dict[str, dict[str, Any]]
    verdict: dict[str, Any]
    gate_log: str
    report: str
    rows: int


def killed(root: Path, index: int) -> None:
    """The processes of the first try of one partition, as a node that runs out of memory ends them."""
    limit = time.monotonic() + RUN_TIMEOUT_SECONDS
    wanted = {b"DPONE_STEP_ID=transfer_partition", f"DPONE_MAP_INDEX={index}".encode(), b"DPONE_TRY_NUMBER=1"}
    while time.monotonic() < limit:
        for entry in Path("/proc").glob("[0-9]*"):
            variables = environ(entry)
            if str(root).encode() in variables and wanted <= set(variables.split(b"\0")):
                with suppress(ProcessLookupError):
                    os.kill(int(entry.name), signal.SIGKILL)
                    return
        time.sleep(0.05)
    raise AssertionError("the pod did not come")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    root = tmp_path_factory.mktemp("mapped")
    with scratch_postgres() as uri:
        up = started(root, "--postgres", uri)
        try:
            client = AirflowClient(up.url())
            run_id = client.trigger("flights_ranges")
            killed(root, KILLED)
            state = client.wait("flights_ranges", run_id, RUN_TIMEOUT_SECONDS)
            gate = f"{GROUP}.outcome_gate"
            link = client.links("flights_ranges", run_id, gate)["dpone evidence"]
            with psycopg.connect(uri) as database:
                found = database.execute("SELECT count(DISTINCT flight_id) FROM raw.flights_ranges").fetchone()
            yield Ran(
                state=state,
                tasks=client.tasks("flights_ranges", run_id),
                verdict=client.xcom("flights_ranges", run_id, gate),
                gate_log=client.log("flights_ranges", run_id, gate),
                report=page_at(link) if link else "",
                rows=int(found[0]) if found else -1,
            )
            assert up.stop(signal.SIGTERM) == 0
        finally:
            up.process.kill()
            up.process.wait()


def test_every_range_became_a_task_of_its_own_and_only_the_killed_one_was_repeated(ran: Ran) -> None:
    mapped = {name: task for name, task in ran.tasks.items() if name.startswith(f"{STAGED}[")}
    assert ran.state == "success" and len(mapped) == 17
    assert {task["state"] for task in ran.tasks.values()} == {"success"}
    assert {name for name, task in mapped.items() if task["try_number"] > 1} == {f"{STAGED}[{KILLED}]"}
    assert mapped[f"{STAGED}[{KILLED}]"]["rendered_map_index"] == f"partition {KILLED}"


def test_the_gate_counts_the_partitions_and_the_target_holds_every_row_once(ran: Ran) -> None:
    assert (ran.verdict["passed"], ran.verdict["partitions"], ran.verdict["partitions_passed"]) == (True, 17, 17)
    assert ran.verdict["final_rows"] == ran.rows == FLIGHTS
    assert "step transfer_partition: 17 of 17 partitions passed" in ran.gate_log
    assert "raw.flights_ranges" in ran.report
