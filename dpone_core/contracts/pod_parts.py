"""Parts of a pod that a platform decides. Kubernetes objects appear by name, never by content.

Field names are snake_case as in Kubernetes' Python client; a field that is left out is decided by the cluster.
Contract: DAG-11.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from dpone_core.contracts.wire import Contract
from dpone_core.errors import ErrorCode
from dpone_core.model.kubernetes_names import (
    ABSOLUTE_PATH,
    DNS_LABEL,
    ENVIRONMENT_NAME,
    LABEL_VALUE,
    OBJECT_NAME,
    QUALIFIED_NAME,
    QUANTITY,
)
from dpone_core.model.secret_shapes import looks_secret

PLATFORM_INVALID: Final = ErrorCode("DPONE_PLATFORM_INVALID")
TEMPLATE_TOKENS: Final = ("{{", "{%", "{#", "$(")
_PART = TypeVar("_PART")


def refusal(message: str, fix: str) -> PydanticCustomError:
    """Builds the validation error of a platform setting, with its fix; `message` must not hold an authored value."""
    return PydanticCustomError(PLATFORM_INVALID, message, {"fix": fix})


def _require_literal(text: str) -> str:
    if any(token in text for token in TEMPLATE_TOKENS):
        raise refusal(
            "expected a literal value, found a template ({{ {% {# or $( )", "write the value; only dpone adds templates"
        )
    return text


def _refuse_secrets(values: dict[str, str]) -> dict[str, str]:
    for name, text in values.items():
        if looks_secret(text, name=name):
            raise refusal(
                f"the value of '{name}' looks like a secret; everybody who can read the DAG would see it",
                "map it as a connection, or mount a Secret under 'volumes'",
            )
    return values


def require_plain_json(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Returns `value`. Raises a validation error when a text in it is a template or looks like a secret."""
    for name, text in _texts(value, ""):
        _require_literal(text)
        if looks_secret(text, name=name):
            raise refusal("a value looks like a secret; everybody who can read the DAG would see it", "mount a Secret")
    return value


def _texts(value: JsonValue, name: str) -> Iterable[tuple[str, str]]:
    """Every text with the key it belongs to. The key is "" where the text names a Kubernetes object, which is no
    secret.
    """
    if isinstance(value, str):
        yield ("" if "secret" in name.lower() or name in ("name", "key") else name, value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _require_literal(key)
            yield from _texts(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, name)


def require_unique(parts: tuple[_PART, ...], keys: Iterable[object], what: str) -> tuple[_PART, ...]:
    """Returns `parts`. Raises a validation error when two `keys` are equal; `what` names them in the message."""
    found = list(keys)
    if len(set(found)) != len(found):
        raise refusal(f"{what} is given twice", "list it once")
    return parts


ObjectName = Annotated[str, OBJECT_NAME]
PlainText = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_require_literal)]
AbsolutePath = Annotated[str, ABSOLUTE_PATH]
Labels = dict[
    Annotated[str, QUALIFIED_NAME],
    Annotated[str, LABEL_VALUE],
]
LiteralTexts = Annotated[
    dict[
        Annotated[str, QUALIFIED_NAME],
        Annotated[str, Field(max_length=4096), AfterValidator(_require_literal)],
    ],
    AfterValidator(_refuse_secrets),
]
Environment = Annotated[
    dict[
        Annotated[str, ENVIRONMENT_NAME],
        Annotated[str, Field(max_length=4096), AfterValidator(_require_literal)],
    ],
    AfterValidator(_refuse_secrets),
]
PlainJson = Annotated[dict[str, JsonValue], AfterValidator(require_plain_json)]
Seconds = Annotated[int, Field(ge=1, le=7 * 24 * 3600)]
Quantities = dict[Annotated[str, QUALIFIED_NAME], Annotated[str, QUANTITY]]
UserId = Annotated[int, Field(ge=0, le=2**31 - 1)]


class Resources(Contract):
    """What the step's container asks for and may use."""

    requests: Quantities = Field(default_factory=dict)
    """Reserved for the pod, for example `{cpu: 500m, memory: 1Gi}`."""
    limits: Quantities = Field(default_factory=dict)
    """Never exceeded; more memory than this ends the container."""


class Toleration(Contract):
    """One taint that the pods may ignore."""

    key: Annotated[str, QUALIFIED_NAME] | None = None
    """Key of the taint; none with operator `Exists` means every taint."""
    operator: Literal["Equal", "Exists"] | None = None
    """How key and value are compared."""
    value: Annotated[str, LABEL_VALUE] | None = None
    """Value of the taint, for operator `Equal`."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The effect that is ignored; none means every effect."""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None
    """How long a pod stays after a `NoExecute` taint appears."""


class SeccompProfile(Contract):
    """Which system calls the pod's processes may make."""

    type: Literal["RuntimeDefault", "Unconfined", "Localhost"]
    """Kind of profile."""
    localhost_profile: PlainText | None = None
    """File of the profile on the node, for type `Localhost`."""


