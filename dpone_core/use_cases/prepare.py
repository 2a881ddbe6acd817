"""From a planned process to one that may run: connections, drivers, interval tokens, receipts of separate hooks.

Whatever can be refused without a connection is refused here, before anything executes (exit 2).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dpone_core.contracts.receipt_verification import ReceiptExpectation, examine
from dpone_core.contracts.step_receipt import StepReceipt
from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.public_words import texts_in
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import InvocationInvalidError, RunInvocation
from dpone_core.loading.hooks import hook_step_id, separate_hooks
from dpone_core.loading.typed_rows import hash_modes
from dpone_core.model.column_rules import StatementRule
from dpone_core.model.connection import Connection
from dpone_core.model.hook import HookDefinition
from dpone_core.model.identity import LoadIdentity, load_id_from
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.sql import STAGED_TOKEN, SqlText
from dpone_core.model.vocabulary import LoadPath, StepKind
from dpone_core.planning.column_rules import needs_interval
from dpone_core.planning.presentation import plan_json
from dpone_core.ports.runtime import Clock
from dpone_core.quality.policy import QualityGatePolicy
from dpone_core.use_cases.plan import PlannedProcess
from dpone_core.version import __version__
from dpone_core.wiring.connections import ConnectionResolver
from dpone_core.wiring.connectors import (
    require_address,
    require_duckdb,
    require_extra,
    require_one_engine,
    require_sink_lock,
    require_source_lock,
    require_uri,
)
from dpone_core.wiring.hook_providers import resolve_hook_connections
from dpone_core.wiring.sessions import SessionOpener

DEFAULT_LOCK_TIMEOUT_SECONDS: Final = 60.0
STEP_RECEIPTS_ENV: Final = "DPONE_STEP_RECEIPTS"
_MAX_RECEIPTS_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedProcess:
    """A process that nothing but its databases can refuse any more.

    `transfer_plan`: what other processes staged under this plan is published and nothing is read; None = no such plan.
    """

    planned: PlannedProcess
    source: Connection
    sink: Connection
    redactor: Redactor
    hook_receipts: Mapping[str, StepReceipt] | None
    hook_connections: Mapping[str, Connection] = field(default_factory=dict, repr=False)
    evidence_root: Path = Path(".dpone")
    transfer_plan: str | None = None

    def session_opener(self) -> SessionOpener:
        """Returns what opens the sessions of one attempt over the prepared connections."""
        return SessionOpener(
            config=self.planned.config,
            plan=self.planned.plan,
            source=self.source,
            sink=self.sink,
            lock_timeout_seconds=DEFAULT_LOCK_TIMEOUT_SECONDS,
            redactor=self.redactor,
            checkpoint_root=self.evidence_root,
        )


def prepare_process(
    planned: PlannedProcess,
    resolver: ConnectionResolver,
    hook_receipts: Mapping[str, StepReceipt] | None,
    invocation: RunInvocation,
    evidence_root: Path = Path(".dpone"),
) -> PreparedProcess:
    """Resolves connections, checks drivers and interval tokens; opens nothing. Raises ETLConfigurationError."""
    config = planned.config
    _keep_in_clear(planned, resolver.redactor)
    source, sink = resolver.source_of(config), resolver.sink_of(config)
    for connector, connection in ((config.source.type, source), (config.sink.type, sink)):
        require_uri(connector, connection)
        require_extra(connector, connection)
        require_address(connector, connection)
    require_one_engine((config.source.type, source), (config.sink.type, sink))
    if hash_modes(planned.snapshot.gates):
        require_duckdb("a typed_hash_reconciliation gate")
    if planned.plan.load_path is LoadPath.LEGACY and any(gate.rule for gate in planned.snapshot.gates.gates):
        require_duckdb("a gate about columns of files")
    require_tokens(config, invocation.token_values)
    require_values(_statements(planned.snapshot.gates), invocation.token_values)
    require_interval(planned.snapshot.gates, invocation.token_values)
    planned_hooks = (*planned.plan.pre_hooks, *planned.plan.post_hooks)
    require_locks(config, _inline_hooks(planned_hooks, hook_receipts), source, sink)
    return PreparedProcess(
        planned=planned,
        source=source,
        sink=sink,
        redactor=resolver.redactor,
        hook_receipts=hook_receipts,
        hook_connections=resolve_hook_connections(_inline_hooks(config.hooks, hook_receipts), resolver, config),
        evidence_root=evidence_root,
    )


def _keep_in_clear(planned: PlannedProcess, redactor: Redactor) -> None:
    """What a plan states is public: names, types, strategies and the reasons of its decisions."""
    redactor.keep(texts_in(plan_json(planned.plan, planned.snapshot)))
    redactor.keep(texts_in([decision.as_json() for decision in planned.plan.decisions]))


def _inline_hooks(
    hooks: tuple[HookDefinition, ...], hook_receipts: Mapping[str, StepReceipt] | None
) -> tuple[HookDefinition, ...]:
    """Hooks that this process runs: those with a task of their own use connections it does not have."""
    separate = () if hook_receipts is None else separate_hooks(hooks)
    return tuple(hook for hook in hooks if hook not in separate)


def require_locks(
    config: LoadConfig, hooks: Iterable[HookDefinition], source: Connection | None, sink: Connection | None
) -> None:
    """Asks for the locks of embedded engines that the hooks and the given sides will take. Raises EngineLockError."""
    if source is not None:
        require_source_lock(config.source.type, source, is_written=any(hook.writes_source for hook in hooks))
    if sink is not None:
        require_sink_lock(sink)


def require_tokens(config: LoadConfig, values: Mapping[str, str]) -> None:
    """Raises InvocationInvalidError for a token of the SQL whose value this run does not have."""
    require_values((*(hook.sql for hook in config.hooks), config.source.query), values)


def require_values(texts: Iterable[SqlText | None], values: Mapping[str, str]) -> None:
    """Raises InvocationInvalidError for a token of the texts whose value this run does not have."""
    used = {token for text in texts if text is not None for token in text.tokens}
    missing = sorted(used - {STAGED_TOKEN, *values})
    if missing:
        raise InvocationInvalidError(
            f"the SQL uses {{{{ {missing[0]} }}}} and this run has no value for it",
            code="DPONE_INTERVAL_VALUE_MISSING",
            fix="pass --interval-start and --interval-end (or --execution-date), or set DPONE_INTERVAL_START and _END",
        )


def _statements(gates: QualityGatePolicy) -> Iterator[SqlText]:
    for gate in gates.gates:
        if isinstance(gate.rule, StatementRule):
            yield gate.rule.sql


def require_interval(gates: QualityGatePolicy, values: Mapping[str, str]) -> None:
    """Raises InvocationInvalidError for a gate that counts from the end of an interval which this run does not have."""
    gate = needs_interval(gates)
    if gate is not None and "data_interval_end" not in values:
        raise InvocationInvalidError(
            f"gate {gate!r} counts from the end of the run's interval, and this run has none",
            code="DPONE_INTERVAL_VALUE_MISSING",
            fix="pass --interval-start and --interval-end, or write reference: now in the gate",
        )


def verify_hook_receipts(
    planned: PlannedProcess, invocation: RunInvocation, pack_fingerprint: str | None, env: Mapping[str, str]
) -> dict[str, StepReceipt]:
    """Returns the receipts of the pre-hooks that have a task of their own, by hook id.

    Raises ETLConfigurationError for a missing, foreign, stale or failed one: the hook is never run inline instead.
    """
    hooks = separate_hooks(planned.plan.pre_hooks)
    documents = _receipt_documents(env)
    found: dict[str, StepReceipt] = {}
    for hook in hooks:
        step_id = hook_step_id(hook.id, hook.phase)
        expectation = ReceiptExpectation(
            dag_id=invocation.dag_id or "",
            dag_run_id=invocation.dag_run_id or "",
            map_index=invocation.map_index,
            run_spec_fingerprint=invocation.run_spec_fingerprint or "",
            pack_fingerprint=pack_fingerprint or "",
            policy_snapshot_id=planned.snapshot.policy_snapshot_id,
            step_id=step_id,
            kind=StepKind.HOOK,
            process=planned.plan.process,
            sql_hash=hook.sql_hash,
            dpone_version=__version__,
        )
        examination = examine(documents.get(step_id), expectation)
        if not examination.is_accepted or examination.receipt is None:
            problem = examination.problems[0]
            raise ETLConfigurationError(
                f"receipt of {step_id}: {problem.message}",
                code=problem.code,
                fix="clear the hook task in Airflow, so that it leaves a receipt of this run",
            )
        found[hook.id] = examination.receipt
    return found


def _receipt_documents(env: Mapping[str, str]) -> Mapping[str, object]:
    text = env.get(STEP_RECEIPTS_ENV, "")
    if not text:
        return {}
    try:
        document = json.loads(text) if len(text) <= _MAX_RECEIPTS_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ETLConfigurationError(
            f"{STEP_RECEIPTS_ENV} is not a JSON object of step receipts", code="DPONE_RECEIPT_INVALID"
        )
    return document


def make_load_identity(invocation: RunInvocation, clock: Clock, attempt: int) -> LoadIdentity:
    """Draws a new load id for one attempt of the run."""
    milliseconds = int(clock.utc_now().timestamp() * 1000)
    return LoadIdentity(
        run_id=invocation.run_id, load_id=load_id_from(milliseconds, clock.entropy(10)), attempt=attempt
    )
