"""Compiles one process into its run-spec: verify, pre-hooks, load, post-hooks (DAG-02).

Only hooks with `execution.airflow: separate_task` become steps; the load runs the others. With `airflow: mapped` key
ranges are planned by a step of their own and staged by a step that Airflow maps over the plan; the load publishes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from dpone_core.authoring.platform import StepLimitsSection
from dpone_core.contracts.pack import Pack
from dpone_core.contracts.run_spec import (
    RECEIPT_PATH,
    RUN_SPEC_INVALID,
    RUN_SPEC_SCHEMA,
    RunSpec,
)
from dpone_core.contracts.wire import validate_value
from dpone_core.declared.registry import EMBEDDED_SCHEMES
from dpone_core.errors import ETLConfigurationError
from dpone_core.gitops.durability import require_durable
from dpone_core.gitops.platform import ProcessPlatform
from dpone_core.loading.hooks import hook_step_id, separate_hooks
from dpone_core.model.hook import HookDefinition
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.vocabulary import (
    HookConnector,
    HookPhase,
    HookRetryPolicy,
    StepKind,
    StrategyMode,
    WithoutReceipt,
)

BUNDLE_VERIFY: Final = "bundle_verify"
_NO_STEP_ID: Final = re.compile(r"[^a-z0-9_]")
_REPEATABLE_WITHOUT_RECEIPT: Final = frozenset({StrategyMode.FULL_REFRESH})


class RunSpecRefusedError(ETLConfigurationError):
    """The process cannot become a run-spec; the message names what to change."""

    code = "DPONE_RUN_SPEC_REFUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRequest:
    """One process of a packed manifest. `pack_path` and the pack's manifest path are relative to the bundle root."""

    config: LoadConfig
    plan: LoadPlan
    policy_snapshot_id: str
    pack: Pack
    pack_path: str
    platform: ProcessPlatform
    sole_process: bool


def compile_run_spec(request: CompileRequest) -> RunSpec:
    """Compiles one process; equal inputs give equal bytes.

    Raises RunSpecRefusedError, VolumeRequiredError, or ContractInvalidError with code DPONE_RUN_SPEC_INVALID.
    """
    plan, platform = request.plan, request.platform
    if _is_mapped(request):
        _refuse_embedded_sink(request)
    require_durable(request.config, platform.settings, mapped=frozenset(platform.connections))
    _refuse_inline_dependency(plan.pre_hooks)
    _refuse_separate_dependency(plan.post_hooks)
    before, after = separate_hooks(plan.pre_hooks), separate_hooks(plan.post_hooks)
    document = {
        "schema": RUN_SPEC_SCHEMA,
        "process": plan.process,
        "manifest": request.pack.manifest,
        "image": platform.image,
        "pack": request.pack_path,
        "pack_fingerprint": request.pack.pack_fingerprint,
        "policy_snapshot_id": request.policy_snapshot_id,
        "asset": asset_of(request.config),
        "platform": platform.settings.model_dump(mode="json", exclude_defaults=True),
        "steps": [
            _verify_step(request),
            *(_hook_step(request, hook, BUNDLE_VERIFY) for hook in before),
            *_fan_out_steps(request, before),
            _load_step(request, before, after),
            *(_hook_step(request, hook, _load_id(request)) for hook in after),
        ],
    }
    return validate_value(RunSpec, document, what="run-spec", code=RUN_SPEC_INVALID)


def used_refs(config: LoadConfig) -> frozenset[str]:
    """Names of the connections that the steps of the process use."""
    refs = (config.source.connection_ref, config.sink.connection_ref, *(hook.connection_ref for hook in config.hooks))
    return frozenset(ref for ref in refs if ref is not None)


def asset_of(config: LoadConfig) -> str | None:
    """The target as an Airflow asset URI made of its connection's name and its table; the same in every run, without
    secrets.
    """
    if config.sink.connection_ref is None:
        return None
    parts = (part for part in (config.sink.table.schema, config.sink.table.name) if part)
    return "/".join((f"x-dpone://{config.sink.connection_ref}", *(quote(part, safe="") for part in parts)))


def _verify_step(request: CompileRequest) -> dict[str, object]:
    argv = ["dpone", "gitops", "verify", request.pack.manifest, *_pack_arguments(request)]
    limits = request.platform.steps.bundle_verify
    return _step(BUNDLE_VERIFY, StepKind.BUNDLE_VERIFY, (), limits, WithoutReceipt.RETRY, argv)


