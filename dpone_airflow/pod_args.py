"""Run-spec step -> arguments of a KubernetesPodOperator task. Pure; the only place where Jinja templates stand.

A step's pod gets its identity by environment, the receipts it must check as one variable, and only the secrets it
names, by reference. Settings of the cluster arrive as one merged `PlatformSettings`. Nothing here is a secret value,
so all of it may be shown in the Airflow UI. Contract: POD-10, POD-11, POD-12, DAG-10, EVID-13.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dpone_core.contracts.platform import PlatformSettings
from dpone_core.contracts.pod_parts import PLATFORM_INVALID, Resources
from dpone_core.contracts.run_spec import RunSpec, RunSpecStep, SecretEnv
from dpone_core.errors import ETLConfigurationError
from dpone_core.model.vocabulary import StepKind, WithoutReceipt

Platform = PlatformSettings
"""The settings of a run-spec's `platform` section; a DAG file may override them in code."""

_LABEL_CHARACTERS: Final = 63
_POD_NAME_CHARACTERS: Final = 50
_UNSAFE_LABEL: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_UNSAFE_NAME: Final = re.compile(r"[^a-z0-9]+")
_quote: Final = lru_cache(maxsize=4096)(shlex.quote)
"""Words of commands repeat from step to step and from process to process."""
_NAMED_ALIKE: Final = (
    *("namespace", "kubernetes_conn_id", "in_cluster", "config_file", "service_account_name", "image_pull_policy"),
    *("pod_template_file", "priority_class_name", "schedule_timeout_seconds", "pool", "queue", "priority_weight"),
)


def _instant_of(name: str) -> str:
    return "{{ dag_run." + name + ".isoformat() if dag_run." + name + " else '' }}"


def _interval_bound(name: str) -> str:
    """Airflow gives a manual run an interval of no length; such a run has no interval."""
    real = "dag_run.data_interval_start and dag_run.data_interval_start != dag_run.data_interval_end"
    return "{{ dag_run." + name + ".isoformat() if " + real + " else '' }}"


