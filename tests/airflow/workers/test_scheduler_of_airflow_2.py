"""The same DAGs under the scheduler of Airflow 2: steps, mapped partitions, a watched gate, a backfill, a cleared task.

Its sequential executor starts a task process at a time; what became of a run is read from the metadata database.
Runs in an environment of Airflow 2 only, see tests/airflow/test_older_airflow.py. Contract: DAG-29.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from examples.flights.components import Components
from tests.airflow.workers.running import Prepared, prepared, until
from tests.airflow.workers.test_scheduled_runs import GATE, HOOK, LOAD, STEP, scheduled_specs

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not version("apache-airflow").startswith("2."), reason="UNVERIFIED: needs Airflow 2"),
]

HERE = Path(__file__).parent
LIMIT_SECONDS = 400.0
DAGS = "SELECT dag_id FROM serialized_dag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """A running scheduler and its database."""

    made: Prepared
    components: Components

    def query(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.made.environment.home / "airflow.db", timeout=30)) as database:
            return database.execute(sql, values).fetchall()

    def airflow(self, *arguments: str) -> None:
        command = (sys.executable, "-m", "airflow", *arguments)
        self.made.environment.run(*command, variables=self.components.environment, timeout_seconds=LIMIT_SECONDS)

    def ended(self, dag_id: str, run_id: str) -> tuple[str, dict[str, str]]:
        """The state of a run that has ended, and those of its tasks by id and map index."""
        found = "SELECT state FROM dag_run WHERE dag_id = ? AND run_id = ? AND state IN ('success', 'failed')"
        ((state,),) = until(lambda: self.components.check() or self.query(found, dag_id, run_id), LIMIT_SECONDS)
        tasks = "SELECT task_id, map_index, state FROM task_instance WHERE dag_id = ? AND run_id = ?"
        named = {
            task if index < 0 else f"{task}[{index}]": held for task, index, held in self.query(tasks, dag_id, run_id)
        }
        return state, named

    def mutations(self, dag_id: str) -> list[list[Any]]:
        file = self.made.shared / f"{dag_id}.mutations"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    root = tmp_path_factory.mktemp("scheduler")
    with prepared(root, HERE / "scheduled_dags.py", scheduled_specs()) as made:
        commands = f"{Path(sys.executable).parent}{os.pathsep}{made.variables['PATH']}"
        sequential = {"AIRFLOW__CORE__EXECUTOR": "SequentialExecutor", "PATH": commands}
        components = Components({**made.variables, **sequential}, root / "logs")
        found = Scheduler(made=made, components=components)
        try:
            components.start("scheduler")
            until(lambda: components.check() or len(found.query(DAGS)) >= 10)
            yield found
        finally:
            components.stop()


def test_a_run_is_green_by_its_receipts_and_a_cleared_load_takes_all_behind_it_along(scheduler: Scheduler) -> None:
    dag_id = "scheduled_one_at_a_time"
    scheduler.airflow("dags", "trigger", dag_id, "--run-id", "r1")
    state, tasks = scheduler.ended(dag_id, "r1")
    assert (state, tasks[LOAD], tasks[GATE]) == ("success", "success", "success")
    assert [run_id for run_id, *_ in scheduler.mutations(dag_id)] == ["r1"]
    scheduler.airflow("tasks", "clear", dag_id, "--task-regex", f"{STEP}.*hook_announce", "--yes")
    until(lambda: not scheduler.query("SELECT 1 FROM dag_run WHERE state = 'success' AND dag_id = ?", dag_id))
    state, tasks = scheduler.ended(dag_id, "r1")
    assert (state, tasks[HOOK]) == ("success", "success")
    assert len(scheduler.mutations(dag_id)) == 1


def test_partitions_of_a_plan_are_tasks_of_their_own(scheduler: Scheduler) -> None:
    scheduler.airflow("dags", "trigger", "scheduled_mapped", "--run-id", "r1")
    state, tasks = scheduler.ended("scheduled_mapped", "r1")
    assert state == "success"
    assert len([name for name in tasks if name.startswith(f"{STEP}transfer_partition[")]) == 3


def test_a_watched_gate_fails_a_run_whose_last_task_runs_in_any_case(scheduler: Scheduler) -> None:
    (scheduler.made.shared / "scheduled_watched.broken").touch()
    scheduler.airflow("dags", "trigger", "scheduled_watched", "--run-id", "r1")
    state, tasks = scheduler.ended("scheduled_watched", "r1")
    assert (state, tasks["tidy_up"], tasks["outcome_watcher"]) == ("failed", "success", "failed")


def test_a_backfill_loads_every_interval_once_and_in_their_order(scheduler: Scheduler) -> None:
    dag_id = "scheduled_backfill"
    scheduler.airflow("dags", "backfill", dag_id, "--start-date", "2026-01-01", "--end-date", "2026-01-02", "--yes")
    starts = [start[:10] for _, start, *_ in scheduler.mutations(dag_id)]
    assert starts == ["2026-01-01", "2026-01-02"]
