"""`hooks execute`: the hooks of one phase outside a load, in a task of their own or by an operator's hand.

Each opens only the connection it uses. Its record is a file below the run's evidence directory, written `started`
before and `succeeded` after: a hook that succeeded in this run is not repeated, and a started one of
`retry_policy: none` without success stops until a person has looked (design "Hooks").
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from dpone_core.errors import DponeError, ETLConfigurationError, ETLExecutionError
from dpone_core.evidence.audit import utc_text
from dpone_core.invocation import RunInvocation
from dpone_core.loading.context import LoadEnvironment
from dpone_core.loading.hooks import HookFailedError, HookOutcomeUnknownError, hook_json
from dpone_core.model.hook import HookDefinition
from dpone_core.model.identity import safe_run_id
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.vocabulary import HookConnector, HookPhase, HookRetryPolicy, RetryClassification
from dpone_core.ports.statements import StatementPort, StatementScript
from dpone_core.wiring.connections import ConnectionResolver
from dpone_core.wiring.connectors import SinkLock, open_sink, open_source, require_extra
from dpone_core.wiring.planned import PlannedProcess
from dpone_core.wiring.runs import DEFAULT_LOCK_TIMEOUT_SECONDS

HOOKS_KIND: Final = "dpone.hooks.execute.v1"
RECORD_KIND: Final = "dpone.hook_record.v1"
_MAX_RECORD_BYTES: Final = 16 << 10


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
    environment: LoadEnvironment

    def execute(self) -> tuple[list[dict[str, object]], DponeError | None]:
        """Runs in order and stops at the first failure; the steps say what each hook did."""
        steps: list[dict[str, object]] = []
        for hook in self.hooks:
            self.environment.cancellation.checkpoint()
            try:
                steps.append(hook_json(hook, self._run_one(hook)))
            except ETLExecutionError as error:
                steps.append(hook_json(hook, "failed", error.code))
                return steps, error
        return steps, None

    def _run_one(self, hook: HookDefinition) -> str:
        status = self._recorded_status(hook)
        if status == "succeeded":
            return "already_succeeded"
        if status is not None and hook.retry_policy is HookRetryPolicy.NONE:
            raise HookOutcomeUnknownError(
                f"{hook.phase} '{hook.id}' was started in this run before and never proved success; not repeated",
                fix="verify what it did, then start a new run id",
            )
        with self._statements(hook) as statements:
            self._record(hook, "started")
            try:
                statements.execute(
                    StatementScript(sql=hook.sql, autocommit=hook.autocommit, token_values=self.invocation.token_values)
                )
            except ETLExecutionError as error:
                raise HookFailedError(hook, error.code) from error
        self._record(hook, "succeeded")
        return "succeeded"

    @contextmanager
    def _statements(self, hook: HookDefinition) -> Iterator[StatementPort]:
        config = self.planned.config
        if hook.connector is HookConnector.SOURCE:
            connection = (
                self.resolver.resolve(config.source.connection_ref, config) if config.source.connection_ref else None
            )
            with open_source(config.source.type, connection) as source:
                yield _present(source.statements, hook)
            return
        lock = SinkLock(timeout_seconds=DEFAULT_LOCK_TIMEOUT_SECONDS, holder=f"hook {hook.id} of {config.process}")
        with open_sink(config.sink.type, self.resolver.resolve(config.sink.connection_ref or "", config), lock) as sink:
            yield _present(sink.statements, hook)

    def _path(self, hook: HookDefinition) -> str:
        run = safe_run_id(self.invocation.run_id)
        return f"runs/{self.planned.plan.process}/{run}/hooks/{hook.phase.value}_{safe_run_id(hook.id)}.json"

    def _recorded_status(self, hook: HookDefinition) -> str | None:
        """started or succeeded with this very SQL; None when this run never started it."""
        content = self.environment.evidence.read(self._path(hook), _MAX_RECORD_BYTES)
        if content is None:
            return None
        try:
            record = json.loads(content)
        except ValueError:
            return "started"  # a damaged record proves no success
        same = isinstance(record, dict) and record.get("sql_hash") == hook.sql_hash
        return str(record.get("status")) if same else None

    def _record(self, hook: HookDefinition, status: str) -> None:
        document = {
            "kind": RECORD_KIND,
            "process": self.planned.plan.process,
            "run_id": self.invocation.run_id,
            "phase": hook.phase.value,
            "id": hook.id,
            "sql_hash": hook.sql_hash,
            "status": status,
            "at": utc_text(self.environment.clock.utc_now()),
        }
        self.environment.evidence.publish(self._path(hook), (json.dumps(document, indent=2) + "\n").encode())


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
    for hook in run.hooks:
        on_source = hook.connector is HookConnector.SOURCE
        ref = config.source.connection_ref if on_source else config.sink.connection_ref
        connection = run.resolver.resolve(ref, config) if ref else None
        require_extra(config.source.type if on_source else config.sink.type, connection)


def retry_of(hooks: tuple[HookDefinition, ...], error: DponeError | None) -> RetryClassification | None:
    """A failed phase may be repeated only if none of its hooks forbids repetition."""
    if error is None:
        return None
    if any(hook.retry_policy is HookRetryPolicy.NONE for hook in hooks):
        return RetryClassification.OPERATOR_VERIFICATION_REQUIRED
    return RetryClassification.RETRY_BEFORE_TARGET_MUTATION


def _present(statements: StatementPort | None, hook: HookDefinition) -> StatementPort:
    if statements is None:
        raise HookFailedError(hook, "connector_has_no_statements")
    return statements
