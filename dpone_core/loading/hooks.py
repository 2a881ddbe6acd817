"""Runs the hooks of one phase that belong inside the load. Hooks with an Airflow task of their own are not (AIR-02).

Every hook is required. A hook that already succeeded in this run id with the same action is not run again. A hook of
`retry_policy: none` that was started without proof of success fails the load until a person has looked.
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
    """A hook failed. `hook_id` names it, `reason` is the code of the cause; foreign text stays in `__cause__`."""

    code = "hook_failed"

    def __init__(self, hook: HookDefinition, code: str, *, fix: str | None = None) -> None:
        self.hook_id = hook.id
        self.phase = hook.phase
        self.reason = code
        super().__init__(f"{hook.phase} '{hook.id}' failed ({code})", fix=fix)


class HookOutcomeUnknownError(ETLExecutionError):
    """A hook that must not be repeated was started earlier in this run id and has not proved its success."""

    code = "hook_outcome_unknown"

    def __init__(self, hook: HookDefinition) -> None:
        super().__init__(
            f"{hook.phase} '{hook.id}' was started earlier in this run id, and its success was not recorded; "
            "its retry_policy is none, so it is not run again",
            fix="find out what it did and finish or undo it, then start a new run id",
        )


def describe_hook(hook: HookDefinition) -> dict[str, object]:
    """The details of every step row of a hook: its type, lineage and action hash (HOOK-23)."""
    lineage = {"inputs": list(hook.lineage.inputs), "outputs": list(hook.lineage.outputs)}
    return {"type": hook.type, "lineage": lineage, **hook.action_identity}


def hook_json(
    hook: HookDefinition,
    status: str,
    error_code: str | None = None,
    values: Mapping[str, HookScalar] | None = None,
) -> dict[str, object]:
    """A hook as reports show it (HOOK-23). `result` holds its SQL or action hash and the provider's `values`."""
    action_identity = {name: item for name, item in hook.action_identity.items() if name != "type"}
    return {
        "id": hook.id,
        "phase": hook.phase.value,
        "kind": hook.kind.value,
        "type": hook.type,
        "status": status,
        "lineage": {"inputs": list(hook.lineage.inputs), "outputs": list(hook.lineage.outputs)},
        "result": {**action_identity, **(values or {})},
        "error_message": error_code,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlHookProvider:
    """Executes hooks of type `sql`: a script on the source's or the sink's connection, or a data quality probe."""

    source: StatementPort | None = None
    sink: StatementPort | None = None
    traits: HookTraits = field(
        default=HookTraits(type=SQL_TYPE, results={"statements": ScalarKind.INTEGER, "violations": ScalarKind.INTEGER})
    )

    def execute(self, hook: HookDefinition, context: HookContext) -> HookResult:
        """Returns `statements`, the number executed, or `violations`, which is zero, for a probe.

        Raises ConnectorError, and HookActionError `data_quality_probe_failed` for a probe that found violations.
        """
        ports = self.source if hook.connector is HookConnector.SOURCE else self.sink
        if ports is None or hook.sql is None:
            raise HookActionError("the connector executes no SQL", code="connector_has_no_statements")
        script = StatementScript(
            sql=hook.sql,
            autocommit=hook.autocommit,
            read_only=hook.runs_read_only,
            token_values=context.token_values,
        )
        if hook.kind is not HookKind.DATA_QUALITY_PROBE:
            return HookResult(values={"statements": ports.execute(script)})
        violations = read_violations(ports.answer(script))
        if violations:
            raise HookActionError(
                "the probe found violations", code="data_quality_probe_failed", values={"violations": violations}
            )
        return HookResult(values={"violations": violations})


def read_violations(answer: StatementAnswer) -> int:
    """The one non-negative integer a probe answers with; anything else raises `data_quality_probe_invalid`."""
    value = answer.rows[0][0] if answer.columns == 1 and len(answer.rows) == 1 and len(answer.rows[0]) == 1 else None
    if type(value) is not int or value < 0:
        raise HookActionError(
            "a probe must return one row with one non-negative integer, the number of violations",
            code="data_quality_probe_invalid",
        )
    return value


def execute_hook(hook: HookDefinition, provider: HookProvider, context: HookContext) -> dict[str, HookScalar]:
    """Executes the hook and returns those values of the answer that evidence may hold. Raises HookFailedError."""
    try:
        result = provider.execute(hook, context)
    except ETLExecutionError as error:
        fix = error.fix if hook.type == SQL_TYPE else None  # a package's words may hold anything
        raise HookFailedError(hook, error.code, fix=fix) from error
    return select_declared_results(result, provider.traits)


def read_failure_values(error: HookFailedError, traits: HookTraits) -> dict[str, HookScalar]:
    """Those values of a failed hook that evidence may hold, such as the number of violations."""
    cause = error.__cause__
    values = cause.values if isinstance(cause, HookActionError) else {}
    return select_declared_results(HookResult(values=values), traits)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookLedger:
    """Durable records of hooks, one file each in the evidence directory of the run; readable without any sink."""

    files: EvidenceFiles
    clock: Clock
    process: str
    run_id: str

    def status(self, hook: HookDefinition) -> StepOutcome | None:
        """SUCCEEDED, or RUNNING for a hook that was started without proof of success, also one whose record is damaged.

        None when this action was never started in this run id.
        """
        content = self.files.read(self._path(hook), _MAX_RECORD_BYTES)
        if content is None:
            return None
        try:
            record = json.loads(content)
        except (ValueError, RecursionError):
            return StepOutcome.RUNNING  # a damaged record proves no success
        if not isinstance(record, dict) or not {"sql_hash", "action_hash"} & record.keys():
            return StepOutcome.RUNNING
        if any(record.get(name) != value for name, value in hook.action_identity.items()):
            return None
        return StepOutcome.SUCCEEDED if record.get("status") == "succeeded" else StepOutcome.RUNNING

    def record_start(self, hook: HookDefinition) -> None:
        """Records that the hook is about to run. Durable when it returns. Raises EvidenceFilesError."""
        self._record(hook, "started", None, {})

    def record_success(self, hook: HookDefinition, values: Mapping[str, HookScalar]) -> None:
        """Records that the hook succeeded and what it answered. Raises EvidenceFilesError."""
        self._record(hook, "succeeded", None, values)

    def record_failure(self, hook: HookDefinition, reason: str, values: Mapping[str, HookScalar]) -> None:
        """Best effort: without this record the one of the start stays, which proves no success either."""
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
            **hook.action_identity,
            "status": status,
            "reason": reason,
            "result": dict(values),
            "at": utc_text(self.clock.utc_now()),
        }
        self.files.publish(self._path(hook), (json.dumps(document, indent=2) + "\n").encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRunner:
    """Runs the hooks of one phase inside a load. `outcome` is that of the committed load, None before the commit.

    With audit the step rows record which hooks ran, without audit the ledger does. Both are read, so a hook that
    `dpone hooks execute` ran in this run id counts as well.
    """

    context: LoadContext
    outcome: HookOutcome | None = None

    def run(self, hooks: tuple[HookDefinition, ...]) -> None:
        """Runs the hooks in order. Raises HookFailedError or HookOutcomeUnknownError at the first that fails."""
        for hook in hooks:
            self._run_one(hook)

    def _run_one(self, hook: HookDefinition) -> None:
        self.context.runtime.cancellation.checkpoint()
        receipts = self.context.request.hook_receipts
        if receipts is not None and hook.airflow is AirflowExecution.SEPARATE_TASK:
            self._leave_to_its_task(hook, receipts)
            return
        previous = self._read_previous_status(hook)
        if previous is StepOutcome.SUCCEEDED:
            self._note(hook, "already_succeeded")
        elif previous is not None and hook.retry_policy is HookRetryPolicy.NONE:
            self.context.commit_state.unproven_hook = True
            raise HookOutcomeUnknownError(hook)
        else:
            self._execute(hook)

    def _execute(self, hook: HookDefinition) -> None:
        """Executes one hook. A `running` row, or without audit a record of the start, is durable before the action."""
        provider = self._find_provider(hook)
        announced = {**describe_hook(hook), "retry_policy": hook.retry_policy.value}
        ledger = self._ledger() if self.context.sessions.audit is None else None
        with self.context.step_log.step(hook.id, hook.phase.value, hook.kind.value, announced=announced) as step:
            if ledger is not None:
                ledger.record_start(hook)
            self.context.commit_state.unproven_hook = hook.retry_policy is HookRetryPolicy.NONE
            try:
                values = execute_hook(hook, provider, self._hook_context(hook))
            except HookFailedError as error:
                failed = read_failure_values(error, provider.traits)
                step.details |= {"reason": error.reason, **failed}
                if ledger is not None:
                    ledger.record_failure(hook, error.reason, failed)
                raise
            step.details |= values
            if ledger is not None:
                ledger.record_success(hook, values)
        self.context.commit_state.unproven_hook = False

    def _find_provider(self, hook: HookDefinition) -> HookProvider:
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
        """Records a hook with a task of its own: a pre-hook by the receipt of its task, a post-hook as skipped here."""
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
        details: dict[str, object] = {**describe_hook(hook), "evidence": how, **(more or {})}
        self.context.step_log.note(hook.id, hook.phase.value, hook.kind.value, status, details)

    def _read_previous_status(self, hook: HookDefinition) -> StepOutcome | None:
        """The best status of this action in this run id, from ledger and audit; None when it was never started."""
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
    """The facts about the committed load that its post-hooks get."""
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
    """Whether the row shows that this very action was started; a row that says skipped does not."""
    if row["status"] == StepOutcome.SKIPPED:
        return False
    details = json.loads(str(row["details_json"] or "{}"))
    return isinstance(details, dict) and all(details.get(name) == value for name, value in hook.action_identity.items())


def separate_hooks(hooks: tuple[HookDefinition, ...]) -> tuple[HookDefinition, ...]:
    """Those of `hooks` that run in an Airflow task of their own."""
    return tuple(hook for hook in hooks if hook.airflow is AirflowExecution.SEPARATE_TASK)


def hook_step_id(hook_id: str, phase: HookPhase) -> str:
    """Step id of a hook that has a task of its own: `pre_hook_refresh_mart`."""
    return f"{phase.value}_{hook_id}"
