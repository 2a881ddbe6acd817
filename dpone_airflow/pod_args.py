"""Run-spec step -> arguments of a KubernetesPodOperator task. Pure; the only place where Jinja templates stand.

A step's pod gets its identity by environment, the receipts it must check as one variable, and only the secrets it
names, by reference. Nothing here is a secret value, so all of it may be shown in the Airflow UI.
Source: design 12; kpo.md 5 and 6; case A28.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

from dpone_core.contracts.run_spec import RunSpec, RunSpecStep, SecretEnv
from dpone_core.errors import ErrorCode, ETLConfigurationError
from dpone_core.model.vocabulary import StepKind, WithoutReceipt

PLATFORM_INVALID: Final = ErrorCode("DPONE_PLATFORM_INVALID")
DEFAULT_BUNDLE_ROOT: Final = "/opt/dpone/bundle"

_ORPHAN_SLACK_SECONDS: Final = 120
_LABEL_CHARACTERS: Final = 63
_POD_NAME_CHARACTERS: Final = 50
_UNSAFE_LABEL: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_UNSAFE_NAME: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What the cluster decides, one value for all tasks of a process; secrets appear by name only.

    `startup_timeout_seconds` covers scheduling and image pull and comes on top of a step's own timeout.
    `pod_template_file` carries everything else (volumes, affinity, security contexts).
    """

    namespace: str | None = None
    service_account_name: str | None = None
    image_pull_policy: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    kubernetes_conn_id: str | None = None
    in_cluster: bool | None = None
    pod_template_file: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    priority_class_name: str | None = None
    startup_timeout_seconds: int = 600
    startup_check_interval_seconds: int = 5
    termination_grace_seconds: int = 60
    deferrable: bool = False
    poll_interval_seconds: float = 10.0
    retry_delay_seconds: int = 60
    pool: str | None = None
    queue: str | None = None
    bundle_root: str = DEFAULT_BUNDLE_ROOT

    @classmethod
    def of(cls, given: Platform | Mapping[str, object] | None) -> Platform:
        """The platform itself, or one from a mapping with these field names; an unknown key is refused (exit 2)."""
        if given is None:
            return cls()
        if isinstance(given, Platform):
            return given
        known = {item.name: item for item in fields(cls)}
        unknown = sorted(str(key) for key in given if key not in known)
        if unknown:
            raise ETLConfigurationError(
                f"platform has unknown keys: {', '.join(unknown)}",
                code=PLATFORM_INVALID,
                fix=f"known keys: {', '.join(known)}",
            )
        default = cls()
        for name, value in given.items():
            _require_shape(name, value, getattr(default, name))
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        return replace(default, **values)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodArguments:
    """Keyword arguments by who understands them.

    `operator`: accepted by every supported KubernetesPodOperator. `optional`: pass only what the installed signature
    has. `secret_env` and `image_pull_secrets` need vendor types. Times are seconds.
    """

    operator: Mapping[str, object]
    optional: Mapping[str, object]
    secret_env: tuple[SecretEnv, ...]
    image_pull_secrets: tuple[str, ...]
    execution_timeout_seconds: int
    retry_delay_seconds: int
    dpone_command: str
    run_spec_ref: Mapping[str, str]


def pod_arguments(
    spec: RunSpec,
    step: RunSpecStep,
    *,
    platform: Platform,
    receipt_task_ids: Mapping[str, str],
    dpone_version: str,
) -> PodArguments:
    """Arguments for one step; `receipt_task_ids` maps each step of `receipts_from` to its Airflow task id."""
    run_seconds = platform.startup_timeout_seconds + step.timeout_seconds
    optional: dict[str, object] = {
        "automount_service_account_token": False,
        "startup_check_interval_seconds": platform.startup_check_interval_seconds,
        "on_finish_action": "delete_pod",
        "on_kill_action": "delete_pod",
    }
    return PodArguments(
        operator={
            **_step_settings(spec, step),
            **_cluster_settings(platform),
            "env_vars": environment(spec, step, platform=platform, receipt_task_ids=receipt_task_ids),
            "labels": {**platform.labels, **_labels(spec, step, dpone_version)},
            "active_deadline_seconds": run_seconds + platform.termination_grace_seconds + _ORPHAN_SLACK_SECONDS,
        },
        optional=optional,
        secret_env=step.secret_env,
        image_pull_secrets=platform.image_pull_secrets,
        execution_timeout_seconds=run_seconds,
        retry_delay_seconds=platform.retry_delay_seconds,
        dpone_command=shlex.join(step.argv),
        run_spec_ref={
            "process": spec.process,
            "step_id": step.step_id,
            "run_spec_fingerprint": spec.fingerprint,
            "pack_fingerprint": spec.pack_fingerprint,
            "manifest": spec.manifest,
        },
    )


