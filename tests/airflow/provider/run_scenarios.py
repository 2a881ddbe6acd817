"""Runs every scenario DAG with dag.test() and writes what Airflow's database then holds: states, tries, XComs, fields.

Started as a process of its own: `run_scenarios.py DAG_FILE RESULT_FILE`.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import select

from tests.airflow.compat import AssetEvent, XComModel, registered, xcom_value


def main(dag_file: str, result_file: str) -> None:
    specification = importlib.util.spec_from_file_location("scenario_dags", dag_file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    results: dict[str, Any] = {}
    for name, dag in vars(module).items():
        if not name.startswith("dag_"):
            continue
        print(f"@@SCENARIO {dag.dag_id}", flush=True)
        for prepare in filter(None, [getattr(module, "BEFORE", {}).get(dag.dag_id)]):
            prepare()
        run = registered(dag).test()
        for tidy in filter(None, [getattr(module, "AFTER", {}).get(dag.dag_id)]):
            tidy()
        results[dag.dag_id] = {
            "state": str(run.state),
            "run_id": run.run_id,
            "tasks": observed(dag.dag_id, run.run_id),
            "assets": updated_assets(dag.dag_id, run.run_id),
        }
    Path(result_file).write_text(json.dumps(results), encoding="utf-8")


def observed(dag_id: str, run_id: str) -> dict[str, Any]:
    with create_session() as session:
        tasks = session.scalars(
            select(TaskInstance).where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
        ).all()
        found = {
            name_of(task): {
                "state": str(getattr(task.state, "value", task.state)),
                "try_number": task.try_number,
                "xcom": {},
                "rendered": {},
            }
            for task in tasks
        }
        for row in session.scalars(select(XComModel).where(XComModel.dag_id == dag_id, XComModel.run_id == run_id)):
            found[name_of(row)]["xcom"][row.key] = xcom_value(row)
        fields = select(RenderedTaskInstanceFields).where(
            RenderedTaskInstanceFields.dag_id == dag_id, RenderedTaskInstanceFields.run_id == run_id
        )
        for rendered in session.scalars(fields):
            found[name_of(rendered)]["rendered"] = rendered.rendered_fields
    return found


def name_of(row: Any) -> str:
    """The task without its group; of a mapped one with its index: `transfer_partition[1]`."""
    name = row.task_id.rpartition(".")[2]
    return name if row.map_index < 0 else f"{name}[{row.map_index}]"


def updated_assets(dag_id: str, run_id: str) -> list[str]:
    """The tasks of the run that updated an asset."""
    with create_session() as session:
        events = session.scalars(
            select(AssetEvent).where(AssetEvent.source_dag_id == dag_id, AssetEvent.source_run_id == run_id)
        ).all()
        return sorted(event.source_task_id.rpartition(".")[2] for event in events)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
