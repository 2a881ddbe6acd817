"""Parses every file of a folder as the DAG processor does and writes what came out: errors, tasks, links, bytes.

Started as a process of its own: `parse_dags.py DAGS_FOLDER RESULT_FILE`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from inspect import signature
from pathlib import Path
from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.common.compat.sdk import BaseOperator
from kubernetes.client import ApiClient

from tests.airflow.compat import DagSerialization, bag_of


def main(folder: str, result_file: str) -> None:
    bag = bag_of(Path(folder))
    result = {
        "import_errors": {
            str(Path(file).relative_to(folder) if Path(file).is_absolute() else file): error
            for file, error in bag.import_errors.items()
        },
        "arguments": sorted(set(signature(KubernetesPodOperator.__init__).parameters) - {"self", "kwargs"}),
        "dags": {dag_id: described(dag) for dag_id, dag in sorted(bag.dags.items())},
    }
    Path(result_file).write_text(json.dumps(result, default=str), encoding="utf-8")


def described(dag: Any) -> dict[str, Any]:
    serialized = json.dumps(DagSerialization.to_dict(dag), sort_keys=True, default=str)
    return {
        "max_active_runs": dag.max_active_runs,
        "sha256": hashlib.sha256(serialized.encode()).hexdigest(),
        "serialized": serialized,
        "authored": mirrored(dag),
        "read_back": mirrored(DagSerialization.from_dict(json.loads(serialized))),
        "tasks": {task.task_id: task_described(task) for task in dag.tasks},
        "groups": {
            name: getattr(group, "doc_md", group.tooltip)
            for name, group in dag.task_group.get_task_group_dict().items()
            if name
        },
        "upstream_searched": {task.task_id: upstream_searched(task) for task in dag.tasks},
    }


def upstream_searched(task: Any) -> list[str]:
    """The tasks before `task` after Airflow's own search of its fields for outputs of other tasks."""
    if isinstance(task, BaseOperator):
        search = getattr(BaseOperator, "_set_xcomargs_dependencies", None) or BaseOperator.set_xcomargs_dependencies
        search(task)
    return sorted(task.upstream_task_ids)


KEPT_OF_DAG = ("dag_id", "start_date", "catchup", "max_active_runs", "doc_md", "fileloc")
KEPT_OF_TASK = (
    *("task_id", "task_display_name", "doc_md", "owner", "pool", "queue", "priority_weight", "retries"),
    *("retry_delay", "execution_timeout", "trigger_rule", "do_xcom_push", "start_date", "is_mapped"),
    *("max_active_tis_per_dagrun", "map_index_template"),
)


SETTINGS = (
    *("deferrable", "poll_interval", "startup_timeout_seconds", "schedule_timeout_seconds", "on_finish_action"),
    *("kubernetes_conn_id", "log_events_on_startup"),
)


def mirrored(dag: Any) -> dict[str, Any]:
    """What a DAG is to scheduler and UI, as text, whether it was written or read back."""
    return {
        **{name: str(getattr(dag, name, None)) for name in KEPT_OF_DAG},
        "tags": sorted(dag.tags),
        "schedule": str(getattr(dag.timetable, "summary", None) or getattr(dag, "schedule", None)),
        "tasks": {
            task.task_id: {
                **{name: plain(getattr(task, name, None)) for name in KEPT_OF_TASK},
                "upstream": sorted(task.upstream_task_ids),
                "downstream": sorted(task.downstream_task_ids),
                "template_fields": list(task.template_fields),
                "command": str(getattr(task, "dpone_command", None)),
                "run_spec_ref": dict(getattr(task, "run_spec_ref", None) or {}),
                "outlets": [str(getattr(one, "uri", one)) for one in task.outlets],
            }
            for task in dag.tasks
        },
    }


def plain(value: Any) -> str:
    return str(plain_or_raw(value))


def plain_or_raw(value: Any) -> Any:
    return getattr(value, "value", value)


def held(task: Any, name: str) -> Any:
    """An argument of a task; a mapped one keeps it for the tasks that it becomes."""
    found = getattr(task, name, None)
    return getattr(task, "partial_kwargs", {}).get(name) if found is None else found


def task_described(task: Any) -> dict[str, Any]:
    timeout = task.execution_timeout
    return {
        "type": task.task_type,
        "is_mapped": hasattr(task, "expand_input"),
        "at_once": task.max_active_tis_per_dagrun,
        "index_title": getattr(task, "map_index_template", None),
        "upstream": sorted(task.upstream_task_ids),
        "trigger_rule": str(getattr(task.trigger_rule, "value", task.trigger_rule)),
        "retries": task.retries,
        "title": task.task_display_name,
        "doc_md": task.doc_md,
        "template_fields": list(task.template_fields),
        "execution_timeout_seconds": timeout.total_seconds() if timeout else None,
        "active_deadline_seconds": held(task, "active_deadline_seconds"),
        "do_xcom_push": held(task, "do_xcom_push"),
        "log_pod_spec_on_failure": held(task, "log_pod_spec_on_failure"),
        "automount": held(task, "automount_service_account_token"),
        "settings": {name: plain_or_raw(getattr(task, name)) for name in SETTINGS if hasattr(task, name)},
        "pod": pod_of(task) if hasattr(task, "build_pod_request_obj") else None,
        "secrets": [[one.deploy_type, one.deploy_target, one.secret, one.key] for one in held(task, "secrets") or []],
    }


def pod_of(task: Any) -> Any:
    """The pod document that the operator would create."""
    return ApiClient().sanitize_for_serialization(task.build_pod_request_obj(dry_run=True))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
