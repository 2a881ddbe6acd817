"""`hooks execute`: the hooks of one phase outside a load, in a task of their own or by an operator's hand.

Each opens only the connection it uses. Its record is a file below the run's evidence directory, written `started`
before and `succeeded` after: a hook that succeeded in this run is not repeated, and a started one of
`retry_policy: none` without success stops until a person has looked (design "Hooks").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from dpone_core.errors import ETLConfigurationError, ETLExecutionError, RunTerminated
from dpone_core.evidence.audit import StepOutcome
from dpone_core.evidence.outcome import failure_facts
from dpone_core.invocation import RunInvocation
from dpone_core.loading.hooks import (
    HookFailedError,
    HookLedger,
    HookOutcomeUnknownError,
    SqlHookProvider,
    execute_hook,
    hook_json,
    read_failure_values,
)
from dpone_core.model.hook import SQL_TYPE, HookDefinition
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.vocabulary import HookConnector, HookPhase, HookRetryPolicy, RetryClassification
from dpone_core.ports.hooks import HookActions, HookContext, HookProvider
from dpone_core.ports.runtime import Runtime
from dpone_core.use_cases.planned import PlannedProcess
from dpone_core.use_cases.run import DEFAULT_LOCK_TIMEOUT_SECONDS
from dpone_core.wiring.connections import ConnectionResolver
from dpone_core.wiring.connectors import SinkLock, open_sink, open_source, require_extra, require_uri
from dpone_core.wiring.hook_providers import hook_actions, hook_connections

HOOKS_KIND: Final = "dpone.hooks.execute.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksReport:
    """Facts 2.1. `retry` says whether the whole command may be repeated; None on success and on a dry run."""

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
class HookRun:
    """One process's hooks of one phase, prepared: everything that can be refused was."""

    planned: PlannedProcess
    hooks: tuple[HookDefinition, ...]
    resolver: ConnectionResolver
    invocation: RunInvocation
    runtime: Runtime

    def execute(self) -> tuple[list[dict[str, object]], BaseException | None]:
        """Runs in order and stops at the first failure or interruption; the steps say what each hook did."""
        actions = hook_actions(
            self.planned.config,
            self.planned.hook_providers,
            self.runtime.evidence,
            hook_connections(self.hooks, self.resolver, self.planned.config),
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


def chosen_hooks(planned: PlannedProcess, phase: HookPhase, hook_id: str | None) -> tuple[HookDefinition, ...]:
    """Raises ETLConfigurationError for an id the phase does not have."""
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


def require_hook_connections(run: HookRun) -> None:
    """Resolves what the hooks will use, so that a missing reference or driver is refused before the first one."""
    config: LoadConfig = run.planned.config
    hook_connections(run.hooks, run.resolver, config)
    for hook in run.hooks:
        if hook.type != SQL_TYPE:
            continue
        on_source = hook.connector is HookConnector.SOURCE
        connection = run.resolver.source_of(config) if on_source else run.resolver.sink_of(config)
        connector = config.source.type if on_source else config.sink.type
        require_uri(connector, connection)
        require_extra(connector, connection)
