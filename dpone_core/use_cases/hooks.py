"""`hooks execute` runs the hooks of one phase outside a load; `hooks graph` shows the order of hooks and load.

Each hook opens only the connection it uses. Its record is a file below the run's evidence directory, written `started`
before and `succeeded` after: a hook that succeeded in this run is not repeated, and a hook of `retry_policy: none` that
started without success is refused until a person has looked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from dpone_core.errors import ETLConfigurationError, ETLExecutionError, RunTerminated
from dpone_core.evidence.audit import StepOutcome
from dpone_core.evidence.outcome import failure_facts
from dpone_core.invocation import RunArguments, RunInvocation
from dpone_core.loading.hooks import (
    HookFailedError,
    HookLedger,
    HookOutcomeUnknownError,
    SqlHookProvider,
    execute_hook,
    hook_json,
    read_failure_values,
)
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.hook import SQL_TYPE, HookDefinition
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.vocabulary import HookConnector, HookPhase, HookRetryPolicy, RetryClassification, StepKind
from dpone_core.planning.presentation import HOOK_GRAPH_KIND, hook_graph_json
from dpone_core.ports.hooks import HookActions, HookContext, HookProvider
from dpone_core.ports.runtime import Runtime
from dpone_core.use_cases.call import Call, RunProcessPorts, begin_step, require_one_process
from dpone_core.use_cases.plan import PlannedProcess, plan_authored
from dpone_core.use_cases.prepare import DEFAULT_LOCK_TIMEOUT_SECONDS, require_locks, require_tokens
from dpone_core.use_cases.step_receipt import RefusedStep
from dpone_core.use_cases.verify import PackReference, require_agreed_pack
from dpone_core.wiring.connections import ConnectionResolver
from dpone_core.wiring.connectors import SinkLock, open_sink, open_source, require_address, require_extra, require_uri
from dpone_core.wiring.hook_providers import make_hook_actions, resolve_hook_connections

__all__ = [
    "HOOK_GRAPH_KIND",
    "HookOptions",
    "HooksExecution",
    "HooksReport",
    "RefusedStep",
    "execute_hooks",
    "graph_hooks",
]

HOOKS_KIND: Final = "dpone.hooks.execute.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOptions:
    """`hook_id` None = every hook of the phase in order."""

    phase: HookPhase
    hook_id: str | None = None
    dry_run: bool = False
    selector: str | None = None
    arguments: RunArguments = field(default_factory=RunArguments)
    pack: PackReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksReport:
    """What the command prints. `retry`: whether the whole command may be repeated; None on success and a dry run."""

    manifest: str
    process: str
    selector: str | None
    phase: HookPhase
    hook_id: str | None
    status: str
    steps: tuple[dict[str, object], ...]
    retry: RetryClassification | None = None

    def as_json(self) -> dict[str, object]:
        return {
            "kind": HOOKS_KIND,
            "manifest": self.manifest,
            "process": self.process,
            "selector": self.selector,
            "phase": self.phase.value,
            "hook_id": self.hook_id,
            "status": self.status,
            "steps": list(self.steps),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksExecution:
    """`sql_hash` is that of the only hook of the phase, None for several; `error` may be an interruption."""

    report: HooksReport
    invocation: RunInvocation
    policy_snapshot_id: str
    sql_hash: str | None
    error: BaseException | None
    kind: Literal[StepKind.HOOK] = StepKind.HOOK


def execute_hooks(
    path: Path,
    options: HookOptions,
    *,
    env: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> HooksExecution | RefusedStep:
    """Runs hooks outside a load. Raises no DponeError: a refusal or a failed hook is in the result."""

    def prepare(call: Call) -> HookRun:
        return _prepare_hooks(call, path, options)

    run = begin_step(StepKind.HOOK, options.arguments, env, project_dir, ports, prepare)
    if isinstance(run, RefusedStep):
        return run
    steps: list[dict[str, object]] = [hook_json(hook, "planned") for hook in run.hooks]
    error: BaseException | None = None
    if not options.dry_run:
        steps, error = run.execute()
        run.runtime.cancellation.settle()
    report = HooksReport(
        manifest=run.planned.config.manifest,
        process=run.planned.plan.process,
        selector=options.selector,
        phase=options.phase,
        hook_id=options.hook_id,
        status="planned" if options.dry_run else "succeeded" if error is None else "failed",
        steps=tuple(steps),
        retry=run.retry_after(steps, error),
    )
    return HooksExecution(
        report=report,
        invocation=run.invocation,
        policy_snapshot_id=run.planned.snapshot.policy_snapshot_id,
        sql_hash=run.hooks[0].sql_hash if len(run.hooks) == 1 else None,
        error=error,
    )


def graph_hooks(path: Path, selector: str | None, root: Path | None) -> list[dict[str, object]]:
    """Returns the graph of hooks and load of each process. Raises ETLConfigurationError."""
    manifest = load_manifest(path, project_root=root)
    return [hook_graph_json(plan_authored(manifest, config).plan) for config in manifest.select(selector)]


def _prepare_hooks(call: Call, path: Path, options: HookOptions) -> HookRun:
    manifest = call.read_manifest(path)
    config = require_one_process(manifest, options.selector)
    if options.pack is not None:
        require_agreed_pack(options.pack, manifest)
    planned = plan_authored(manifest, config)
    run = HookRun(
        planned=planned,
        hooks=_choose_hooks(planned, options.phase, options.hook_id),
        resolver=call.make_resolver(manifest),
        invocation=call.invocation,
        runtime=call.make_runtime(),
    )
    if not options.dry_run:
        _require_hook_connections(run)
        require_tokens(planned.config, call.invocation.token_values)
        call.require_evidence((config,))
    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """One process's hooks of one phase, prepared: everything that can be refused was."""

    planned: PlannedProcess
    hooks: tuple[HookDefinition, ...]
    resolver: ConnectionResolver
    invocation: RunInvocation
    runtime: Runtime

    def execute(self) -> tuple[list[dict[str, object]], BaseException | None]:
        """Runs in order and stops at the first failure or interruption; the steps say what each hook did."""
        actions = make_hook_actions(
            self.planned.config,
            self.planned.hook_providers,
            self.runtime.evidence,
            resolve_hook_connections(self.hooks, self.resolver, self.planned.config),
            self.resolver.redactor,
        )
        steps: list[dict[str, object]] = []
        for hook in self.hooks:
            try:
                self.runtime.cancellation.checkpoint()
                steps.append(self._run_one(hook, actions))
            except (ETLExecutionError, KeyboardInterrupt, RunTerminated) as error:
                stopped = self._interruption_behind(error)
                steps.append(hook_json(hook, "failed", failure_facts(stopped).code))
                return steps, stopped
        return steps, None

    def retry_after(
        self, steps: Sequence[Mapping[str, object]], error: BaseException | None
    ) -> RetryClassification | None:
        """Whether the phase may be repeated: not while a hook that must not be repeated started without success."""
        if error is None:
            return None
        unproven = any(
            hook.retry_policy is HookRetryPolicy.NONE and self._ledger().status(hook) is StepOutcome.RUNNING
            for hook in self.hooks
            if hook.id == steps[-1]["id"]
        )
        if unproven:
            return RetryClassification.OPERATOR_VERIFICATION_REQUIRED
        return RetryClassification.RETRY_BEFORE_TARGET_MUTATION

    def _interruption_behind(self, error: BaseException) -> BaseException:
        """A driver that a signal stopped reports a failure of its own."""
        try:
            self.runtime.cancellation.checkpoint()
        except (KeyboardInterrupt, RunTerminated) as interruption:
            return interruption
        return error

    def _ledger(self) -> HookLedger:
        return HookLedger(
            files=self.runtime.evidence,
            clock=self.runtime.clock,
            process=self.planned.plan.process,
            run_id=self.invocation.run_id,
        )

    def _run_one(self, hook: HookDefinition, actions: HookActions) -> dict[str, object]:
        ledger = self._ledger()
        status = ledger.status(hook)
        if status is StepOutcome.SUCCEEDED:
            return hook_json(hook, "already_succeeded")
        if status is not None and hook.retry_policy is HookRetryPolicy.NONE:
            raise HookOutcomeUnknownError(hook)
        with self._provider(hook, actions) as provider:
            ledger.record_start(hook)
            try:
                values = execute_hook(hook, provider, self._context(hook, actions))
            except HookFailedError as error:
                ledger.record_failure(hook, error.reason, read_failure_values(error, provider.traits))
                raise
        ledger.record_success(hook, values)
        return hook_json(hook, "succeeded", values=values)

    def _context(self, hook: HookDefinition, actions: HookActions) -> HookContext:
        return HookContext(
            run_id=self.invocation.run_id,
            load_id=None,
            process=self.planned.plan.process,
            phase=hook.phase,
            token_values=self.invocation.token_values,
            outcome=None,
            connection=actions.connection_of(hook),
        )

    @contextmanager
    def _provider(self, hook: HookDefinition, actions: HookActions) -> Iterator[HookProvider]:
        """For SQL, the hook's own side is opened and nothing else."""
        config = self.planned.config
        if hook.type != SQL_TYPE:
            yield actions.provider_of(hook)
            return
        lock = SinkLock(timeout_seconds=DEFAULT_LOCK_TIMEOUT_SECONDS, holder=f"hook {hook.id} of {config.process}")
        if hook.connector is HookConnector.SOURCE:
            with open_source(config.source.type, self.resolver.source_of(config), lock) as source:
                yield SqlHookProvider(source=source.statements)
        else:
            with open_sink(config.sink.type, self.resolver.sink_of(config), lock) as sink:
                yield SqlHookProvider(sink=sink.statements)