def _hook_step(request: CompileRequest, hook: HookDefinition, behind: str) -> dict[str, object]:
    """The step of one hook. It depends on the hooks it names that have a task, or else on the step `behind`."""
    argv = ["dpone", "hooks", "execute", request.pack.manifest, "--phase", hook.phase.value, "--hook-id", hook.id]
    argv += [*_selector(request), *_pack_arguments(request)]
    once = hook.retry_policy is HookRetryPolicy.NONE
    limits: StepLimitsSection = request.platform.steps.hook
    if once:
        limits = limits.model_copy(update={"retries": 0})
    hooks = request.plan.pre_hooks if hook.phase is HookPhase.PRE else request.plan.post_hooks
    separate = {other.id for other in separate_hooks(hooks)}
    waits_for = tuple(hook_step_id(needed, hook.phase) for needed in hook.depends_on if needed in separate) or (behind,)
    without = WithoutReceipt.STOP if once else WithoutReceipt.RETRY
    return {
        **_step(hook_step_id(hook.id, hook.phase), StepKind.HOOK, waits_for, limits, without, argv),
        "secret_env": _secrets(request, (_connection_ref(request, hook),)),
        "hook": {
            "phase": hook.phase.value,
            "id": hook.id,
            "kind": hook.kind.value,
            "sql_hash": hook.sql_hash,
            "inputs": list(hook.lineage.inputs),
            "outputs": list(hook.lineage.outputs),
        },
    }


def _connection_ref(request: CompileRequest, hook: HookDefinition) -> str | None:
    """The one connection a hook uses: its own, or for SQL that of its side."""
    if hook.sql is None:
        return hook.connection_ref
    config = request.config
    return config.source.connection_ref if hook.connector is HookConnector.SOURCE else config.sink.connection_ref


def _load_id(request: CompileRequest) -> str:
    """`dpone_run_orders`. A step id holds fewer characters than a process name: a hyphen, say, becomes `_`."""
    return f"dpone_run_{_NO_STEP_ID.sub('_', request.plan.process.lower())}"


def _load_step(
    request: CompileRequest, before: tuple[HookDefinition, ...], after: tuple[HookDefinition, ...]
) -> dict[str, object]:
    """The step of the load. It takes the receipts of the hooks `before` it; hooks `after` it run in their own tasks."""
    argv = ["dpone", "run", request.pack.manifest, *_selector(request), *_pack_arguments(request), "--once"]
    receipts = [hook_step_id(hook.id, hook.phase) for hook in before]
    if before or after:
        argv += ["--separate-hooks", "receipts"]
    if _is_mapped(request):
        argv += ["--partitions", "staged"]
    repeatable = request.plan.target.strategy in _REPEATABLE_WITHOUT_RECEIPT
    config = request.config
    inline = [hook for hook in (*request.plan.pre_hooks, *request.plan.post_hooks) if hook not in (*before, *after)]
    refs = [config.source.connection_ref, config.sink.connection_ref]
    refs += [_connection_ref(request, hook) for hook in inline]
    return {
        **_step(
            _load_id(request),
            StepKind.LOAD,
            (StepKind.TRANSFER_PARTITION.value,) if _is_mapped(request) else tuple(receipts) or (BUNDLE_VERIFY,),
            request.platform.steps.load,
            WithoutReceipt.RETRY if repeatable else WithoutReceipt.STOP,
            argv,
        ),
        "receipts_from": receipts,
        "secret_env": _secrets(request, refs),
    }


def _is_mapped(request: CompileRequest) -> bool:
    partitioning = request.config.source.partitioning
    return partitioning is not None and partitioning.mapped