class PodSecurity(Contract):
    """Security of the whole pod."""

    run_as_user: UserId | None = None
    """User id of every process."""
    run_as_group: UserId | None = None
    """Primary group id of every process."""
    run_as_non_root: bool | None = None
    """Refuse to start as user 0."""
    fs_group: UserId | None = None
    """Group that owns the volumes."""
    fs_group_change_policy: Literal["OnRootMismatch", "Always"] | None = None
    """When the owner of a volume is set."""
    supplemental_groups: tuple[UserId, ...] = ()
    """Further groups of every process."""
    seccomp_profile: SeccompProfile | None = None
    """Which system calls are allowed."""


class Capabilities(Contract):
    """Linux capabilities taken from or given to the container."""

    add: tuple[PlainText, ...] = ()
    """Given."""
    drop: tuple[PlainText, ...] = ()
    """Taken away, for example `[ALL]`."""


class ContainerSecurity(Contract):
    """Security of the step's container."""

    allow_privilege_escalation: bool | None = None
    """Whether a process may gain more rights than its parent."""
    privileged: bool | None = None
    """Run as on the node itself."""
    read_only_root_filesystem: bool | None = None
    """Only volumes can be written; mount an empty_dir where dpone needs space."""
    run_as_user: UserId | None = None
    """User id of the container."""
    run_as_group: UserId | None = None
    """Primary group id of the container."""
    run_as_non_root: bool | None = None
    """Refuse to start as user 0."""
    capabilities: Capabilities | None = None
    """Linux capabilities."""
    seccomp_profile: SeccompProfile | None = None
    """Which system calls are allowed."""


class EmptyDir(Contract):
    """Space that lives as long as the pod."""

    medium: Literal["Memory"] | None = None
    """`Memory` for a file system in memory."""
    size_limit: Annotated[str, QUANTITY] | None = None
    """Most that may be written."""


class VolumeMount(Contract):
    """Where the step's container sees a volume."""

    path: AbsolutePath
    """Path in the container."""
    sub_path: PlainText | None = None
    """Only this path inside the volume."""
    read_only: bool = False
    """Whether writing is refused."""


_VOLUME_KINDS: Final = ("persistent_volume_claim", "config_map", "secret", "empty_dir", "nfs", "csi", "projected")


def _require_one(part: Contract, what: str, kinds: tuple[str, ...]) -> None:
    if sum(getattr(part, kind) not in (None, ()) for kind in kinds) != 1:
        raise refusal(f"{what} is exactly one of {', '.join(kinds)}", "name one of them")


class NfsShare(Contract):
    """A directory of a file server."""

    server: PlainText
    """Host name or address of the server."""
    path: AbsolutePath
    """Directory that it exports."""
    read_only: bool = False
    """Whether writing is refused."""


class CsiVolume(Contract):
    """A volume that a driver of the cluster makes for the pod, for example the secrets store."""

    driver: Annotated[str, QUALIFIED_NAME]
    """Name of the driver."""
    read_only: bool = False
    """Whether writing is refused."""
    volume_attributes: LiteralTexts = Field(default_factory=dict)
    """What the driver is told, for example `{secretProviderClass: orders}`."""


class ServiceAccountToken(Contract):
    """A token of the pod's service account for one audience."""

    path: PlainText
    """File name below the mount path."""
    audience: PlainText | None = None
    """Who accepts the token; unless given the API server."""
    expiration_seconds: Annotated[int, Field(ge=600, le=2**31 - 1)] = 3600
    """Lifetime; the cluster renews the file before it ends."""


class Projection(Contract):
    """One source of a projected volume, of exactly one kind."""

    secret: ObjectName | None = None
    """A Secret as files."""
    config_map: ObjectName | None = None
    """A ConfigMap as files."""
    service_account_token: ServiceAccountToken | None = None
    """A token of the pod's service account."""

    @model_validator(mode="after")
    def _require_one_kind(self) -> Self:
        _require_one(self, "a projected source", ("secret", "config_map", "service_account_token"))
        return self


class Volume(Contract):
    """One volume of the pods, of exactly one kind, and where it is mounted."""

    name: Annotated[str, DNS_LABEL]
    """Name of the volume inside the pod."""
    persistent_volume_claim: ObjectName | None = None
    """A claim: what is written there outlives the pod."""
    config_map: ObjectName | None = None
    """A ConfigMap as files."""
    secret: ObjectName | None = None
    """A Secret as files."""
    empty_dir: EmptyDir | None = None
    """Scratch space; `{}` for the defaults."""
    nfs: NfsShare | None = None
    """A file server's directory: what is written there outlives the pod."""
    csi: CsiVolume | None = None
    """A volume that lives and ends with the pod, made by a driver of the cluster."""
    projected: Annotated[tuple[Projection, ...], Field(max_length=16)] = ()
    """Several sources in one directory."""
    mounts: Annotated[tuple[VolumeMount, ...], Field(min_length=1, max_length=32)]
    """Where the step's container sees it."""

    @model_validator(mode="after")
    def _require_one_kind(self) -> Self:
        _require_one(self, "a volume", _VOLUME_KINDS)
        return self

    @property
    def is_durable(self) -> bool:
        """Whether what a pod writes there outlives it."""
        return self.persistent_volume_claim is not None or (self.nfs is not None and not self.nfs.read_only)
