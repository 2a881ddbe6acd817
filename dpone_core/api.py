"""The Python API. The CLI parses arguments, calls these functions and renders what they return: one path for both.

`run` returns the report the CLI prints and raises the load's own error when it did not succeed; exit codes are the
CLI's business (S3 "Python API"). Environment values are read once per call, from `environment` or os.environ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpone_core.api_transfers import TransferOptions, load_partition, plan_transfer
from dpone_core.errors import DponeError, ETLConfigurationError
from dpone_core.evidence.outcome import RunFacts, RunReport, RunSetReport, build_refusal_report
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunArguments, RunInvocation
from dpone_core.loading.hooks import hook_json
from dpone_core.manifest.check import CheckReport
from dpone_core.manifest.resolve import Manifest, display_name
from dpone_core.model.hook import HookDefinition
from dpone_core.model.vocabulary import HookPhase
from dpone_core.use_cases import check as checking
from dpone_core.use_cases.bundles import PackReference, agreed_pack
from dpone_core.use_cases.call import Call, RunProcessPorts, only_process, prepared_processes
from dpone_core.use_cases.fan_out import require_fan_out, require_shared_sink, required_plan
from dpone_core.use_cases.hooks import HookRun, HooksReport, chosen_hooks, require_hook_connections
from dpone_core.use_cases.operations import Operation
from dpone_core.use_cases.planned import plan_process
from dpone_core.use_cases.preparation import PreparedProcess, require_tokens
from dpone_core.use_cases.project import environment_snapshot, evidence_root, project_root
from dpone_core.use_cases.report import FoundEvidence, evidence_at, newest_evidence
from dpone_core.use_cases.run import RetryPolicy, RunOutcome, run_process

__all__ = [
    "HookOptions",
    "HooksExecution",
    "OperatorOptions",
    "RunExecution",
    "RunOptions",
    "RunProcessPorts",
    "TransferOptions",
    "check",
    "execute_hooks",
    "execute_run",
    "find_evidence",
    "load_partition",
    "operation_of",
    "plan",
    "plan_transfer",
    "prepare_run",
    "run",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Everything a run may be told besides the manifest. None falls back to the environment (Facts 7.2).

    `partitions`: `inline` reads what it loads; `staged` publishes what other processes staged under the transfer plan
    of `arguments`, and reads no rows.
    """

    selector: str | None = None
    arguments: RunArguments = field(default_factory=RunArguments)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    separate_hooks: str = "inline"
    keep_going: bool = False
    pack: PackReference | None = None
    single_process: bool = False
    partitions: str = "inline"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExecution:
    """What one `run` did. `refusal` is set when nothing executed; `outcomes` stand in authored order."""

    report: RunReport | RunSetReport
    outcomes: tuple[RunOutcome, ...]
    invocation: RunInvocation | None
    refusal: DponeError | None

    @property
    def error(self) -> BaseException | None:
        if self.refusal is not None:
            return self.refusal
        return next((outcome.error for outcome in self.outcomes if outcome.error is not None), None)


def check(
    path: str | Path, *, project_dir: str | Path | None = None, environment: Mapping[str, str] | None = None
) -> CheckReport:
    """Every finding about one manifest, with positions; never raises for what a manifest may hold.

    Includes what planning would refuse: a route, a side or a finaliser that the connectors do not declare.
    """
    return checking.check(Path(path), project_root(project_dir, environment_snapshot(environment)))


