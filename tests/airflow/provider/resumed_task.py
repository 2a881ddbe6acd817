"""Resumes a deferred load whose pod the API refuses to show, and writes what the operator made of it.

Started as a process of its own: `resumed_task.py RUN_SPEC_FILE RESULT_FILE`.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

from airflow.providers.common.compat.sdk import DAG

from dpone_airflow.tasks import load_run_spec, wire_dpone_gitops_task_group


def main(run_spec_file: str, result_file: str) -> None:
    with DAG("resumed", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        wired = wire_dpone_gitops_task_group(dag=dag, run_spec=load_run_spec(run_spec_file))
    load, left = wired.tasks["dpone_run_flights"], {}
    ti = SimpleNamespace(
        dag_id="resumed",
        task_id=load.task_id,
        run_id="manual__1",
        map_index=-1,
        try_number=1,
        max_tries=load.retries,
        xcom_push=lambda key, value: left.update({key: value}),
    )
    event = {"name": "gone", "namespace": "default", "status": "success", "message": ""}
    try:
        load.trigger_reentry({"ti": ti}, event)
        raised = None
    except Exception as error:
        raised = type(error).__name__
    Path(result_file).write_text(json.dumps({"raised": raised, "left": left}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