def _fan_out_steps(request: CompileRequest, before: tuple[HookDefinition, ...]) -> list[dict[str, object]]:
    """The steps that plan and stage key ranges. Neither changes the target, so both may always be repeated."""
    partitioning = request.config.source.partitioning
    if partitioning is None or not partitioning.mapped:
        return []
    manifest, steps, config = request.pack.manifest, request.platform.steps, request.config
    arguments = [*_selector(request), *_pack_arguments(request)]
    secrets = _secrets(request, (config.source.connection_ref, config.sink.connection_ref))
    receipts = [hook_step_id(hook.id, hook.phase) for hook in before]
    plan, partition = StepKind.TRANSFER_PLAN, StepKind.TRANSFER_PARTITION
    planning = ["dpone", "transfer", "plan", manifest, *arguments]
    planning += ["--separate-hooks", "receipts"] if receipts else []
    staging = ["dpone", "transfer", "load", manifest, *arguments]
    waits_for, retry = tuple(receipts) or (BUNDLE_VERIFY,), WithoutReceipt.RETRY
    return [
        {
            **_step(plan.value, plan, waits_for, steps.transfer_plan, retry, planning),
            "receipts_from": receipts,
            "secret_env": secrets,
        },
        {
            **_step(partition.value, partition, (plan.value,), steps.transfer_partition, retry, staging),
            "secret_env": secrets,
            "mapped_over": plan.value,
            "max_parallel": partitioning.workers,
        },
    ]


def _refuse_embedded_sink(request: CompileRequest) -> None:
    """Several pods cannot stage into an engine that runs inside one process."""
    ref = request.config.sink.connection_ref
    if ref is None or ref in request.platform.connections:
        return
    scheme = request.config.connections.get(ref, "").partition("://")[0].lower()
    if scheme in EMBEDDED_SCHEMES:
        raise RunSpecRefusedError(
            f"connection '{ref}' opens an engine inside one process, and several pods would stage key ranges into it",
            fix="load into a server, or write source.options.partitioning.airflow: inline",
        )


def _step(
    step_id: str,
    kind: StepKind,
    depends_on: tuple[str, ...],
    limits: StepLimitsSection,
    without_receipt: WithoutReceipt,
    argv: list[str],
) -> dict[str, object]:
    return {
        "step_id": step_id,
        "kind": kind.value,
        "depends_on": list(depends_on),
        "timeout_seconds": limits.timeout_seconds,
        "retries": limits.retries,
        **limits.model_dump(mode="json", include={"resources", "pool"}, exclude_none=True, exclude_defaults=True),
        "without_receipt": without_receipt.value,
        "argv": [*argv, "--receipt-path", RECEIPT_PATH],
    }


def _pack_arguments(request: CompileRequest) -> list[str]:
    return ["--pack", request.pack_path, "--pack-fingerprint", request.pack.pack_fingerprint]


def _selector(request: CompileRequest) -> list[str]:
    return [] if request.sole_process else ["--selector", request.plan.process]


def _secrets(request: CompileRequest, refs: Iterable[str | None]) -> list[dict[str, str]]:
    """Secrets of the connections this step uses, by name. A connection that has neither a secret nor a URI in the
    manifest is refused.
    """
    entries = []
    for ref in sorted({ref for ref in refs if ref is not None}):
        mapped = request.platform.connections.get(ref)
        if mapped is None and ref in request.config.connections:
            continue
        if mapped is None:
            raise RunSpecRefusedError(
                f"connection '{ref}' has no secret in the platform file",
                code="DPONE_PLATFORM_CONNECTION_UNMAPPED",
                fix=f"add connections.{ref}: {{secret: ..., key: ...}}",
            )
        entries.append({"name": f"DPONE_CONN_{ref.upper()}", "secret": mapped.secret, "key": mapped.key})
    return entries


def _refuse_inline_dependency(hooks: tuple[HookDefinition, ...]) -> None:
    """An inline pre-hook runs inside the load, behind every pre-hook that has a task."""
    separate = {hook.id for hook in separate_hooks(hooks)}
    for hook in separate_hooks(hooks):
        inline = [needed for needed in hook.depends_on if needed not in separate]
        if inline:
            raise RunSpecRefusedError(
                f"pre_hook '{hook.id}' has a task of its own and depends on inline hook '{inline[0]}'",
                fix=f"give '{inline[0]}' execution.airflow: separate_task too",
            )


def _refuse_separate_dependency(hooks: tuple[HookDefinition, ...]) -> None:
    """An inline post-hook runs inside the load, before every post-hook that has a task."""
    separate = {hook.id for hook in separate_hooks(hooks)}
    for hook in hooks:
        later = [needed for needed in hook.depends_on if needed in separate]
        if hook.id not in separate and later:
            raise RunSpecRefusedError(
                f"post_hook '{hook.id}' runs inside the load and depends on '{later[0]}', which has a task behind it",
                fix=f"give '{hook.id}' execution.airflow: separate_task too",
            )