def _choose_hooks(planned: PlannedProcess, phase: HookPhase, hook_id: str | None) -> tuple[HookDefinition, ...]:
    """Returns the hooks of the phase, or the one named. Raises ETLConfigurationError for an id it does not have."""
    hooks = planned.plan.pre_hooks if phase is HookPhase.PRE else planned.plan.post_hooks
    if hook_id is None:
        return hooks
    found = tuple(hook for hook in hooks if hook.id == hook_id)
    if not found:
        known = ", ".join(hook.id for hook in hooks) or "none"
        raise ETLConfigurationError(
            f"phase {phase} has no such hook; it has: {known}", code="DPONE_HOOK_UNKNOWN", fix="see `dpone hooks graph`"
        )
    return found


def _require_hook_connections(run: HookRun) -> None:
    """Resolves what the hooks will use, so that a missing reference or driver is refused before the first one."""
    config: LoadConfig = run.planned.config
    resolve_hook_connections(run.hooks, run.resolver, config)
    for hook in run.hooks:
        if hook.type != SQL_TYPE:
            continue
        on_source = hook.connector is HookConnector.SOURCE
        connection = run.resolver.source_of(config) if on_source else run.resolver.sink_of(config)
        connector = config.source.type if on_source else config.sink.type
        require_uri(connector, connection)
        require_extra(connector, connection)
        require_address(connector, connection)
        require_locks(config, (hook,), *((connection, None) if on_source else (None, connection)))
