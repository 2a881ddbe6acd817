"""Runs the inline hooks of one phase, and verifies the receipts of those that ran in tasks of their own (S1).

Every hook is required. A hook that already succeeded in this run with the same SQL is not run again; a started hook
of `retry_policy: none` without proof of success stops everything until a person has looked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dpone_core.contracts.step_receipt import StepReceipt
from dpone_core.errors import ETLExecutionError
from dpone_core.evidence.audit import AuditTrail, StepOutcome
from dpone_core.loading.position import LoadPosition
from dpone_core.loading.record import LoadRecord
from dpone_core.model.hook import HookDefinition
from dpone_core.model.vocabulary import AirflowExecution, HookConnector, HookPhase, HookRetryPolicy
from dpone_core.ports.cancellation import Cancellation
from dpone_core.ports.control import ControlRow
from dpone_core.ports.session import SinkPorts, SourcePorts
from dpone_core.ports.statements import StatementPort, StatementScript


class HookFailedError(ETLExecutionError):
    """A hook's SQL failed; `hook_id` names it, the driver's text stays in `__cause__`."""

    code = "hook_failed"

    def __init__(self, hook: HookDefinition, code: str) -> None:
        self.hook_id = hook.id
        self.phase = hook.phase
        super().__init__(f"{hook.phase} '{hook.id}' failed ({code})")


class HookOutcomeUnknownError(ETLExecutionError):
    """A hook that must not be repeated was started before and never proved its success."""

    code = "hook_outcome_unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookResult:
    """`status` is succeeded, already_succeeded or verified_receipt; evidence shows the hash, never the text."""

    hook: HookDefinition
    status: str

    def as_json(self) -> dict[str, object]:
        return hook_json(self.hook, self.status)


def hook_json(hook: HookDefinition, status: str, error_code: str | None = None) -> dict[str, object]:
    return {
        "id": hook.id,
        "phase": hook.phase.value,
        "kind": hook.kind.value,
        "type": "sql",
        "status": status,
        "lineage": {"inputs": list(hook.lineage.inputs), "outputs": list(hook.lineage.outputs)},
        "result": {"sql_hash": hook.sql_hash},
        "error_message": error_code,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRunner:
    """`receipts` is None when every hook runs inline; else the verified receipts of separate hooks by hook id."""

    source: SourcePorts
    sink: SinkPorts
    record: LoadRecord
    audit: AuditTrail | None
    cancellation: Cancellation
    position: LoadPosition
    token_values: Mapping[str, str]
    receipts: Mapping[str, StepReceipt] | None

    def run(self, hooks: tuple[HookDefinition, ...]) -> tuple[HookResult, ...]:
        """Runs in the given order and stops at the first failure, raising HookFailedError."""
        return tuple(self._run_one(hook) for hook in hooks)

    def _run_one(self, hook: HookDefinition) -> HookResult:
        self.cancellation.checkpoint()
        if self.receipts is not None and hook.airflow is AirflowExecution.SEPARATE_TASK:
            return self._taken_from_receipt(hook, self.receipts)
        previous = self._previous_status(hook)
        if previous is StepOutcome.SUCCEEDED:
            self._note(hook, "already_succeeded")
            return HookResult(hook=hook, status="already_succeeded")
        if previous is not None and hook.retry_policy is HookRetryPolicy.NONE:
            self.position.unproven_hook = True
            raise HookOutcomeUnknownError(
                f"{hook.phase} '{hook.id}' was started in this run before and never proved success; not repeated",
                fix="verify what it did, then start a new run id",
            )
        self.position.unproven_hook = hook.retry_policy is HookRetryPolicy.NONE
        announced = {"sql_hash": hook.sql_hash, "retry_policy": hook.retry_policy.value}
        with self.record.step(hook.id, hook.phase.value, hook.kind.value, announced=announced) as step:
            try:
                step.details["statements"] = self._statements(hook).execute(
                    StatementScript(sql=hook.sql, autocommit=hook.autocommit, token_values=self.token_values)
                )
            except ETLExecutionError as error:
                raise HookFailedError(hook, error.code) from error
        self.position.unproven_hook = False
        return HookResult(hook=hook, status="succeeded")

    def _taken_from_receipt(self, hook: HookDefinition, receipts: Mapping[str, StepReceipt]) -> HookResult:
        receipt = receipts[hook.id]
        self._note(hook, "verified_receipt", {"receipt_digest": receipt.digest})
        return HookResult(hook=hook, status="verified_receipt")

    def _note(self, hook: HookDefinition, how: str, more: Mapping[str, object] | None = None) -> None:
        details: dict[str, object] = {"sql_hash": hook.sql_hash, "evidence": how, **(more or {})}
        self.record.note(hook.id, hook.phase.value, hook.kind.value, StepOutcome.SUCCEEDED, details)

    def _statements(self, hook: HookDefinition) -> StatementPort:
        ports = self.source.statements if hook.connector is HookConnector.SOURCE else self.sink.statements
        if ports is None:
            raise HookFailedError(hook, "connector_has_no_statements")
        return ports

    def _previous_status(self, hook: HookDefinition) -> StepOutcome | None:
        """The best status this hook reached in this run id with this very SQL; None when it never started."""
        if self.audit is None:
            return None
        reached = [
            StepOutcome(str(row["status"]))
            for row in self.audit.steps_of_run(self.record.identity.run_id)
            if row["step_id"] == hook.id
            and row["phase"] == hook.phase.value
            and _details_of(row).get("sql_hash") == hook.sql_hash
        ]
        return StepOutcome.SUCCEEDED if StepOutcome.SUCCEEDED in reached else reached[-1] if reached else None


def _details_of(row: ControlRow) -> Mapping[str, object]:
    details = json.loads(str(row["details_json"] or "{}"))
    return details if isinstance(details, dict) else {}


def separate_hooks(hooks: tuple[HookDefinition, ...]) -> tuple[HookDefinition, ...]:
    return tuple(hook for hook in hooks if hook.airflow is AirflowExecution.SEPARATE_TASK)


def phase_of(hook_id: str, phase: HookPhase) -> str:
    """Step id of a hook that has a task of its own: `pre_hook_refresh_mart`."""
    return f"{phase.value}_{hook_id}"
