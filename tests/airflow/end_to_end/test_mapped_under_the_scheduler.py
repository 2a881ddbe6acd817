"""Sixteen key ranges under Airflow's own scheduler: expanded, one killed and read again alone, one cleared by a person.

`make airflow POSTGRES=...` drives it: real api-server, scheduler, dag-processor, task processes. Contract: NAT-56.
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

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(1500)]

RUN_TIMEOUT_SECONDS = 600.0
GROUP, KILLED, LOST, FLIGHTS = "dpone_flights_ranges", 5, 1, 336_776
TRIES = 3
STAGED = f"{GROUP}.transfer_partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run of flights_ranges left, and how often its target holds a flight."""

    run_id: str
    state: str
    tasks: dict[str, dict[str, Any]]
    verdict: dict[str, Any]
    gate_log: str
    report: str
    rows: int

    def repeated(self) -> dict[str, int]:
        """How often each mapped task was tried, of those that were tried more than once."""
        mapped = {name: task for name, task in self.tasks.items() if name.startswith(f"{STAGED}[")}
        return {name: task["try_number"] for name, task in mapped.items() if task["try_number"] > 1}


class Client(AirflowClient):
    """What a person does in the pages of Airflow."""

    def clear_with_all_behind_it(self, run_id: str, task_id: str, map_index: int) -> None:
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": [[task_id, map_index]],
            "include_downstream": True,
            "only_failed": False,
        }
        self._call("POST", "/dags/flights_ranges/clearTaskInstances", body)


def killed(root: Path, run_id: str, index: int, try_number: int = 1) -> None:
    """The step's process of one try of one partition, as a node that runs out of memory ends it."""
    limit = time.monotonic() + RUN_TIMEOUT_SECONDS
    wanted = {
        *(b"DPONE_STEP_ID=transfer_partition", f"DPONE_MAP_INDEX={index}".encode()),
        *(f"DPONE_TRY_NUMBER={try_number}".encode(), f"DPONE_DAG_RUN_ID={run_id}".encode()),
    }
    while time.monotonic() < limit:
        for entry in Path("/proc").glob("[0-9]*"):
            variables = environ(entry)
            if str(root).encode() in variables and wanted <= set(variables.split(b"\0")):
                with suppress(ProcessLookupError):
                    os.kill(int(entry.name), signal.SIGKILL)
                    return
        time.sleep(0.05)
    raise AssertionError("the pod did not come")


@dataclass(frozen=True, slots=True, kw_only=True)
class Airflow:
    client: Client
    root: Path
    uri: str

    def ended(self, run_id: str, gate_try: int = 1) -> Ran:
        client, gate = self.client, f"{GROUP}.outcome_gate"
        state = client.wait("flights_ranges", run_id, RUN_TIMEOUT_SECONDS)
        link = client.links("flights_ranges", run_id, gate)["dpone evidence"]
        with psycopg.connect(self.uri) as database:
            found = database.execute("SELECT count(*), count(DISTINCT flight_id) FROM raw.flights_ranges").fetchone()
        assert found is not None and found[0] == found[1]
        return Ran(
            run_id=run_id,
            state=state,
            tasks=client.tasks("flights_ranges", run_id),
            verdict=client.xcom("flights_ranges", run_id, gate),
            gate_log=client.log("flights_ranges", run_id, gate, gate_try),
            report=page_at(link) if link else "",
            rows=int(found[0]),
        )


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    root = tmp_path_factory.mktemp("mapped")
    with scratch_postgres() as uri:
        up = started(root, "--postgres", uri)
        try:
            yield Airflow(client=Client(up.url()), root=root, uri=uri)
            assert up.stop(signal.SIGTERM) == 0
        finally:
            up.process.kill()
            up.process.wait()


@pytest.fixture(scope="module")
def ran(airflow: Airflow) -> Ran:
    """One partition is killed once."""
    run_id = airflow.client.trigger("flights_ranges")
    killed(airflow.root, run_id, KILLED)
    return airflow.ended(run_id)


def test_every_range_became_a_task_of_its_own_and_only_the_killed_one_was_repeated(ran: Ran) -> None:
    mapped = [name for name in ran.tasks if name.startswith(f"{STAGED}[")]
    assert ran.state == "success" and len(mapped) == 17
    assert {task["state"] for task in ran.tasks.values()} == {"success"}
    assert ran.repeated() == {f"{STAGED}[{KILLED}]": 2}
    assert ran.tasks[f"{STAGED}[{KILLED}]"]["rendered_map_index"] == f"partition {KILLED}"


def test_the_gate_counts_the_partitions_and_the_target_holds_every_row_once(ran: Ran) -> None:
    assert (ran.verdict["passed"], ran.verdict["partitions"], ran.verdict["partitions_passed"]) == (True, 17, 17)
    assert ran.verdict["final_rows"] == ran.rows == FLIGHTS
    assert "step transfer_partition: 17 of 17 partitions passed" in ran.gate_log
    assert "raw.flights_ranges" in ran.report


def test_a_partition_that_failed_for_good_is_named_and_cleared_alone(airflow: Airflow, ran: Ran) -> None:
    run_id = airflow.client.trigger("flights_ranges")
    for number in range(1, TRIES + 1):
        killed(airflow.root, run_id, LOST, number)
    lost = airflow.ended(run_id)
    assert (lost.state, lost.rows) == ("failed", FLIGHTS), "what the run before published stands"
    assert lost.verdict["primary_step"] == f"transfer_partition[{LOST}]"
    assert (lost.verdict["partitions_passed"], lost.verdict["first_failed_partition"]) == (16, LOST)
    assert lost.verdict["retry_classification"] == "retry_before_target_mutation"
    airflow.client.clear_with_all_behind_it(run_id, STAGED, LOST)
    healed = airflow.ended(run_id, gate_try=2)
    assert (healed.state, healed.rows, healed.verdict["partitions_passed"]) == ("success", FLIGHTS, 17)
    assert healed.repeated() == {f"{STAGED}[{LOST}]": TRIES + 1}
