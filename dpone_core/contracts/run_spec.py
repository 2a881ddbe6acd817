"""dpone.run_spec.v1: the complete list of steps that one process becomes in Airflow.

A run-spec is compiled, reviewed and committed. It refers to secrets by name and holds no templates
(dpone_airflow.pod_args adds them). Every step receipt states its fingerprint. It is not a schedule: the DAG that
contains it decides when steps run.
Contract: DAG-02, DAG-09, DAG-16, DAG-17, DAG-18.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, ValidationInfo, model_validator

from dpone_core.contracts.platform import PlatformSettings
from dpone_core.contracts.pod_parts import TEMPLATE_TOKENS, PlainText, Resources
from dpone_core.contracts.seal import add_seal, read_seal
from dpone_core.contracts.wire import (
    Contract,
    ContractInvalidError,
    Fingerprint,
    ProcessName,
    StepId,
    json_object,
    validate_json,
    validate_value,
)
from dpone_core.errors import ErrorCode, ETLConfigurationError
from dpone_core.model.fingerprint import fingerprint
from dpone_core.model.kubernetes_names import DATA_KEY, IMAGE_BY_DIGEST, OBJECT_NAME
from dpone_core.model.vocabulary import HookKind, HookPhase, StepKind, WithoutReceipt
from dpone_core.version import __version__

RUN_SPEC_SCHEMA: Final = "dpone.run_spec.v1"
RUN_SPEC_INVALID: Final = ErrorCode("DPONE_RUN_SPEC_INVALID")
MAX_RUN_SPEC_BYTES: Final = 256 * 1024
MAX_STEPS: Final = 64
MAX_RECEIPTS_FROM: Final = 16
RECEIPT_PATH: Final = "/airflow/xcom/return.json"

_LIMITS: Final = ("timeout_seconds", "retries", "max_parallel", "resources", "pool")
_FAN_OUT: Final = (StepKind.TRANSFER_PLAN, StepKind.TRANSFER_PARTITION)
_SEAL_IS_INTACT: Final = object()
"""Validation context of a document whose seal is intact: its other rules were checked when it was written."""
_CREDENTIALS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s@]*:[^/\s@]+@")

RelativePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./ -]{0,399}$")]
ImageByDigest = Annotated[str, IMAGE_BY_DIGEST]
Argument = Annotated[str, StringConstraints(min_length=1, max_length=2048)]
AssetUri = Annotated[str, StringConstraints(pattern=r"^x-dpone://[a-z0-9_]{1,64}(/[A-Za-z0-9_.~%-]{1,400}){1,2}$")]
RelationName = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class SecretEnv(Contract):
    """One connection given to a pod: the environment variable `name` takes its value from `key` of the Kubernetes
    Secret `secret`.
    """

    name: Annotated[str, StringConstraints(pattern=r"^DPONE_CONN_[A-Z0-9_]{1,100}$")]
    secret: Annotated[str, OBJECT_NAME]
    key: Annotated[str, DATA_KEY]


class HookReference(Contract):
    """The hook that a step executes, and its lineage; `sql_hash` is null for a hook without SQL."""

    phase: HookPhase
    id: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    kind: HookKind
    sql_hash: Fingerprint | None = None
    inputs: tuple[RelationName, ...] = ()
    outputs: tuple[RelationName, ...] = ()


class RunSpecStep(Contract):
    """One Airflow task. With `mapped_over` it becomes one task per partition planned by that step, `max_parallel` at a
    time.

    `timeout_seconds` limits the running time of the pod without its start-up; `retries` counts repeats after the first
    try. `resources` and `pool` stand in place of the platform's.
    """

    step_id: StepId
    kind: StepKind
    depends_on: tuple[StepId, ...] = ()
    receipts_from: Annotated[tuple[StepId, ...], Field(max_length=MAX_RECEIPTS_FROM)] = ()
    timeout_seconds: Annotated[int, Field(ge=1, le=7 * 24 * 3600)]
    retries: Annotated[int, Field(ge=0, le=10)]
    resources: Resources | None = None
    pool: PlainText | None = None
    without_receipt: WithoutReceipt
    argv: Annotated[tuple[Argument, ...], Field(min_length=2, max_length=64)]
    secret_env: Annotated[tuple[SecretEnv, ...], Field(max_length=32)] = ()
    hook: HookReference | None = None
    mapped_over: StepId | None = None
    max_parallel: Annotated[int, Field(ge=1, le=64)] | None = None

    @model_validator(mode="after")
    def _require_dpone_command(self, info: ValidationInfo) -> Self:
        if info.context is _SEAL_IS_INTACT:
            return self
        if self.argv[0] != "dpone":
            raise ValueError("argv must start with 'dpone'")
        if _value_after(self.argv, "--receipt-path") != RECEIPT_PATH:
            raise ValueError(f"argv must hold --receipt-path {RECEIPT_PATH} exactly once")
        if (self.hook is not None) != (self.kind is StepKind.HOOK):
            raise ValueError("every step of kind hook, and no other step, must have a hook reference")
        names = [secret.name for secret in self.secret_env]
        if len(set(names)) != len(names):
            raise ValueError("secret_env must not name a variable twice")
        if len(set(self.depends_on)) != len(self.depends_on):
            raise ValueError("depends_on must not name a step twice")
        if (self.mapped_over is not None) != (self.kind is StepKind.TRANSFER_PARTITION):
            raise ValueError("every step of kind transfer_partition, and no other step, must have mapped_over")
        if self.max_parallel is not None and self.mapped_over is None:
            raise ValueError("only a step with mapped_over may have max_parallel")
        return self

    @property
    def is_pre_hook(self) -> bool:
        """Whether the step executes a hook that runs before the load."""
        return self.hook is not None and self.hook.phase is HookPhase.PRE


class RunSpec(Contract):
    """A valid run-spec. Its steps depend on each other in the order verify, pre-hooks, load, post-hooks.

    When key ranges have tasks of their own, transfer_plan and the mapped transfer_partition come before the load.
    `asset` names what the process loads; `platform` holds what the cluster decides.
    """

    contract: Literal["dpone.run_spec.v1"] = Field(alias="schema")
    process: ProcessName
    manifest: RelativePath
    image: ImageByDigest
    pack: RelativePath
    pack_fingerprint: Fingerprint
    policy_snapshot_id: Fingerprint
    asset: AssetUri | None = None
    platform: PlatformSettings = PlatformSettings()
    steps: Annotated[tuple[RunSpecStep, ...], Field(min_length=2, max_length=MAX_STEPS)]

    @model_validator(mode="after")
    def _require_valid_document(self, info: ValidationInfo) -> Self:
        if info.context is _SEAL_IS_INTACT:
            return self
        document = self.model_dump_json()  # tokens stand in JSON as they are, and JSON itself has none of them
        if any(token in document for token in TEMPLATE_TOKENS):
            raise ValueError("the run-spec holds a template ({{ {% {# or $( ); write the literal value")
        if _CREDENTIALS.search(document) and any(_CREDENTIALS.search(text) for text in _texts(self.wire())):
            raise ValueError("the run-spec holds a URL with credentials; use secret_env")
        for path in (self.manifest, self.pack):
            if ".." in path.split("/"):
                raise ValueError("manifest and pack must be paths inside the bundle, without '..'")
        _require_topological_order(self.steps)
        _require_chain(self.steps)
        if self.platform.active_deadline_seconds is not None:
            _require_deadline(self.platform, self.steps)
        return self

    @cached_property
    def fingerprint(self) -> str:
        """`sha256:` and 64 hex digits over what decides what the steps do: the canonical JSON of the document with all
        defaults, without limits of time and repetition, and of the platform only variables and the bundle's place.

        Receipts state it. A changed timeout, pool or toleration leaves it, so that a deployment of one during a run
        does not part the receipts of that run. Computed once per instance.
        """
        return self.compute_fingerprint()

    def compute_fingerprint(self) -> str:
        """The fingerprint, computed anew from the content, whatever seal the document was read with."""
        document = self.wire()
        document["platform"] = self.platform.model_dump(mode="json", include={"env", "bundle_root"})
        steps = [step.model_dump(mode="json", by_alias=True, exclude=set(_LIMITS)) for step in self.steps]
        return fingerprint({**document, "steps": steps})

    @property
    def load(self) -> RunSpecStep:
        """The only step of kind load."""
        return next(step for step in self.steps if step.kind is StepKind.LOAD)

    def upstream_of(self, step: RunSpecStep) -> tuple[str, ...]:
        """The steps whose receipts `step` follows: those it depends on; in place of a mapped step, its plan."""
        mapped = self.mapped
        if mapped is None or mapped.mapped_over is None or mapped.step_id not in step.depends_on:
            return step.depends_on
        return tuple(mapped.mapped_over if needed == mapped.step_id else needed for needed in step.depends_on)

    @cached_property
    def mapped(self) -> RunSpecStep | None:
        """The step that becomes one task per planned partition; None when the load reads all key ranges itself."""
        return next((step for step in self.steps if step.mapped_over is not None), None)


def parse_run_spec(document: str | bytes) -> RunSpec:
    """Parses a run-spec from JSON text of at most 256 KiB. Raises ContractInvalidError, code DPONE_RUN_SPEC_INVALID.

    For an unchanged document that this version of dpone has compiled only the field types are checked; its seal proves
    that the other rules were checked when it was written.
    """
    content = document.encode("utf-8", "surrogatepass") if isinstance(document, str) else document
    seal = read_seal(content) if len(content) <= MAX_RUN_SPEC_BYTES else None
    if seal is not None and not seal.is_intact:
        raise _seal_error()
    if seal is None or seal.dpone_version != __version__:
        value = json_object(
            content if seal is None else seal.body,
            limit_bytes=MAX_RUN_SPEC_BYTES,
            what="run-spec",
            code=RUN_SPEC_INVALID,
        )
        if "seal" in value:
            raise _seal_error()
        return validate_value(RunSpec, value, what="run-spec", code=RUN_SPEC_INVALID)
    spec = validate_json(RunSpec, seal.body, what="run-spec", code=RUN_SPEC_INVALID, context=_SEAL_IS_INTACT)
    spec.__dict__["fingerprint"] = seal.fingerprint
    return spec


def render_run_spec(spec: RunSpec) -> bytes:
    """The bytes of the committed file: indented JSON without default values, the seal as its last field."""
    document = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    body = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8")
    return add_seal(body, fingerprint=spec.compute_fingerprint(), dpone_version=__version__)


def _seal_error() -> ContractInvalidError:
    return ContractInvalidError(
        "the run-spec was changed after it was compiled: its content no longer matches its seal",
        code=RUN_SPEC_INVALID,
        path="seal",
        fix="compile it again with: dpone gitops airflow run-spec MANIFEST",
    )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _value_after(argv: tuple[str, ...], option: str) -> str | None:
    positions = [index for index, argument in enumerate(argv) if argument == option]
    if len(positions) != 1 or positions[0] + 1 >= len(argv):
        return None
    return argv[positions[0] + 1]


def _require_deadline(platform: PlatformSettings, steps: tuple[RunSpecStep, ...]) -> None:
    try:
        platform.deadline_of(max(step.timeout_seconds for step in steps))
    except ETLConfigurationError as error:
        raise ValueError(error.message) from None


def _require_topological_order(steps: tuple[RunSpecStep, ...]) -> None:
    known = [step.step_id for step in steps]
    if len(set(known)) != len(known):
        raise ValueError("step ids must be unique")
    earlier: set[str] = set()
    for step in steps:
        for dependency in step.depends_on:
            if dependency not in known:
                raise ValueError(f"step {step.step_id} depends on an unknown step")
            if dependency not in earlier:
                raise ValueError(f"step {step.step_id} must be listed after step {dependency}, on which it depends")
        earlier.add(step.step_id)


def _require_chain(steps: tuple[RunSpecStep, ...]) -> None:
    verify, load = _only(steps, StepKind.BUNDLE_VERIFY), _only(steps, StepKind.LOAD)
    ancestors = _ancestors(steps)
    pre_hooks = {step.step_id for step in steps if step.is_pre_hook}
    for step in steps:
        if step is not verify and verify.step_id not in ancestors[step.step_id]:
            raise ValueError(f"step {step.step_id} must depend on bundle_verify")
        if step.hook is not None and step.hook.phase is HookPhase.POST and load.step_id not in ancestors[step.step_id]:
            raise ValueError(f"post-hook step {step.step_id} must depend on the load")
        if not set(step.receipts_from) <= pre_hooks & ancestors[step.step_id]:
            raise ValueError(f"receipts_from of step {step.step_id} must name pre-hook steps that run before it")
    if not pre_hooks <= ancestors[load.step_id]:
        raise ValueError("the load must depend on every pre-hook step")
    if set(load.receipts_from) != pre_hooks or len(load.receipts_from) != len(pre_hooks):
        raise ValueError("receipts_from of the load must name every pre-hook step exactly once")
    if any(step.hook for step in steps) and _value_after(load.argv, "--separate-hooks") != "receipts":
        raise ValueError("the load needs --separate-hooks receipts, because hooks have steps of their own")
    _require_fan_out(steps, load, pre_hooks, ancestors)


def _require_fan_out(
    steps: tuple[RunSpecStep, ...], load: RunSpecStep, pre_hooks: set[str], ancestors: dict[str, frozenset[str]]
) -> None:
    """Requires transfer_plan, transfer_partition and load in this order, the first two exactly once or not at all."""
    found = {kind: [step for step in steps if step.kind is kind] for kind in _FAN_OUT}
    publishes_staged = _value_after(load.argv, "--partitions") == "staged"
    if not any(found.values()):
        if publishes_staged:
            raise ValueError("the load has --partitions staged and no step transfer_partition stages them")
        return
    if any(len(of_kind) != 1 or of_kind[0].step_id != kind.value for kind, of_kind in found.items()):
        raise ValueError("there must be exactly one step transfer_plan and one step transfer_partition, or neither")
    plan, partition = (found[kind][0] for kind in _FAN_OUT)
    if not pre_hooks <= ancestors[plan.step_id]:
        raise ValueError("transfer_plan must depend on every pre-hook step")
    if set(plan.receipts_from) != pre_hooks or len(plan.receipts_from) != len(pre_hooks):
        raise ValueError("receipts_from of transfer_plan must name every pre-hook step exactly once")
    if pre_hooks and _value_after(plan.argv, "--separate-hooks") != "receipts":
        raise ValueError("transfer_plan needs --separate-hooks receipts, because pre-hooks have steps of their own")
    if partition.mapped_over != plan.step_id or plan.step_id not in partition.depends_on:
        raise ValueError("transfer_partition must depend on transfer_plan and be mapped over it")
    if partition.step_id not in ancestors[load.step_id]:
        raise ValueError("the load must depend on transfer_partition")
    if not publishes_staged:
        raise ValueError("the load needs --partitions staged, because partitions have steps of their own")


def _only(steps: tuple[RunSpecStep, ...], kind: StepKind) -> RunSpecStep:
    found = [step for step in steps if step.kind is kind]
    if len(found) != 1:
        raise ValueError(f"there must be exactly one step of kind {kind.value}")
    return found[0]


def _ancestors(steps: tuple[RunSpecStep, ...]) -> dict[str, frozenset[str]]:
    """Transitive dependencies of each step; `steps` are in topological order."""
    found: dict[str, frozenset[str]] = {}
    for step in steps:
        inherited = (found[dependency] | {dependency} for dependency in step.depends_on)
        found[step.step_id] = frozenset().union(*inherited)
    return found