def environment(
    spec: RunSpec, step: RunSpecStep, *, platform: Platform, receipt_task_ids: Mapping[str, str]
) -> dict[str, str]:
    """The DPONE_* variables of a step's pod; an interval that the run does not have is the empty text."""
    variables = {
        "DPONE_PROJECT_DIR": platform.bundle_root,
        "DPONE_STEP_ID": step.step_id,
        "DPONE_RUN_SPEC_FINGERPRINT": spec.fingerprint,
        "DPONE_DAG_ID": "{{ ti.dag_id }}",
        "DPONE_DAG_RUN_ID": "{{ ti.run_id }}",
        "DPONE_TRY_NUMBER": "{{ ti.try_number }}",
        "DPONE_MAP_INDEX": "{{ ti.map_index }}",
        "DPONE_LOGICAL_DATE": _instant_of("logical_date"),
        "DPONE_INTERVAL_START": _interval_bound("data_interval_start"),
        "DPONE_INTERVAL_END": _interval_bound("data_interval_end"),
    }
    if step.receipts_from:
        pulled = ", ".join(
            f"'{name}': ti.xcom_pull(task_ids='{receipt_task_ids[name]}', map_indexes=ti.map_index)"
            for name in step.receipts_from
        )
        variables["DPONE_STEP_RECEIPTS"] = "{{ {" + pulled + "} | tojson }}"
    return variables


def inline_step(spec: RunSpec) -> RunSpecStep:
    """The load as the one task of the with_gate form: it runs every hook inline and holds all secrets of the steps.

    A repeat would repeat hooks as well, so the strictest policy of all steps holds.
    """
    argv = list(spec.load.argv)
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


def pod_name(process: str, step_id: str) -> str:
    """A DNS label of at most 50 characters; Airflow adds a random suffix."""
    return _shortened(_UNSAFE_NAME.sub("-", f"dpone-{process}-{step_id}".lower()).strip("-"), _POD_NAME_CHARACTERS)


def label_value(text: str) -> str:
    """A Kubernetes label value (at most 63 characters); distinct texts stay distinct."""
    safe = _UNSAFE_LABEL.sub("_", text).strip("_.-") or "none"
    if safe == text:
        return _shortened(safe, _LABEL_CHARACTERS)
    return f"{safe[: _LABEL_CHARACTERS - 9].rstrip('_.-')}-{_short_hash(text)}"


def _step_settings(spec: RunSpec, step: RunSpecStep) -> dict[str, object]:
    """What the run-spec decides, and what keeps a task honest and silent about its pod."""
    return {
        "name": pod_name(spec.process, step.step_id),
        "image": spec.image,
        "cmds": [step.argv[0]],
        "arguments": list(step.argv[1:]),
        "retries": step.retries,
        "do_xcom_push": True,
        "termination_message_policy": "FallbackToLogsOnError",
        "log_pod_spec_on_failure": False,
        "log_events_on_failure": True,
    }


def _cluster_settings(platform: Platform) -> dict[str, object]:
    """What the platform decides; a setting it does not make is left to the connection or the pod template."""
    names = (
        "namespace",
        "service_account_name",
        "image_pull_policy",
        "kubernetes_conn_id",
        "in_cluster",
        "pod_template_file",
        "priority_class_name",
        "pool",
        "queue",
    )
    given = {name: getattr(platform, name) for name in names if getattr(platform, name) is not None}
    if platform.node_selector:
        given["node_selector"] = dict(platform.node_selector)
    return {
        **given,
        "annotations": dict(platform.annotations),
        "startup_timeout_seconds": platform.startup_timeout_seconds,
        "termination_grace_period": platform.termination_grace_seconds,
        "deferrable": platform.deferrable,
        "poll_interval": platform.poll_interval_seconds,
    }


def _labels(spec: RunSpec, step: RunSpecStep, dpone_version: str) -> dict[str, str]:
    return {
        "dpone_process": label_value(spec.process),
        "dpone_step": label_value(step.step_id),
        "dpone_run_spec": spec.fingerprint.removeprefix("sha256:")[:40],
        "dpone_version": label_value(dpone_version),
    }


def _instant_of(name: str) -> str:
    return "{{ dag_run." + name + ".isoformat() if dag_run." + name + " else '' }}"


def _interval_bound(name: str) -> str:
    """Airflow gives a manual run an interval of no length; such a run has no interval."""
    real = "dag_run.data_interval_start and dag_run.data_interval_start != dag_run.data_interval_end"
    return "{{ dag_run." + name + ".isoformat() if " + real + " else '' }}"


def _require_shape(name: str, value: object, default: object) -> None:
    if default is None:
        fits = isinstance(value, bool) if name == "in_cluster" else isinstance(value, str)
    elif isinstance(default, tuple):
        fits = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
    elif isinstance(default, Mapping):
        fits = isinstance(value, Mapping) and all(isinstance(item, str) for pair in value.items() for item in pair)
    elif isinstance(default, (bool, str)):
        fits = isinstance(value, type(default))
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
    if not fits:
        raise ETLConfigurationError(f"platform {name} has the wrong type or an empty range", code=PLATFORM_INVALID)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit - 9].rstrip('_.-')}-{_short_hash(text)}"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]
