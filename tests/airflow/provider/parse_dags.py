"""Parses every file of a folder as the DAG processor does and writes what came out: errors, tasks, links, bytes.

Started as a process of its own: `parse_dags.py DAGS_FOLDER RESULT_FILE`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization


def main(folder: str, result_file: str) -> None:
    bag = DagBag(folder, bundle_path=Path(folder))
    result = {
        "import_errors": bag.import_errors,
        "dags": {dag_id: described(dag) for dag_id, dag in sorted(bag.dags.items())},
    }
    Path(result_file).write_text(json.dumps(result, default=str), encoding="utf-8")


def described(dag: Any) -> dict[str, Any]:
    serialized = json.dumps(DagSerialization.to_dict(dag), sort_keys=True, default=str)
    return {
        "max_active_runs": dag.max_active_runs,
        "sha256": hashlib.sha256(serialized.encode()).hexdigest(),
        "serialized": serialized,
        "read_back": sorted(task.task_id for task in DagSerialization.from_dict(json.loads(serialized)).tasks),
        "tasks": {task.task_id: task_described(task) for task in dag.tasks},
        "groups": {name: group.doc_md for name, group in dag.task_group.get_task_group_dict().items() if name},
    }


def task_described(task: Any) -> dict[str, Any]:
    timeout = task.execution_timeout
    return {
        "type": type(task).__name__,
        "upstream": sorted(task.upstream_task_ids),
        "trigger_rule": str(getattr(task.trigger_rule, "value", task.trigger_rule)),
        "retries": task.retries,
        "title": task.task_display_name,
        "doc_md": task.doc_md,
        "template_fields": list(task.template_fields),
        "execution_timeout_seconds": timeout.total_seconds() if timeout else None,
        "active_deadline_seconds": getattr(task, "active_deadline_seconds", None),
        "do_xcom_push": task.do_xcom_push,
        "log_pod_spec_on_failure": getattr(task, "log_pod_spec_on_failure", None),
        "automount": getattr(task, "automount_service_account_token", None),
        "secrets": [[one.deploy_type, one.deploy_target, one.secret, one.key] for one in getattr(task, "secrets", [])],
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
