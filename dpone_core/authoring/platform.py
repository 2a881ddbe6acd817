"""dpone.platform.v1: what a platform team decides for every run-spec it compiles. It names secrets and holds no secret
value.

Settings of pods and tasks are defined in `contracts.platform`, because the run-spec carries them too.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpone_core.authoring.names import ConnectionRef, ProcessName
from dpone_core.authoring.section import Section
from dpone_core.contracts.platform import PlatformSettings
from dpone_core.contracts.pod_parts import PlainText, Resources
from dpone_core.model.kubernetes_names import DATA_KEY, IMAGE_BY_DIGEST, OBJECT_NAME

PLATFORM_KIND = "dpone.platform.v1"
ImageByDigest = Annotated[str, IMAGE_BY_DIGEST]
TimeoutSeconds = Annotated[int, Field(ge=1, le=7 * 24 * 3600)]
Retries = Annotated[int, Field(ge=0, le=10)]


class SecretKeySection(Section):
    """One key of one Kubernetes Secret."""

    secret: Annotated[str, OBJECT_NAME]
    """Name of the Secret in the namespace of the pods."""
    key: Annotated[str, DATA_KEY]
    """Key whose value is the connection's URI or JSON object."""


class StepLimitsSection(Section):
    """How long a step may run and how often its task may be repeated."""

    timeout_seconds: TimeoutSeconds
    """Seconds the pod may run, start-up excluded."""
    retries: Retries
    """Repeats of the task; a hook of `retry_policy: none` is never repeated whatever stands here."""
    resources: Resources | None = None
    """What the container of this kind of step asks for and may use, in place of `resources` of all steps."""
    pool: PlainText | None = None
    """Airflow pool of this kind of task, in place of `pool` of all tasks."""


class VerifyLimitsSection(StepLimitsSection):
    """Limits of the early, visible check of the bundle."""

    timeout_seconds: TimeoutSeconds = 300
    """Seconds the pod may run, start-up excluded."""
    retries: Retries = 2
    """Repeats of the task."""


class HookLimitsSection(StepLimitsSection):
    """Limits of hooks that have a task of their own."""

    timeout_seconds: TimeoutSeconds = 3600
    """Seconds the pod may run, start-up excluded."""
    retries: Retries = 1
    """Repeats of the task; a hook of `retry_policy: none` is never repeated whatever stands here."""


class TransferPlanLimitsSection(StepLimitsSection):
    """Limits of planning the key ranges of a process whose ranges have tasks of their own."""

    timeout_seconds: TimeoutSeconds = 900
    """Seconds the pod may run, start-up excluded."""
    retries: Retries = 2
    """Repeats of the task; the plan of the first try stands."""


class TransferPartitionLimitsSection(StepLimitsSection):
    """Limits of staging one key range."""

    timeout_seconds: TimeoutSeconds = 7200
    """Seconds the pod may run, start-up excluded."""
    retries: Retries = 2
    """Repeats of one range; nothing is published by it, and what is staged is not read again."""


class LoadLimitsSection(StepLimitsSection):
    """Limits of the governed load."""

    timeout_seconds: TimeoutSeconds = 7200
    """Seconds the pod may run, start-up excluded."""
    retries: Retries = 1
    """Repeats of the task; a receipt that forbids a repeat stops it whatever stands here."""


class StepsSection(Section):
    """Limits by kind of step."""

    bundle_verify: VerifyLimitsSection = VerifyLimitsSection()
    """The early, visible check of the bundle."""
    hook: HookLimitsSection = HookLimitsSection()
    """Hooks that have a task of their own."""
    transfer_plan: TransferPlanLimitsSection = TransferPlanLimitsSection()
    """Planning key ranges that have tasks of their own."""
    transfer_partition: TransferPartitionLimitsSection = TransferPartitionLimitsSection()
    """Each of those key ranges."""
    load: LoadLimitsSection = LoadLimitsSection()
    """The governed load."""


class ProcessPlatformSection(PlatformSettings):
    """What differs for one process: mappings merge over the rest of the file, lists and values replace."""

    image: ImageByDigest | None = None
    """Image of this process, by digest."""
    connections: dict[ConnectionRef, SecretKeySection] = Field(default_factory=dict)
    """Secrets of this process; a reference that it does not use is an error."""
    steps: StepsSection = StepsSection()
    """Limits of this process."""


class PlatformSection(Section):
    """The platform file: image, secrets by reference, limits, and everything else the cluster decides."""

    kind: Literal["dpone.platform.v1"]
    """Document kind and version."""
    image: ImageByDigest
    """Image of every step, by digest: a tag may change between review and run."""
    connections: dict[ConnectionRef, SecretKeySection] = Field(default_factory=dict)
    """Where each connection_ref comes from; a reference without entry fails the compile."""
    steps: StepsSection = StepsSection()
    """Limits by kind of step."""
    defaults: PlatformSettings = PlatformSettings()
    """Pods and tasks of every process."""
    processes: dict[ProcessName, ProcessPlatformSection] = Field(default_factory=dict)
    """What differs for a process, by its name; a name that no manifest of the project has is an error."""
