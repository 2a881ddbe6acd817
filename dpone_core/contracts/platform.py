"""What a cluster decides for the pods and tasks of one process. Secrets appear by name only.

A run-spec carries these settings in its section `platform`; a DAG file may override them; dpone_airflow.pod_args turns
the result into pods.
Contract: DAG-11, POD-09, POD-10, POD-13.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from dpone_core.contracts.pod_parts import (
    PLATFORM_INVALID,
    AbsolutePath,
    ContainerSecurity,
    Environment,
    Labels,
    LiteralTexts,
    ObjectName,
    PlainJson,
    PlainText,
    PodSecurity,
    Resources,
    Seconds,
    Toleration,
    Volume,
    refusal,
    require_plain_json,
    require_unique,
)
from dpone_core.contracts.wire import Contract, validate_value
from dpone_core.errors import ETLConfigurationError
from dpone_core.model.kubernetes_names import DNS_LABEL, KEYWORD

DEFAULT_BUNDLE_ROOT: Final = "/opt/dpone/bundle"
IDENTITY_VARIABLES: Final = frozenset(
    {
        "DPONE_PROJECT_DIR",
        "DPONE_STEP_ID",
        "DPONE_RUN_SPEC_FINGERPRINT",
        "DPONE_DAG_ID",
        "DPONE_DAG_RUN_ID",
        "DPONE_TRY_NUMBER",
        "DPONE_FIRST_TRY",
        "DPONE_MAP_INDEX",
        "DPONE_LOGICAL_DATE",
        "DPONE_INTERVAL_START",
        "DPONE_INTERVAL_END",
        "DPONE_STEP_RECEIPTS",
        "DPONE_TRANSFER_PLAN",
        "DPONE_UPSTREAM",
        "DPONE_AIRFLOW_MAPPING_ITEM",
    }
)
"""Variables that tell a step which step of which run it is; the platform must not set them."""
_KEYWORDS: Final = """
    task_id dag task_group task_display_name doc_md step dpone_command run_spec_ref outlets trigger_rule retries
    retry_delay execution_timeout pool queue priority_weight name random_name_suffix image cmds arguments env_vars
    secrets labels annotations namespace kubernetes_conn_id in_cluster config_file service_account_name
    automount_service_account_token image_pull_policy image_pull_secrets container_resources node_selector tolerations
    affinity security_context container_security_context pod_template_file full_pod_spec volumes volume_mounts
    priority_class_name startup_timeout_seconds schedule_timeout_seconds startup_check_interval_seconds
    termination_grace_period active_deadline_seconds deferrable poll_interval on_finish_action on_kill_action
    is_delete_operator_pod do_xcom_push termination_message_policy log_pod_spec_on_failure log_events_on_failure
    base_container_name durable reattach_on_restart skip_on_exit_code get_logs callbacks default_args params
"""
OWN_KEYWORDS: Final = frozenset(_KEYWORDS.split())
"""Arguments of the operator that dpone sets itself, or that would break the check of step receipts."""
_MORE_KEYWORDS: Final = """
    base_container_status_polling_interval cluster_context configmaps container_logs container_name_log_prefix_enabled
    dns_config dnspolicy env_from host_aliases hostname hostnetwork init_container_logs init_containers
    log_events_on_startup log_formatter logging_interval pod_runtime_info_envs pod_template_dict ports
    progress_callback runtime_class_name schedulername subdomain trigger_kwargs xcom_sidecar_container_security_context
