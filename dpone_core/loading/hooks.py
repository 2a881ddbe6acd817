"""Runs the inline hooks of one phase; those with tasks of their own are taken from receipts or left to them (S1).

Every hook is required. A hook that already succeeded in this run with the same action is not run again; a started hook
of `retry_policy: none` without proof of success stops everything until a person has looked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, assert_never

from dpone_core.contracts.step_receipt import StepReceipt
from dpone_core.errors import ETLExecutionError
from dpone_core.evidence.audit import StepOutcome, utc_text
from dpone_core.loading.context import LoadContext
from dpone_core.model.hook import SQL_TYPE, HookDefinition, HookScalar, HookTraits, ScalarKind
from dpone_core.model.identity import safe_run_id
from dpone_core.model.vocabulary import AirflowExecution, HookConnector, HookKind, HookPhase, HookRetryPolicy
from dpone_core.ports.control import ControlRow
from dpone_core.ports.hooks import (
    HookActionError,
    HookContext,
    HookOutcome,
    HookProvider,
    HookResult,
    select_declared_results,
)
from dpone_core.ports.runtime import Clock, EvidenceFiles
from dpone_core.ports.statements import StatementAnswer, StatementPort, StatementScript

RECORD_KIND: Final = "dpone.hook_record.v1"
_MAX_RECORD_BYTES: Final = 16 << 10


class HookFailedError(ETLExecutionError):
    """A hook failed; `hook_id` names it, `reason` is the code of what happened, foreign text stays in `__cause__`."""

    code = "hook_failed"

    def __init__(self, hook: HookDefinition, code: str) -> None:
        self.hook_id = hook.id
        self.phase = hook.phase
        self.reason = code
        super().__init__(f"{hook.phase} '{hook.id}' failed ({code})")


class HookOutcomeUnknownError(ETLExecutionError):
    """A hook that must not be repeated was started before and never proved its success."""

    code = "hook_outcome_unknown"

    def __init__(self, hook: HookDefinition) -> None:
        super().__init__(
            f"{hook.phase} '{hook.id}' was started in this run before and never proved success; not repeated",
            fix="verify what it did, then start a new run id",
        )


def shown(hook: HookDefinition) -> dict[str, object]:
    """What every step row of a hook says of it besides id, kind and phase (S1 "Runtime lifecycle")."""
    lineage = {"inputs": list(hook.lineage.inputs), "outputs": list(hook.lineage.outputs)}
    return {"type": hook.type, "lineage": lineage, **hook.identifying}


def hook_json(
    hook: HookDefinition,
    status: str,
    error_code: str | None = None,
    values: Mapping[str, HookScalar] | None = None,
) -> dict[str, object]:
    """Facts 2.1. `result` shows the SQL hash, or the type's action hash and what its provider answered."""
    identifying = {name: item for name, item in hook.identifying.items() if name != "type"}
    return {
        "id": hook.id,
        "phase": hook.phase.value,
        "kind": hook.kind.value,
        "type": hook.type,
        "status": status,
        "lineage": {"inputs": list(hook.lineage.inputs), "outputs": list(hook.lineage.outputs)},
        "result": {**identifying, **(values or {})},
        "error_message": error_code,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlHookProvider:
    """HookProvider of type `sql`: a script on one side's connection, or the one answer of a probe."""

    source: StatementPort | None = None
    sink: StatementPort | None = None
    traits: HookTraits = field(
        default=HookTraits(type=SQL_TYPE, results={"statements": ScalarKind.INTEGER, "violations": ScalarKind.INTEGER})
    )

    def execute(self, hook: HookDefinition, context: HookContext) -> HookResult:
        """Raises ConnectorError, or HookActionError for a probe that did not answer zero."""
        ports = self.source if hook.connector is HookConnector.SOURCE else self.sink
        if ports is None or hook.sql is None:
            raise HookActionError("the connector executes no SQL", code="connector_has_no_statements")
        script = StatementScript(sql=hook.sql, autocommit=hook.autocommit, token_values=context.token_values)
        if hook.kind is not HookKind.DATA_QUALITY_PROBE:
            return HookResult(values={"statements": ports.execute(script)})
        violations = violations_in(ports.answer(script))
        if violations:
            raise HookActionError(
                "the probe found violations", code="data_quality_probe_failed", values={"violations": violations}
            )
        return HookResult(values={"violations": violations})


def violations_in(answer: StatementAnswer) -> int:
    """The one non-negative integer of a probe. Raises HookActionError `data_quality_probe_invalid` for all else."""
    value = answer.rows[0][0] if answer.columns == 1 and len(answer.rows) == 1 and len(answer.rows[0]) == 1 else None
    if type(value) is not int or value < 0:
        raise HookActionError(
            "a probe answers with exactly one non-negative integer", code="data_quality_probe_invalid"
        )
    return value


def executed(hook: HookDefinition, provider: HookProvider, context: HookContext) -> dict[str, HookScalar]:
    """What evidence may keep of the provider's answer. Raises HookFailedError."""
    try:
        result = provider.execute(hook, context)
    except ETLExecutionError as error:
        raise HookFailedError(hook, error.code) from error
    return select_declared_results(result, provider.traits)


def failure_values(error: HookFailedError, traits: HookTraits) -> dict[str, HookScalar]:
    """The same of a failed action: a count of violations, a status."""
    cause = error.__cause__
    values = cause.values if isinstance(cause, HookActionError) else {}
    return select_declared_results(HookResult(values=values), traits)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookLedger:
    """Durable records of hooks, one file each below the run's evidence directory: no sink is needed to read them."""

    files: EvidenceFiles
    clock: Clock
    process: str
    run_id: str

    def status(self, hook: HookDefinition) -> StepOutcome | None:
        """SUCCEEDED, or RUNNING for any start without proof of success; None when this action never started."""
        content = self.files.read(self._path(hook), _MAX_RECORD_BYTES)
        if content is None:
            return None
        try:
            record = json.loads(content)
        except (ValueError, RecursionError):
            return StepOutcome.RUNNING  # a damaged record proves no success
        if not isinstance(record, dict) or not {"sql_hash", "action_hash"} & record.keys():
            return StepOutcome.RUNNING
        if any(record.get(name) != value for name, value in hook.identifying.items()):
            return None
        return StepOutcome.SUCCEEDED if record.get("status") == "succeeded" else StepOutcome.RUNNING

    def started(self, hook: HookDefinition) -> None:
        self._record(hook, "started", None, {})

    def succeeded(self, hook: HookDefinition, values: Mapping[str, HookScalar]) -> None:
        self._record(hook, "succeeded", None, values)

    def failed(self, hook: HookDefinition, reason: str, values: Mapping[str, HookScalar]) -> None:
        """Best effort: the started record already says that success was never proven."""
        with suppress(ETLExecutionError):
            self._record(hook, "failed", reason, values)

    def _path(self, hook: HookDefinition) -> str:
        run = safe_run_id(self.run_id)
        return f"runs/{self.process}/{run}/hooks/{hook.phase.value}_{safe_run_id(hook.id)}.json"

    def _record(self, hook: HookDefinition, status: str, reason: str | None, values: Mapping[str, HookScalar]) -> None:
        document = {
            "kind": RECORD_KIND,
            "process": self.process,
            "run_id": self.run_id,
            "phase": hook.phase.value,
            "id": hook.id,
            **hook.identifying,
            "status": status,
            "reason": reason,
            "result": dict(values),
            "at": utc_text(self.clock.utc_now()),
        }
        self.files.publish(self._path(hook), (json.dumps(document, indent=2) + "\n").encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRunner:
    """The hooks of one phase inside a load. `outcome` is that of the committed load, None before the commit.

    With an audit trail the step rows are the record; without one the ledger is written. Both are read, so that a hook
    that `hooks execute` ran in this run id is known here.
    """

    context: LoadContext
    outcome: HookOutcome | None = None

    def run(self, hooks: tuple[HookDefinition, ...]) -> None:
        """Runs in the given order and stops at the first failure, raising HookFailedError."""
        for hook in hooks:
            self._run_one(hook)

    def _run_one(self, hook: HookDefinition) -> None:
        self.context.runtime.cancellation.checkpoint()
        receipts = self.context.request.hook_receipts
        if receipts is not None and hook.airflow is AirflowExecution.SEPARATE_TASK:
            self._leave_to_its_task(hook, receipts)
            return
        previous = self._previous_status(hook)
        if previous is StepOutcome.SUCCEEDED:
            self._note(hook, "already_succeeded")
        elif previous is not None and hook.retry_policy is HookRetryPolicy.NONE:
            self.context.commit_state.unproven_hook = True
            raise HookOutcomeUnknownError(hook)
        else:
            self._execute(hook)

    def _execute(self, hook: HookDefinition) -> None:
        """A `running` row, or a started record without audit, is durable before the action begins."""
        provider = self._provider(hook)
        announced = {**shown(hook), "retry_policy": hook.retry_policy.value}
        ledger = self._ledger() if self.context.sessions.audit is None else None
        with self.context.step_log.step(hook.id, hook.phase.value, hook.kind.value, announced=announced) as step:
            if ledger is not None:
                ledger.started(hook)
            self.context.commit_state.unproven_hook = hook.retry_policy is HookRetryPolicy.NONE
            try:
                values = executed(hook, provider, self._hook_context(hook))
            except HookFailedError as error:
                failed = failure_values(error, provider.traits)
                step.details |= {"reason": error.reason, **failed}
                if ledger is not None:
                    ledger.failed(hook, error.reason, failed)
                raise
            step.details |= values
            if ledger is not None:
                ledger.succeeded(hook, values)
        self.context.commit_state.unproven_hook = False

    def _provider(self, hook: HookDefinition) -> HookProvider:
        if hook.type == SQL_TYPE:
            sessions = self.context.sessions
            return SqlHookProvider(source=sessions.source.statements, sink=sessions.sink.statements)
        return self.context.request.hook_actions.provider_of(hook)

    def _hook_context(self, hook: HookDefinition) -> HookContext:
        identity, request = self.context.identity, self.context.request
        return HookContext(
            run_id=identity.run_id,
            load_id=identity.load_id,
            process=self.context.plan.process,
            phase=hook.phase,
            token_values=request.token_values,
            outcome=self.outcome,
            connection=request.hook_actions.connection_of(hook),
        )

    def _leave_to_its_task(self, hook: HookDefinition, receipts: Mapping[str, StepReceipt]) -> None:
        """The task of a pre-hook ran and left a receipt; that of a post-hook runs behind this load."""
        match hook.phase:
            case HookPhase.PRE:
                self._note(hook, "verified_receipt", {"receipt_digest": receipts[hook.id].digest})
            case HookPhase.POST:
                self._note(hook, "separate_task", status=StepOutcome.SKIPPED)
            case _:
                assert_never(hook.phase)

    def _note(
        self,
        hook: HookDefinition,
        how: str,
        more: Mapping[str, object] | None = None,
        status: StepOutcome = StepOutcome.SUCCEEDED,
    ) -> None:
        details: dict[str, object] = {**shown(hook), "evidence": how, **(more or {})}
        self.context.step_log.note(hook.id, hook.phase.value, hook.kind.value, status, details)

    def _previous_status(self, hook: HookDefinition) -> StepOutcome | None:
        """The best status this action reached in this run id; None when it never started."""
        recorded = self._ledger().status(hook)
        reached = [] if recorded is None else [recorded]
        audit = self.context.sessions.audit
        if audit is not None:
            reached += [
                StepOutcome(str(row["status"]))
                for row in audit.steps_of_run(self.context.identity.run_id)
                if row["step_id"] == hook.id and row["phase"] == hook.phase.value and _is_start_of(row, hook)
            ]
        return StepOutcome.SUCCEEDED if StepOutcome.SUCCEEDED in reached else reached[-1] if reached else None

    def _ledger(self) -> HookLedger:
        return HookLedger(
            files=self.context.runtime.evidence,
            clock=self.context.runtime.clock,
            process=self.context.plan.process,
            run_id=self.context.identity.run_id,
        )


def hook_outcome(context: LoadContext) -> HookOutcome:
    """What the post-hooks of a committed load may be told."""
    commit_state, target = context.commit_state, context.plan.target
    result = commit_state.result
    return HookOutcome(
        target=str(target.table),
        strategy=target.strategy.value,
        target_state=commit_state.target_state,
        source_state=commit_state.source_state,
        extracted_rows=result.extracted_rows,
        staged_rows=result.staged_rows,
        inserted_rows=result.inserted_rows,
        updated_rows=result.updated_rows,
        final_rows=result.final_rows,
    )


def _is_start_of(row: ControlRow, hook: HookDefinition) -> bool:
    """Whether the row shows that this action started; a load that left it to its task started nothing."""
    if row["status"] == StepOutcome.SKIPPED:
        return False
    details = json.loads(str(row["details_json"] or "{}"))
    return isinstance(details, dict) and all(details.get(name) == value for name, value in hook.identifying.items())


def separate_hooks(hooks: tuple[HookDefinition, ...]) -> tuple[HookDefinition, ...]:
    return tuple(hook for hook in hooks if hook.airflow is AirflowExecution.SEPARATE_TASK)


def phase_of(hook_id: str, phase: HookPhase) -> str:
    """Step id of a hook that has a task of its own: `pre_hook_refresh_mart`."""
    return f"{phase.value}_{hook_id}"