_IDENTITY: Final = {
    "DPONE_DAG_ID": "{{ ti.dag_id }}",
    "DPONE_DAG_RUN_ID": "{{ ti.run_id }}",
    "DPONE_TRY_NUMBER": "{{ ti.try_number }}",
    "DPONE_FIRST_TRY": "{{ ti.max_tries - task.retries + 1 }}",
    "DPONE_MAP_INDEX": "{{ ti.map_index }}",
    "DPONE_LOGICAL_DATE": _instant_of("logical_date"),
    "DPONE_INTERVAL_START": _interval_bound("data_interval_start"),
    "DPONE_INTERVAL_END": _interval_bound("data_interval_end"),
}
_MAPPING_ITEM: Final = "{{ task.mapping_item | tojson }}"
PARTITION_TITLE: Final = "partition {{ ti.map_index }}"
"""What the UI calls one task of a mapped step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodArguments:
    """Keyword arguments of one step's operator; `secret_env` and `resources` need a vendor type. Times are seconds.

    `resources` is None where the step has those of the platform.
    """

    operator: dict[str, object]
    secret_env: tuple[SecretEnv, ...]
    resources: Resources | None
    execution_timeout_seconds: int


class ProcessPods:
    """Builds the pod arguments of every step of one process; what all steps share is computed once.

    `shared`: accepted by every supported KubernetesPodOperator. `optional`: pass only what the installed signature has.
    """

    def __init__(self, spec: RunSpec, platform: PlatformSettings, *, dpone_version: str) -> None:
        self.spec = spec
        self.platform = platform
        given = {name: value for name in _NAMED_ALIKE if (value := getattr(platform, name)) is not None}
        if platform.node_selector:
            given["node_selector"] = platform.node_selector
        self.shared: dict[str, object] = {
            **platform.kubernetes_pod_operator,
            **given,
            "image": spec.image,
            "annotations": platform.annotations,
            "startup_timeout_seconds": platform.startup_timeout_seconds,
            "termination_grace_period": platform.termination_grace_seconds,
            "deferrable": platform.deferrable,
            "poll_interval": platform.poll_interval_seconds,
            "on_finish_action": platform.on_finish_action,
            "do_xcom_push": True,
            "trigger_rule": "all_success",
            "base_container_name": "base",
            "full_pod_spec": None,
            "skip_on_exit_code": None,
            "callbacks": None,
            "get_logs": True,
            "termination_message_policy": "FallbackToLogsOnError",
            "log_pod_spec_on_failure": False,
            "log_events_on_failure": True,
        }
        self.optional: dict[str, object] = {
            "automount_service_account_token": False,
            "startup_check_interval_seconds": platform.startup_check_interval_seconds,
            "on_kill_action": "delete_pod",
        }
        self._planned_by = spec.mapped.mapped_over if spec.mapped is not None else None
        self._env = {
            **platform.env,
            **_IDENTITY,
            "DPONE_PROJECT_DIR": platform.bundle_root,
            "DPONE_RUN_SPEC_FINGERPRINT": spec.fingerprint,
        }
        self._labels = {
            **platform.labels,
            "dpone_process": label_value(spec.process),
            "dpone_run_spec": spec.fingerprint.removeprefix("sha256:")[:40],
            "dpone_version": label_value(dpone_version),
        }
        self._reference = {
            "process": spec.process,
            "run_spec_fingerprint": spec.fingerprint,
            "pack_fingerprint": spec.pack_fingerprint,
            "manifest": spec.manifest,
        }

    def arguments(self, step: RunSpecStep, *, task_ids: Mapping[str, str]) -> PodArguments:
        """The arguments that differ from step to step; `task_ids`: Airflow task ids of the steps it needs receipts of.

        Raises ETLConfigurationError when the platform would end the step before its own limit.
        """
        step_id, command, *arguments = step.step_id, *step.argv
        return PodArguments(
            operator={
                "name": pod_name(self.spec.process, step_id),
                "cmds": [command],
                "arguments": arguments,
                "retries": step.retries,
                "env_vars": self._env_of(step, task_ids),
                "labels": {**self._labels, "dpone_step": label_value(step_id)},
                "active_deadline_seconds": self.platform.deadline_of(step.timeout_seconds),
                "dpone_command": " ".join(map(_quote, step.argv)),
                "run_spec_ref": {**self._reference, "step_id": step_id},
                **({} if step.pool is None else {"pool": step.pool}),
            },
            secret_env=step.secret_env,
            resources=step.resources,
            execution_timeout_seconds=self.platform.startup_timeout_seconds + step.timeout_seconds,
        )

    def _env_of(self, step: RunSpecStep, task_ids: Mapping[str, str]) -> dict[str, str]:
        """Environment variables of a step's pod. An interval that the run does not have is the empty text.

        A load whose partitions were staged by tasks of their own gets the fingerprint of the plan they belong to.
        """
        env = {**self._env, "DPONE_STEP_ID": step.step_id}
        if step.receipts_from:
            pulled = ", ".join(f"'{name}': {_receipt_of(task_ids[name])}" for name in step.receipts_from)
            env["DPONE_STEP_RECEIPTS"] = "{{ {" + pulled + "} | tojson }}"
        upstream = [name for name in self.spec.upstream_of(step) if name in task_ids]
        if upstream:
            index = "ti.map_index" if step.mapped_over is None else "-1"
            pulled = ", ".join(
                f"'{name}': ({_receipt_of(task_ids[name], index)} or {{}}).get('digest')" for name in upstream
            )
            env["DPONE_UPSTREAM"] = "{{ {" + pulled + "} | tojson }}"
        if step.mapped_over is not None:
            env["DPONE_AIRFLOW_MAPPING_ITEM"] = _MAPPING_ITEM
        if self._planned_by is not None and step.kind is StepKind.LOAD and self._planned_by in task_ids:
            plan = _receipt_of(task_ids[self._planned_by])
            env["DPONE_TRANSFER_PLAN"] = "{{ (" + plan + " or {}).get('transfer_plan') or '' }}"
        return env


def inline_step(spec: RunSpec) -> RunSpecStep:
    """The load as the one task of the with_gate form: it runs every hook inline and holds all secrets of the steps.

    A repeat would repeat hooks as well, so the strictest policy of all steps holds.
    """
    argv = list(spec.load.argv)
    if "--partitions" in argv:
        del argv[argv.index("--partitions") : argv.index("--partitions") + 2]
    if "--separate-hooks" in argv:
        argv[argv.index("--separate-hooks") + 1] = "inline"
    else:
        argv += ["--separate-hooks", "inline"]
    secrets = {secret.name: secret for step in spec.steps for secret in step.secret_env}
    if any(secrets[secret.name] != secret for step in spec.steps for secret in step.secret_env):
        raise ETLConfigurationError("two steps map one connection to different secrets", code=PLATFORM_INVALID)
    working = [step for step in spec.steps if step.kind is not StepKind.BUNDLE_VERIFY]
    must_stop = any(step.without_receipt is WithoutReceipt.STOP for step in working)
    return spec.load.model_copy(
        update={
            "argv": tuple(argv),
            "depends_on": (),
            "receipts_from": (),
            "secret_env": tuple(secrets[name] for name in sorted(secrets)),
            "timeout_seconds": sum(step.timeout_seconds for step in spec.steps),
            "retries": min(step.retries for step in working),
            "without_receipt": WithoutReceipt.STOP if must_stop else WithoutReceipt.RETRY,
        }
    )


def _receipt_of(task_id: str, index: str = "ti.map_index") -> str:
    """The Jinja expression that pulls one task's receipt; a missing receipt renders as null."""
    return f"ti.xcom_pull(task_ids='{task_id}', map_indexes={index})"


def pod_name(process: str, step_id: str) -> str:
    """A DNS label of at most 50 characters; Airflow adds a random suffix."""
    return _shorten(_UNSAFE_NAME.sub("-", f"dpone-{process}-{step_id}".lower()).strip("-"), _POD_NAME_CHARACTERS)


@lru_cache(maxsize=4096)
def label_value(text: str) -> str:
    """A Kubernetes label value (at most 63 characters); distinct texts stay distinct."""
    safe = _UNSAFE_LABEL.sub("_", text).strip("_.-") or "none"
    if safe == text:
        return _shorten(safe, _LABEL_CHARACTERS)
    return f"{safe[: _LABEL_CHARACTERS - 9].rstrip('_.-')}-{_short_hash(text)}"


def _shorten(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit - 9].rstrip('_.-')}-{_short_hash(text)}"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]