"""
POD_OPERATOR_KEYWORDS: Final = frozenset(_MORE_KEYWORDS.split())
"""The other arguments of the operator of the oldest supported provider: what a platform may add."""
_OWN_LABELS: Final = frozenset(
    {"dag_id", "task_id", "run_id", "map_index", "try_number", "kubernetes_pod_operator", "already_checked"}
)
_ORPHAN_SLACK_SECONDS: Final = 120
_RESERVED_PATHS: Final = ("/airflow/xcom", "/dev")


def _refuse_reserved_labels(labels: dict[str, str]) -> dict[str, str]:
    for name in labels:
        if name.startswith("dpone_") or name in _OWN_LABELS:
            raise refusal(f"label '{name}' is set by dpone or Airflow", "choose another name")
    return labels


def _refuse_reserved_variables(env: dict[str, str]) -> dict[str, str]:
    for name in env:
        if name in IDENTITY_VARIABLES:
            raise refusal(f"variable '{name}' is set by dpone for every step", "remove it")
        if name.startswith(("DPONE_CONN_", "AIRFLOW_CONN_")):
            raise refusal(f"variable '{name}' holds a connection", "map it under 'connections' to a secret and a key")
    return env


def _refuse_own_keywords(arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for name in arguments:
        if name in OWN_KEYWORDS:
            raise refusal(
                f"'{name}' is set by dpone and cannot be overridden", "use the platform setting, or remove it"
            )
        if name not in POD_OPERATOR_KEYWORDS:
            from difflib import get_close_matches

            near = get_close_matches(name, POD_OPERATOR_KEYWORDS, 1)
            guess = f", did you mean '{near[0]}'?" if near else ""
            raise refusal(f"KubernetesPodOperator has no argument '{name}'{guess}", "correct the name, or remove it")
    return arguments


def _require_distinct_mounts(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    require_unique(volumes, (volume.name for volume in volumes), "a volume name")
    paths = [mount.path.rstrip("/") or "/" for volume in volumes for mount in volume.mounts]
    for path in paths:
        if path == "/" or any(path == reserved or path.startswith(reserved + "/") for reserved in _RESERVED_PATHS):
            raise refusal(
                "a volume must not be mounted at /, /dev or /airflow/xcom, which the container and the receipt use",
                "choose another path",
            )
    return require_unique(volumes, paths, "a mount path")


class PlatformSettings(Contract):
    """What a cluster decides for the pods and tasks of one process; what is left out is left to cluster and Airflow."""

    namespace: Annotated[str, DNS_LABEL] | None = None
    """Namespace of the pods; unless given that of the Kubernetes connection."""
    kubernetes_conn_id: PlainText | None = None
    """Airflow connection of the cluster."""
    in_cluster: bool | None = None
    """Airflow runs in the same cluster."""
    config_file: AbsolutePath | None = None
    """A kubeconfig on the worker."""
    service_account_name: ObjectName | None = None
    """Service account of the pods; its token is never mounted."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled."""
    image_pull_secrets: Annotated[tuple[ObjectName, ...], Field(max_length=8)] = ()
    """Secrets of the image registry, by name."""
    resources: Resources | None = None
    """What the step's container asks for and may use."""
    node_selector: Labels = Field(default_factory=dict)
    """Labels of the nodes that may run the pods."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """Taints that the pods may ignore."""
    affinity: dict[Literal["nodeAffinity", "podAffinity", "podAntiAffinity"], PlainJson] = Field(default_factory=dict)
    """Affinity rules, written as in a pod document."""
    labels: Annotated[Labels, AfterValidator(_refuse_reserved_labels)] = Field(default_factory=dict)
    """Further labels of the pods."""
    annotations: LiteralTexts = Field(default_factory=dict)
    """Annotations of the pods."""
    security_context: PodSecurity | None = None
    """Security of the whole pod."""
    container_security_context: ContainerSecurity | None = None
    """Security of the step's container."""
    pod_template_file: AbsolutePath | None = None
    """A pod document on the worker that stands under everything else."""
    env: Annotated[Environment, AfterValidator(_refuse_reserved_variables)] = Field(default_factory=dict)
    """Variables of every step, literal and not secret."""
    volumes: Annotated[tuple[Volume, ...], Field(max_length=32), AfterValidator(_require_distinct_mounts)] = ()
    """Volumes and where they are mounted."""
    durable_paths: Annotated[tuple[AbsolutePath, ...], Field(max_length=32)] = ()
    """Paths that a volume of the pod template keeps; state, evidence and targets that are files may lie there."""
    local_pod_runner: bool = False
    """Pods are processes of one machine, as under the local pod runner: files outlive them without a volume."""
    priority_class_name: ObjectName | None = None
    """Priority class of the pods."""
    startup_timeout_seconds: Seconds = 600
    """For scheduling and image pull, on top of a step's own timeout."""
    schedule_timeout_seconds: Seconds | None = None
    """For scheduling alone; unless given the start-up timeout."""
    startup_check_interval_seconds: Annotated[int, Field(ge=1, le=300)] = 5
    """How often a starting pod is looked at."""
    termination_grace_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """Time a step has to abort, clean up and leave its receipt when it is asked to stop."""
    active_deadline_seconds: Seconds | None = None
    """The cluster ends a pod after this, without receipt; unless given a safe margin above all other limits."""
    on_finish_action: Literal["delete_pod", "delete_succeeded_pod"] = "delete_pod"
    """`delete_succeeded_pod` keeps failed pods to look at; a pod that still runs is always stopped."""
    deferrable: bool = False
    """Wait in the triggerer instead of in a worker slot."""
    poll_interval_seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """How often a deferred task looks at its pod."""
    retry_delay_seconds: Annotated[int, Field(ge=0, le=24 * 3600)] = 330
    """Between two tries of a task; longer than the lease of a killed load keeps its target."""
    pool: PlainText | None = None
    """Airflow pool of the tasks."""
    queue: PlainText | None = None
    """Airflow queue of the tasks."""
    priority_weight: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """Airflow priority of the tasks."""
    bundle_root: AbsolutePath = DEFAULT_BUNDLE_ROOT
    """Where the bundle lies in the image or on a volume."""
    kubernetes_pod_operator: Annotated[
        dict[Annotated[str, KEYWORD], JsonValue],
        AfterValidator(_refuse_own_keywords),
        AfterValidator(require_plain_json),
    ] = Field(default_factory=dict)
    """Further arguments of Airflow's KubernetesPodOperator; those that dpone sets itself are refused."""

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        if self.in_cluster and self.config_file:
            raise refusal("in_cluster and config_file exclude each other", "remove one of them")
        return self

    @classmethod
    def of(cls, given: PlatformSettings | Mapping[str, Any] | None) -> PlatformSettings:
        """Returns the settings, or builds them from a mapping with these field names; None gives the defaults.

        Raises ContractInvalidError, code DPONE_PLATFORM_INVALID, naming the wrong field.
        """
        if given is None:
            return _NO_SETTINGS
        if isinstance(given, PlatformSettings):
            return given
        return validate_value(cls, given, what="platform", code=PLATFORM_INVALID)

    def merge_overrides(self, other: PlatformSettings) -> PlatformSettings:
        """Returns these settings with the fields that `other` sets. Mappings merge key by key, lists and single
        values replace.
        """
        stated = other.model_dump(mode="json", exclude_unset=True)
        if not stated:
            return self
        merged = _merge(self.model_dump(mode="json", exclude_unset=True), stated)
        return validate_value(type(self), merged, what="platform", code=PLATFORM_INVALID)

    def deadline_of(self, timeout_seconds: int) -> int:
        """Seconds after which the cluster ends a pod whose step may run `timeout_seconds`.

        It is longer than start-up, run time and grace period together, so that it ends only a pod that every other
        limit has missed. Raises ETLConfigurationError, code DPONE_PLATFORM_INVALID, when an authored
        active_deadline_seconds is shorter, because the pod would end without a receipt.
        """
        needed = self.startup_timeout_seconds + timeout_seconds + self.termination_grace_seconds
        if self.active_deadline_seconds is None:
            return needed + _ORPHAN_SLACK_SECONDS
        if self.active_deadline_seconds < needed:
            raise ETLConfigurationError(
                f"platform active_deadline_seconds would end a pod before its step's own limit of {needed} s",
                code=PLATFORM_INVALID,
                fix="raise it, or lower the step's timeout_seconds",
            )
        return self.active_deadline_seconds

    @property
    def second_containers(self) -> tuple[str, ...]:
        """Containers of an inline pod template beside the step's own. A task waits until they end as well, so that one
        that does not end keeps it for ever; a native sidecar, an init container that restarts always, is none of them.
        """
        template = self.kubernetes_pod_operator.get("pod_template_dict")
        spec = template.get("spec") if isinstance(template, Mapping) else None
        containers = spec.get("containers") if isinstance(spec, Mapping) else None
        named = (
            [one.get("name") for one in containers if isinstance(one, Mapping)] if isinstance(containers, list) else []
        )
        return tuple(str(name) for name in named if name != "base")

    def is_durable_path(self, path: str) -> bool:
        """Whether a file that a pod writes at this absolute path is still there after the pod."""
        mounts = [
            mount.path for volume in self.volumes if volume.is_durable for mount in volume.mounts if not mount.read_only
        ]
        return self.local_pod_runner or any(_lies_below(path, root) for root in (*mounts, *self.durable_paths))

    def is_readable_path(self, path: str) -> bool:
        """Whether a pod can read something at this absolute path: the bundle, or any volume."""
        roots = [mount.path for volume in self.volumes for mount in volume.mounts]
        return self.is_durable_path(path) or any(_lies_below(path, root) for root in (*roots, self.bundle_root))


_NO_SETTINGS: Final = PlatformSettings()


def _lies_below(path: str, root: str) -> bool:
    parts, above = path.strip("/").split("/"), [part for part in root.strip("/").split("/") if part]
    return ".." not in parts and parts[: len(above)] == above


def _merge(base: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in stated.items():
        below = merged.get(name)
        merged[name] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
