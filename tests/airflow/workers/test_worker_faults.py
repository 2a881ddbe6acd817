"""What happens to a task's process while its pod runs never makes a load happen twice, nor a lost one look done.

Real api-server, scheduler, dag-processor and task supervisor; pods are processes of the local pod runner. The load
appends a line to a file when it mutates: one line is one mutation. Contract: AIR-13, AIR-14, AIR-35, AIR-36.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.workers.running import Workers, running, until
from tests.spec.contracts.documents import hook_step, load_step, verify_step

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
LOAD = "dpone_run_flights"
GATE = f"{LOAD}_outcome_gate"
NAMES = ("worker_sigkill", "worker_finished", "worker_sigterm", "worker_clear", "worker_mark_failed")
ADVICE = ("advice_before", "advice_post_hook", "advice_marked")


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    load = load_step(depends_on=["bundle_verify"], receipts_from=[], without_receipt="stop")
    specs = {
        "workers": [verify_step(), load_step(depends_on=["bundle_verify"], receipts_from=[])],
        "steps": [verify_step(), load, hook_step("announce", "post_hook", depends_on=[LOAD])],
    }
    names = {"WORKER_SCENARIOS": json.dumps(NAMES), "ADVICE_SCENARIOS": json.dumps(ADVICE)}
    root = tmp_path_factory.mktemp("workers")
    with running(root, HERE / "worker_dags.py", specs, {*NAMES, *ADVICE}, names) as found:
        yield found


def test_a_killed_task_process_finds_its_pod_again_and_the_load_happens_once(workers: Workers) -> None:
    dag_id = "worker_sigkill"
    run_id = workers.started(dag_id)
    os.kill(workers.waiting(dag_id, 1), signal.SIGKILL)
    workers.waiting(dag_id, 2)
    workers.go(dag_id)
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[LOAD]["state"], tasks[LOAD]["try_number"]) == ("success", "success", 2)
    assert workers.mutations(dag_id) == ["1"], "the second try followed the pod of the first"
    assert workers.pods(dag_id) == (0, 1)


def test_a_pod_that_committed_beside_a_dead_worker_is_believed_although_it_is_over(workers: Workers) -> None:
    """Airflow itself would remove it unread and start a second one past it."""
    dag_id = "worker_finished"
    run_id = workers.started(dag_id)
    os.kill(workers.waiting(dag_id, 1), signal.SIGKILL)
    workers.go(dag_id)
    until(lambda: workers.mutations(dag_id) == ["1"])
    name = until(lambda: workers.ended_pod(dag_id))
    workers.runner.evict("default", name)
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[LOAD]["state"], tasks[LOAD]["try_number"]) == ("success", "success", 2)
    assert workers.mutations(dag_id) == ["1"], "the second try read what the pod of the first had left"
    assert workers.pods(dag_id) == (0, 1), "no second pod was started"


def test_a_terminated_task_process_stops_its_pod_and_never_looks_done(workers: Workers) -> None:
    dag_id = "worker_sigterm"
    run_id = workers.started(dag_id)
    os.kill(workers.waiting(dag_id, 1), signal.SIGTERM)
    until(lambda: (workers.shared / f"{dag_id}.stopped").exists())
    workers.go(dag_id)
    state, tasks = workers.ended(dag_id, run_id)
    assert tasks[LOAD]["state"] == ("success" if tasks[LOAD]["try_number"] == 2 else "failed")
    assert state == tasks[LOAD]["state"] == tasks[GATE]["state"]
    assert workers.mutations(dag_id) == (["2"] if state == "success" else [])
    assert workers.pods(dag_id)[0] == 0


def test_a_cleared_task_stops_its_pod_before_the_next_one_changes_anything(workers: Workers) -> None:
    dag_id = "worker_clear"
    run_id = workers.started(dag_id)
    workers.client.clear(dag_id, run_id, LOAD)
    until(lambda: (workers.shared / f"{dag_id}.stopped").exists())
    workers.waiting(dag_id, 2)
    workers.go(dag_id)
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[LOAD]["state"], tasks[LOAD]["try_number"]) == ("success", "success", 2)
    assert workers.mutations(dag_id) == ["2"]
    assert workers.pods(dag_id)[0] == 0


def test_a_task_marked_failed_stops_its_pod_and_the_gate_fails(workers: Workers) -> None:
    dag_id = "worker_mark_failed"
    run_id = workers.started(dag_id)
    workers.client.mark(dag_id, run_id, LOAD, "failed")
    until(lambda: (workers.shared / f"{dag_id}.stopped").exists())
    workers.go(dag_id)
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[LOAD]["state"], tasks[LOAD]["try_number"]) == ("failed", "failed", 1)
    assert tasks[GATE]["state"] == "failed"
    assert workers.mutations(dag_id) == []
    until(lambda: workers.pods(dag_id)[0] == 0)


STEP = "dpone_flights."
"""Tasks of the DAGs of advice stand in a group."""


def advised(workers: Workers, dag_id: str) -> tuple[str, str]:
    """A run that failed, and what its gate advises."""
    run_id = workers.client.trigger(dag_id)
    assert workers.ended(dag_id, run_id)[0] == "failed"
    verdict = workers.client.xcom(dag_id, run_id, f"{STEP}outcome_gate")
    return run_id, str(verdict["advice"])


def test_the_advice_to_clear_the_failed_task_and_the_gate_leads_to_a_green_run(workers: Workers) -> None:
    dag_id = "advice_before"
    run_id, advice = advised(workers, dag_id)
    assert "correct the cause, then clear the failed task, the tasks behind it and the gate" in advice
    behind = f"{STEP}post_hook_announce"
    workers.client.clear(dag_id, run_id, f"{STEP}{LOAD}", behind, f"{STEP}outcome_gate")
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[f"{STEP}{LOAD}"]["state"], tasks[behind]["state"]) == ("success", "success", "success")


def test_the_advice_behind_a_committed_load_clears_the_hook_and_never_the_load(workers: Workers) -> None:
    dag_id = "advice_post_hook"
    run_id, advice = advised(workers, dag_id)
    assert "correct and clear post_hook_announce and the gate, never the load's task" in advice
    workers.client.clear(dag_id, run_id, f"{STEP}post_hook_announce", f"{STEP}outcome_gate")
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[f"{STEP}{LOAD}"]["try_number"]) == ("success", 1)


def test_the_advice_to_mark_a_committed_load_names_the_tasks_behind_it_too(workers: Workers) -> None:
    dag_id = "advice_marked"
    run_id, advice = advised(workers, dag_id)
    assert "mark its task as success, then clear the tasks behind it and the gate" in advice
    workers.client.mark(dag_id, run_id, f"{STEP}{LOAD}", "success")
    workers.client.clear(dag_id, run_id, f"{STEP}post_hook_announce", f"{STEP}outcome_gate")
    state, tasks = workers.ended(dag_id, run_id)
    assert state == "success" and tasks[f"{STEP}{LOAD}"]["try_number"] == 1
    assert tasks[f"{STEP}post_hook_announce"]["state"] == "success"
