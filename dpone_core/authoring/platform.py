"""dpone.platform.v1: what a platform team decides for every run-spec it compiles. No secret value, only names."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpone_core.authoring.names import ConnectionRef
from dpone_core.authoring.section import Section

PLATFORM_KIND = "dpone.platform.v1"
ImageByDigest = Annotated[str, Field(pattern=r"^[a-z0-9][A-Za-z0-9._/:-]{0,254}@sha256:[0-9a-f]{64}$")]


class SecretKeySection(Section):
    """One key of one Kubernetes Secret."""

    secret: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]
    """Name of the Secret in the namespace of the pods."""
    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,253}$")]
    """Key whose value is the connection's URI or JSON object."""


class StepLimitsSection(Section):
    """How long a step may run and how often its task may be repeated."""

    timeout_seconds: Annotated[int, Field(ge=1, le=7 * 24 * 3600)]
    """Seconds the pod may run, start-up excluded."""
    retries: Annotated[int, Field(ge=0, le=10)]
    """Repeats of the task; a hook of `retry_policy: none` is never repeated whatever stands here."""


class StepsSection(Section):
    """Limits by kind of step."""

    bundle_verify: StepLimitsSection = StepLimitsSection(timeout_seconds=300, retries=2)
    """The early, visible check of the bundle."""
    hook: StepLimitsSection = StepLimitsSection(timeout_seconds=3600, retries=1)
    """Hooks that have a task of their own."""
    load: StepLimitsSection = StepLimitsSection(timeout_seconds=7200, retries=1)
    """The governed load."""


class PlatformSection(Section):
    """The platform file: image, secrets by reference, limits."""

    kind: Literal["dpone.platform.v1"]
    """Document kind and version."""
    image: ImageByDigest
    """Image of every step, by digest: a tag may change between review and run."""
    connections: dict[ConnectionRef, SecretKeySection] = Field(default_factory=dict)
    """Where each connection_ref comes from; a reference without entry fails the compile."""
    steps: StepsSection = StepsSection()
    """Limits by kind of step."""
