"""However Airflow starts, holds back or interrupts runs, each is judged by its own receipts, and a load happens once.

Backfills, runs beside each other, runs that wait for the one before, preempted pods, a triggerer that dies, mapped
partitions, a watched gate. A secret of the pods is searched for in everything that Airflow keeps. Contract: DAG-29,
AIR-46.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.workers.running import SECRET, Workers, running, until
from tests.spec.contracts.documents import fanned_out_steps, hook_step, load_step, verify_step

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
STEP = "dpone_flights."
LOAD, GATE, HOOK = f"{STEP}dpone_run_flights", f"{STEP}outcome_gate", f"{STEP}post_hook_announce"
NAMES = (
    *("backfill", "one_at_a_time", "side_by_side", "after_past", "preempted", "preempted_once", "trigger", "mapped"),
    *("watched", "changed"),
)


def scheduled_specs() -> dict[str, list[dict[str, Any]]]:
    """The run-specs beside `scheduled_dags.py`."""
    hook = hook_step("announce", "post_hook", depends_on=["dpone_run_flights"])
    load = load_step(depends_on=["bundle_verify"], receipts_from=[], without_receipt="retry", retries=1)
    once = {**load, "without_receipt": "stop"}
    return {
        "steps": [verify_step(), load, hook],
        "once": [verify_step(), once, hook],
        "mapped": fanned_out_steps(),
        "changing": [verify_step(), load, hook],
    }


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    names = {f"scheduled_{name}" for name in NAMES}
    root = tmp_path_factory.mktemp("scheduled")
    with running(root, HERE / "scheduled_dags.py", scheduled_specs(), names, {}, ("triggerer",)) as found:
        yield found


def mutations(workers: Workers, dag_id: str) -> list[list[Any]]:
    """Run id, bounds of the interval, number of the try, begin and end of each mutation, by their end."""
    file = workers.shared / f"{dag_id}.mutations"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def told(workers: Workers, dag_id: str, word: str) -> Path:
    file = workers.shared / f"{dag_id}.{word}"
    file.touch()
    return file


def test_a_backfill_loads_every_interval_once_and_in_their_order(workers: Workers) -> None:
    """A backfill has a limit of its own, ten runs at once, whatever the DAG says."""
    dag_id = "scheduled_backfill"
    asked = ("--dag-id", dag_id, "--from-date", "2026-01-01", "--to-date", "2026-01-03", "--max-active-runs", "1")
    workers.client.unpause(dag_id)
    workers.environment.run(sys.executable, "-m", "airflow", "backfill", "create", *asked)
    runs = until(lambda: found if len(found := workers.client.runs(dag_id)) == 3 else None)
    assert {workers.ended(dag_id, run_id)[0] for run_id in runs} == {"success"}
    done = mutations(workers, dag_id)
    starts = [datetime.fromisoformat(start).date().isoformat() for _, start, *_ in done]
    assert starts == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert sorted(run_id for run_id, *_ in done) == sorted(runs)


def test_of_two_runs_the_second_begins_when_the_first_has_ended(workers: Workers) -> None:
    dag_id = "scheduled_one_at_a_time"
    waits = told(workers, dag_id, "waits")
    first = workers.client.trigger(dag_id)
    until(lambda: (workers.shared / f"{dag_id}.waiting").exists())
    second = workers.client.trigger(dag_id)
    assert workers.client.state(dag_id, second) == "queued"
    waits.unlink()
    assert [workers.ended(dag_id, run_id)[0] for run_id in (first, second)] == ["success", "success"]
    (_, *_, ended), (_, *_, began, _) = mutations(workers, dag_id)
    assert ended < began


def test_two_runs_beside_each_other_take_no_receipt_of_each_other(workers: Workers) -> None:
    dag_id = "scheduled_side_by_side"
    waits = told(workers, dag_id, "waits")
    runs = [workers.client.trigger(dag_id), workers.client.trigger(dag_id)]
    until(lambda: all(workers.client.state(dag_id, run_id) == "running" for run_id in runs))
    waits.unlink()
    for run_id in runs:
        state, _ = workers.ended(dag_id, run_id)
        assert (state, workers.client.xcom(dag_id, run_id, LOAD)["dag_run_id"]) == ("success", run_id)
        assert workers.client.xcom(dag_id, run_id, GATE)["dag_run_id"] == run_id
    assert sorted(run_id for run_id, *_ in mutations(workers, dag_id)) == sorted(runs)


def test_a_run_that_depends_on_the_one_before_waits_until_that_is_green(workers: Workers) -> None:
    """The gate waits as its steps do, so the second run neither loads nor fails. Airflow knows no run before one
    without a logical date.
    """
    dag_id = "scheduled_after_past"
    broken = told(workers, dag_id, "broken")
    first = workers.client.trigger_at(dag_id, "2026-01-01T00:00:00Z")
    assert workers.ended(dag_id, first)[0] == "failed"
    second = workers.client.trigger_at(dag_id, "2026-01-02T00:00:00Z")
    verify = f"{STEP}bundle_verify"
    until(lambda: workers.client.tasks(dag_id, second).get(verify, {}).get("state") == "success")
    assert workers.client.state(dag_id, second) == "running" and mutations(workers, dag_id) == []
    assert workers.client.tasks(dag_id, second)[LOAD]["state"] in (None, "scheduled")
    broken.unlink()
    workers.client.clear(dag_id, first, LOAD, HOOK, GATE)
    assert workers.ended(dag_id, first)[0] == "success"
    assert workers.ended(dag_id, second)[0] == "success"
    assert [run_id for run_id, *_ in mutations(workers, dag_id)] == [first, second]


@pytest.mark.parametrize("kind", ["preempted", "preempted_once"])
def test_a_preempted_pod_is_replaced_only_where_its_step_may_be_repeated_unproven(workers: Workers, kind: str) -> None:
    dag_id = f"scheduled_{kind}"
    waits = told(workers, dag_id, "waits")
    run_id = workers.client.trigger(dag_id)
    until(lambda: (workers.shared / f"{dag_id}.waiting").exists())
    name = until(lambda: running_pod(workers, dag_id))
    workers.runner.evict("default", name)
    if kind == "preempted":
        until(lambda: workers.client.tasks(dag_id, run_id)[LOAD]["try_number"] == 2)
    waits.unlink()
    state, tasks = workers.ended(dag_id, run_id)
    if kind == "preempted":
        assert (state, tasks[LOAD]["try_number"], len(mutations(workers, dag_id))) == ("success", 2, 1)
        return
    assert (state, tasks[LOAD]["try_number"], mutations(workers, dag_id)) == ("failed", 1, [])
    verdict = workers.client.xcom(dag_id, run_id, GATE)
    assert verdict["retry_classification"] == "operator_verification_required"


def running_pod(workers: Workers, dag_id: str) -> str | None:
    """The pod of the load, whose step runs."""
    for pod in workers.runner.state()["pods"]:
        labels = pod["metadata"]["labels"]
        if labels.get("dag_id") == dag_id and labels.get("dpone_step") == "dpone_run_flights":
            return str(pod["metadata"]["name"])
    return None


def test_a_triggerer_that_dies_beside_a_waiting_pod_costs_no_second_load(workers: Workers) -> None:
    dag_id = "scheduled_trigger"
    waits = told(workers, dag_id, "waits")
    run_id = workers.client.trigger(dag_id)
    until(lambda: (workers.shared / f"{dag_id}.waiting").exists())
    until(lambda: workers.client.tasks(dag_id, run_id)[LOAD]["state"] == "deferred")
    workers.components.restart("triggerer")
    waits.unlink()
    state, tasks = workers.ended(dag_id, run_id)
    assert (state, tasks[LOAD]["try_number"], len(mutations(workers, dag_id))) == ("success", 1, 1)


def test_partitions_of_a_plan_are_tasks_of_their_own(workers: Workers) -> None:
    dag_id = "scheduled_mapped"
    state, tasks = workers.ended(dag_id, workers.client.trigger(dag_id))
    assert state == "success"
    assert len([name for name in tasks if name.startswith(f"{STEP}transfer_partition[")]) == 3


def test_a_watched_gate_fails_a_run_whose_last_task_runs_in_any_case(workers: Workers) -> None:
    dag_id = "scheduled_watched"
    broken = told(workers, dag_id, "broken")
    state, tasks = workers.ended(dag_id, workers.client.trigger(dag_id))
    assert (state, tasks["tidy_up"]["state"], tasks["outcome_watcher"]["state"]) == ("failed", "success", "failed")
    broken.unlink()
    state, tasks = workers.ended(dag_id, workers.client.trigger(dag_id))
    assert (state, tasks["outcome_watcher"]["state"]) == ("success", "skipped")


def test_a_run_whose_run_spec_was_deployed_anew_is_green_after_what_the_gate_advises(workers: Workers) -> None:
    """Only the gate ran under the new one; what it says to clear is cleared, literally."""
    dag_id = "scheduled_changed"
    run_id = workers.client.trigger(dag_id)
    assert workers.ended(dag_id, run_id)[0] == "success"
    file = workers.environment.dags_folder / "changing.spec.json"
    document = json.loads(file.read_text("utf-8"))
    document["steps"][1]["argv"].insert(3, "--keep-going")
    file.write_text(json.dumps(document), "utf-8")
    workers.client.clear(dag_id, run_id, GATE)
    assert workers.ended(dag_id, run_id)[0] == "failed"
    verdict = workers.client.xcom(dag_id, run_id, GATE)
    assert verdict["primary_code"] == "DPONE_RUN_SPEC_CHANGED"
    assert "clear the task of bundle_verify, the tasks behind it and the gate" in verdict["advice"]
    workers.client.clear(dag_id, run_id, f"{STEP}bundle_verify", LOAD, HOOK, GATE)
    assert workers.ended(dag_id, run_id)[0] == "success"


def test_no_secret_of_a_pod_is_in_anything_that_airflow_keeps(workers: Workers) -> None:
    """Its metadata database with rendered fields and XComs, the logs of tasks and components, the DAG files."""
    dag_id = "scheduled_mapped"  # the load of this run asserts that the secret reached its pod
    assert workers.ended(dag_id, workers.client.trigger(dag_id))[0] == "success"
    root = workers.environment.home.parent
    kept = [path for path in root.rglob("*") if path.is_file() and "pods" not in path.relative_to(root).parts[:1]]
    assert {"airflow.db", "scheduler.log"} <= {path.name for path in kept}
    canary = SECRET.rpartition(":")[2].encode()
    assert [str(path.relative_to(root)) for path in kept if canary in path.read_bytes()] == []