def plan(
    path: str | Path,
    *,
    selector: str | None = None,
    project_dir: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[dict[str, object]]:
    """One plan per process, without any connection. Raises ETLConfigurationError."""
    return checking.plan(Path(path), selector, project_root(project_dir, environment_snapshot(environment)))


def run(
    path: str | Path,
    *,
    selector: str | None = None,
    run_id: str | None = None,
    dag_id: str | None = None,
    execution_date: str | None = None,
    interval_start: str | None = None,
    interval_end: str | None = None,
    retry_attempts: int = 0,
    retry_backoff_seconds: float = 0.0,
    separate_hooks: str = "inline",
    keep_going: bool = False,
    partitions: str = "inline",
    transfer_plan: str | None = None,
    project_dir: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> RunReport | RunSetReport:
    """Runs a manifest's processes; returns the CLI's report or raises the first error, whose kind says what happened.

    `retry_attempts` counts attempts beyond the first and applies only where the outcome allows a retry.
    """
    options = RunOptions(
        selector=selector,
        arguments=RunArguments(
            run_id=run_id,
            dag_id=dag_id,
            execution_date=execution_date,
            interval_start=interval_start,
            interval_end=interval_end,
            transfer_plan=transfer_plan,
        ),
        retry=RetryPolicy(retry_attempts=retry_attempts, backoff_seconds=retry_backoff_seconds),
        separate_hooks=separate_hooks,
        keep_going=keep_going,
        partitions=partitions,
    )
    execution = execute_run(Path(path), options, environment=environment, project_dir=project_dir)
    if execution.error is not None:
        raise execution.error
    return execution.report


def execute_run(
    path: Path,
    options: RunOptions,
    *,
    environment: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> RunExecution:
    """The one way a manifest runs. Never raises DponeError: a refusal is in the result and created nothing."""
    invocation: RunInvocation | None = None
    try:
        call = Call.of(options.arguments, environment, project_dir, ports)
        invocation = call.invocation
        prepared = prepare_run(call.manifest(path), options, invocation, call.variables, call.ports.redactor)
    except DponeError as error:
        facts = RunFacts(
            manifest=display_name(path),
            process="",
            selector=options.selector,
            run_id=invocation.run_id if invocation is not None else options.arguments.run_id or "",
            max_attempts=options.retry.retry_attempts + 1,
            retry_backoff_seconds=options.retry.backoff_seconds,
        )
        return RunExecution(
            report=build_refusal_report(facts, error), outcomes=(), invocation=invocation, refusal=error
        )
    runtime = call.runtime()
    outcomes: list[RunOutcome] = []
    for process in prepared:
        outcome = run_process(process, invocation, runtime, options.retry, call.ports.redactor, options.selector)
        outcomes.append(outcome)
        interrupted = outcome.error is not None and not isinstance(outcome.error, Exception)
        if interrupted or (not outcome.report.passed and not options.keep_going):
            break
    reports = tuple(outcome.report for outcome in outcomes)
    report = reports[0] if len(prepared) == 1 else RunSetReport(runs=reports)
    return RunExecution(report=report, outcomes=tuple(outcomes), invocation=invocation, refusal=None)


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
class HooksExecution:
    """`sql_hash` is that of the only hook executed, None for several; `error` may be an interruption."""

    report: HooksReport
    invocation: RunInvocation
    policy_snapshot_id: str
    sql_hash: str | None
    error: BaseException | None


def execute_hooks(
    path: Path,
    options: HookOptions,
    *,
    environment: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> HooksExecution:
    """Runs hooks outside a load. Raises ETLConfigurationError for a refusal; a failed hook is in the result."""
    call = Call.of(options.arguments, environment, project_dir, ports)
    manifest = call.manifest(path)
    config = only_process(manifest, options.selector)
    if options.pack is not None:
        agreed_pack(options.pack, manifest)
    planned = plan_process(config)
    hooks = chosen_hooks(planned, options.phase, options.hook_id)
    run = HookRun(
        planned=planned,
        hooks=hooks,
        resolver=call.resolver(manifest),
        invocation=call.invocation,
        runtime=call.runtime(),
    )
    steps: list[dict[str, object]] = [hook_json(hook, "planned") for hook in hooks]
    error: BaseException | None = None
    if not options.dry_run:
        require_hook_connections(run)
        require_tokens(planned.config, call.invocation.token_values)
        steps, error = run.execute()
    return HooksExecution(
        report=HooksReport(
            manifest=manifest.name,
            process=planned.plan.process,
            selector=options.selector,
            phase=options.phase,
            hook_id=options.hook_id,
            status="planned" if options.dry_run else "succeeded" if error is None else "failed",
            steps=tuple(steps),
            retry=run.retry_after(steps, error),
        ),
        invocation=call.invocation,
        policy_snapshot_id=planned.snapshot.policy_snapshot_id,
        sql_hash=_only_hash(hooks),
        error=error,
    )


def _only_hash(hooks: tuple[HookDefinition, ...]) -> str | None:
    return hooks[0].sql_hash if len(hooks) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """Which process an operator works on; identity as for a run."""

    selector: str | None = None
    arguments: RunArguments = field(default_factory=RunArguments)


def operation_of(
    path: Path,
    options: OperatorOptions,
    *,
    environment: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> Operation:
    """What `state` and `cleanup` work with. Raises ETLConfigurationError; opens nothing."""
    call = Call.of(options.arguments, environment, project_dir, ports)
    manifest = call.manifest(path)
    return Operation(
        planned=plan_process(only_process(manifest, options.selector)),
        resolver=call.resolver(manifest),
        invocation=call.invocation,
        runtime=call.runtime(),
        evidence_root=evidence_root(call.variables),
    )


def find_evidence(
    *,
    process: str | None,
    run_id: str | None,
    run: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> FoundEvidence:
    """The newest published run of a process or of one run id, or the one at `run`. Raises DPONE_EVIDENCE_NOT_FOUND."""
    root = evidence_root(environment_snapshot(environment))
    return newest_evidence(root, process, run_id) if run is None else evidence_at(root, run)


def prepare_run(
    manifest: Manifest,
    options: RunOptions,
    invocation: RunInvocation,
    variables: Mapping[str, str],
    redactor: Redactor,
) -> list[PreparedProcess]:
    """Refuses whatever can be refused, for all processes, before the first one runs."""
    configs = manifest.select(options.selector)
    if options.partitions != "inline":
        only_process(manifest, options.selector)
    if options.single_process and len(configs) > 1:
        raise ETLConfigurationError(
            f"the manifest has {len(configs)} processes and a receipt is of one",
            code="DPONE_RECEIPT_NEEDS_ONE_PROCESS",
            fix="pass --selector",
        )
    prepared = prepared_processes(
        manifest, configs, options.pack, options.separate_hooks, invocation, variables, redactor
    )
    if options.partitions == "inline":
        return prepared
    return [_publishing(process, options, invocation) for process in prepared]


def _publishing(prepared: PreparedProcess, options: RunOptions, invocation: RunInvocation) -> PreparedProcess:
    require_fan_out(prepared.planned, options.separate_hooks)
    require_shared_sink(prepared)
    return replace(prepared, transfer_plan=required_plan(invocation))
