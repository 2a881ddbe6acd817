"""`make airflow` brings up a whole Airflow in which a person can run, look and decide; stopped, it leaves nothing.

Real api-server, scheduler, dag-processor and triggerer, driven over the REST API only.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpone_core.model.fingerprint import sha256_bytes
from examples.flights.rest import AirflowClient

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).parents[3] / "examples" / "flights" / "airflow_up.py"
UP_TIMEOUT_SECONDS = 240.0
RUN_TIMEOUT_SECONDS = 240.0
LOAD, LAKE = "dpone_flights.dpone_run_flights", "dpone_carriers_lake.dpone_run_carriers_lake"


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """A started `make airflow`; `output` is the file it prints to."""

    process: subprocess.Popen[bytes]
    root: Path
    output: Path

    @property
    def text(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def url(self) -> str:
        """Waits until it says where it is; fails with what it printed."""
        limit = time.monotonic() + UP_TIMEOUT_SECONDS
        while time.monotonic() < limit and self.process.poll() is None:
            if found := re.search(r"Airflow is up: (http://127\.0\.0\.1:\d+)", self.text):
                return found[1]
            time.sleep(0.2)
        raise AssertionError(f"it is not up: {self.text}")

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


def started(root: Path, *arguments: str, output_name: str = "output.txt") -> Up:
    output = root / output_name
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--root", str(root), *arguments], stdout=file, stderr=subprocess.STDOUT
        )
    return Up(process=process, root=root, output=output)


def processes_below(root: Path) -> list[str]:
    """Command lines of the processes whose environment or command names the directory, this test's own excepted."""
    mark, found = str(root).encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if int(entry.name) == os.getpid() or mark not in (entry / "environ").read_bytes():
                continue
            found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What two runs left: states, receipts and links by task id, the gate's log, the report behind the link."""

    url: str
    dags: set[str]
    import_errors: list[str]
    states: dict[str, str]
    tries: dict[str, int]
    receipts: dict[str, Any]
    links: dict[str, str | None]
    pages: dict[str, str]
    gate_log: str
    load_log: str
    root: Path
    exit_code: int
    said: str
    left: list[str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One success and one failure behind the commit, in one Airflow."""
    up = started(tmp_path_factory.mktemp("up"))
    try:
        url = up.url()
        client = AirflowClient(url)
        dags, import_errors = client.dag_ids(), client.import_errors()
        runs = {dag_id: client.trigger(dag_id) for dag_id in ("flights", "carriers_lake")}
        for dag_id, run_id in runs.items():
            client.wait(dag_id, run_id, RUN_TIMEOUT_SECONDS)
        tasks = {name: task for dag_id, run_id in runs.items() for name, task in client.tasks(dag_id, run_id).items()}
        receipts = {name: client.xcom(task["dag_id"], runs[task["dag_id"]], name) for name, task in tasks.items()}
        links = {
            name: client.links(task["dag_id"], runs[task["dag_id"]], name)["dpone evidence"]
            for name, task in tasks.items()
        }
        gate_log = client.log("carriers_lake", runs["carriers_lake"], "dpone_carriers_lake.outcome_gate")
        load_log = client.log("carriers_lake", runs["carriers_lake"], LAKE)
        pages = {name: page_at(link) for name, link in links.items() if link}
        exit_code = up.stop(signal.SIGTERM)
    finally:
        up.process.kill()
        up.process.wait()
    return Ran(
        url=url,
        dags=dags,
        import_errors=import_errors,
        states={name: str(task["state"]) for name, task in tasks.items()},
        tries={name: int(task["try_number"]) for name, task in tasks.items()},
        receipts=receipts,
        links=links,
        pages=pages,
        gate_log=gate_log,
        load_log=load_log,
        root=up.root,
        exit_code=exit_code,
        said=up.text,
        left=processes_below(up.root),
    )


def page_at(url: str) -> str:
    local = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with local.open(url, timeout=10) as response:
        return str(response.read().decode())


def test_the_example_s_dags_are_there_and_none_is_broken(ran: Ran) -> None:
    assert ran.dags == {"flights", "flights_one_task", "dimensions", "carriers_lake"} and ran.import_errors == []


def test_a_run_triggered_over_the_api_succeeds_task_by_task(ran: Ran) -> None:
    assert {name: state for name, state in ran.states.items() if name.startswith("dpone_flights.")} == {
        "dpone_flights.bundle_verify": "success",
        "dpone_flights.pre_hook_refresh_mart": "success",
        LOAD: "success",
        "dpone_flights.outcome_gate": "success",
    }


def test_the_receipt_in_xcom_says_what_was_loaded_and_points_to_evidence_of_that_digest(ran: Ran) -> None:
    receipt = ran.receipts[LOAD]
    assert (receipt["status"], receipt["final_rows"], receipt["gates_passed"]) == ("succeeded", 336776, 2)
    evidence = ran.root / "evidence" / receipt["evidence_path"]
    assert sha256_bytes(evidence.read_bytes()) == receipt["evidence_sha256"]
    assert ran.receipts["dpone_flights.outcome_gate"]["passed"] is True


def test_the_link_opens_the_report_and_a_step_without_evidence_has_none(ran: Ran) -> None:
    assert "The target raw.flights holds this load of 336,776 rows." in ran.pages[LOAD]
    assert ran.links["dpone_flights.outcome_gate"] == ran.links[LOAD]
    assert ran.links["dpone_flights.bundle_verify"] is None
    assert ran.receipts[LOAD]["evidence_sha256"] in ran.pages[LOAD]


def test_a_failure_behind_the_commit_is_not_retried_and_every_page_says_what_is_true(ran: Ran) -> None:
    assert (ran.states[LAKE], ran.tries[LAKE]) == ("failed", 1)
    assert ran.states["dpone_carriers_lake.outcome_gate"] == "failed"
    receipt, verdict = ran.receipts[LAKE], ran.receipts["dpone_carriers_lake.outcome_gate"]
    assert (receipt["failure_boundary"], receipt["target_state"]) == ("post_commit", "mutation_returned_success")
    assert receipt["retry_classification"] == "retry_may_repeat_target_mutation"
    assert (verdict["passed"], verdict["primary_code"]) == (False, "DPONE_QUALITY_GATES_FAILED")
    assert "a retry writes the load again in its place" in verdict["advice"]
    assert "A retry writes this load again in its place; no row is doubled." in ran.pages[LAKE]
    assert "In Airflow: clear the failed task and all downstream of it" in ran.pages[LAKE]


def test_the_logs_say_it_in_lines_a_person_can_read(ran: Ran) -> None:
    assert "primary cause: step dpone_run_carriers_lake: DPONE_QUALITY_GATES_FAILED" in ran.gate_log
    assert "target: load committed, source state not advanced, 16 rows" in ran.gate_log
    assert "gate      at_least_100_carriers failed: 16 rows of the target, at least 100 wanted" in ran.load_log
    assert len(ran.load_log.splitlines()) < 80


def test_stopped_it_says_so_and_nothing_is_left_running(ran: Ran) -> None:
    assert ran.exit_code == 0 and ran.said.endswith("stopping\nstopped; nothing is left running\n")
    assert ran.left == []


def test_it_says_little_and_names_address_reports_logs_and_the_way_to_stop(ran: Ran) -> None:
    assert len(ran.said.splitlines()) < 25 and "no login" in ran.said and "Ctrl-C" in ran.said
    assert str(ran.root / "logs") in ran.said


def test_a_second_start_keeps_the_history_and_its_links_and_a_dead_component_ends_it_by_name(ran: Ran) -> None:
    up = started(ran.root)
    try:
        client = AirflowClient(up.url())
        assert client.newest_run("flights") is not None
        link = ran.links[LOAD]
        assert link is not None and "raw.flights holds this load" in page_at(link)
        another = started(ran.root, output_name="another.txt")
        assert another.process.wait(timeout=60) == 1 and "it already runs in" in another.text
        victim = next(
            int(entry.name)
            for entry in Path("/proc").glob("[0-9]*")
            if b"airflow\0triggerer" in (entry / "cmdline").read_bytes() and str(ran.root).encode() in environ(entry)
        )
        os.kill(victim, signal.SIGKILL)
        assert up.process.wait(timeout=60) == 1
        assert "airflow triggerer ended with -9" in up.text
    finally:
        up.process.kill()
        up.process.wait()
    assert processes_below(ran.root) == []


def environ(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:
        return b""


def test_a_wanted_port_that_is_taken_is_refused_by_number(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        up = started(tmp_path, "--port", str(port))
        assert up.process.wait(timeout=60) == 1
    assert f"port {port} is taken" in up.text and not (tmp_path / "airflow").exists()
