"""Runs the example's DAGs with `dag.test()` in a configured Airflow and prints one JSON line per DAG.

Called by demo.py in a process of its own, with AIRFLOW_HOME, KUBECONFIG and DPONE_RUN_SPECS set.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

RESULT = "@@dpone-demo "


def main(dag_file: Path, dag_ids: list[str]) -> int:
    """0 when every DAG run succeeded."""
    found = runpy.run_path(str(dag_file))
    failed = False
    for dag_id in dag_ids:
        run = found[dag_id].test()
        ended = {task.task_id: str(task.state) for task in run.get_task_instances()}
        states = {task.task_id: ended[task.task_id] for task in found[dag_id].topological_sort()}
        verdicts = {task: verdict_of(run, task) for task in states if task.endswith("outcome_gate")}
        failed = failed or str(run.state) != "success"
        print(RESULT + json.dumps({"dag": dag_id, "state": str(run.state), "tasks": states, "verdicts": verdicts}))
    return 1 if failed else 0


def verdict_of(run: Any, task_id: str) -> Any:
    return run.get_task_instance(task_id).xcom_pull(task_ids=task_id, run_id=run.run_id)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
