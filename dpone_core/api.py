"""The Python API. The CLI parses arguments, calls these functions and renders what they return: one path for both.

`run` returns the report the CLI prints and raises the load's own error when it did not succeed; exit codes are the
CLI's business (S3 "Python API"). Environment values are read once per call, from `environment` or os.environ.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpone_core.contracts.step_receipt import StepReceipt
from dpone_core.errors import DponeError, ETLConfigurationError
from dpone_core.evidence.outcome import RunFacts, RunReport, RunSetReport, refused
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunArguments, RunInvocation, resolve_invocation
from dpone_core.loading.context import LoadEnvironment
from dpone_core.loading.hooks import hook_json
from dpone_core.manifest.check import CheckReport
from dpone_core.manifest.resolve import Manifest, display_name, load_manifest
from dpone_core.model.hook import HookDefinition
from dpone_core.model.load_config import LoadConfig
from dpone_core.model.vocabulary import HookPhase
from dpone_core.ports.cancellation import Cancellation
from dpone_core.ports.progress import Progress
from dpone_core.state.evidence_files import LocalEvidenceFiles
from dpone_core.wiring import checking
from dpone_core.wiring.bundles import PackReference, agreed_pack
from dpone_core.wiring.connections import ConnectionResolver
from dpone_core.wiring.evidence_lookup import FoundEvidence, evidence_at, newest_evidence
from dpone_core.wiring.fan_out import (
    FanOutProcess,
    TransferExecution,
    range_item,
    require_fan_out,
    require_shared_sink,
    required_plan,
)
from dpone_core.wiring.hook_runs import HookRun, HooksReport, chosen_hooks, require_hook_connections
from dpone_core.wiring.operations import Operation
from dpone_core.wiring.planned import PlannedProcess, plan_process
from dpone_core.wiring.preparation import (
    PreparedProcess,
    prepare_process,
    require_tokens,
    verified_hook_receipts,
)
from dpone_core.wiring.process import NoCancellation, SilentProgress, SystemClock
from dpone_core.wiring.project import environment_snapshot, evidence_root, located, project_root
from dpone_core.wiring.runs import RetryPolicy, RunOutcome, run_process


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
class RunProcessPorts:
    """How this process reports progress and is interrupted; the CLI passes its own."""

    progress: Progress = field(default_factory=SilentProgress)
    cancellation: Cancellation = field(default_factory=NoCancellation)
    redactor: Redactor = field(default_factory=Redactor)


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
    variables = environment_snapshot(environment)
    ports = ports or RunProcessPorts()
    invocation: RunInvocation | None = None
    try:
        invocation = resolve_invocation(options.arguments, variables, f"manual-{uuid.uuid4().hex}")
        root = project_root(project_dir, variables)
        manifest = load_manifest(located(path, root), project_root=root)
        prepared = prepare_run(manifest, options, invocation, variables, ports.redactor)
    except DponeError as error:
        facts = RunFacts(
            manifest=display_name(path),
            process="",
            selector=options.selector,
            run_id=invocation.run_id if invocation is not None else options.arguments.run_id or "",
            max_attempts=options.retry.retry_attempts + 1,
            retry_backoff_seconds=options.retry.backoff_seconds,
        )
        return RunExecution(report=refused(facts, error), outcomes=(), invocation=invocation, refusal=error)
    surroundings = _surroundings(ports, variables)
    outcomes: list[RunOutcome] = []
    for process in prepared:
        outcome = run_process(process, invocation, surroundings, options.retry, ports.redactor, options.selector)
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
    variables = environment_snapshot(environment)
    ports = ports or RunProcessPorts()
    invocation = resolve_invocation(options.arguments, variables, f"manual-{uuid.uuid4().hex}")
    root = project_root(project_dir, variables)
    manifest = load_manifest(located(path, root), project_root=root)
    config = only_process(manifest, options.selector)
    if options.pack is not None:
        agreed_pack(options.pack, manifest)
    planned = plan_process(config)
    hooks = chosen_hooks(planned, options.phase, options.hook_id)
    run = HookRun(
        planned=planned,
        hooks=hooks,
        resolver=_resolver(manifest, variables, ports.redactor),
        invocation=invocation,
        environment=_surroundings(ports, variables),
    )
    steps: list[dict[str, object]] = [hook_json(hook, "planned") for hook in hooks]
    error: BaseException | None = None
    if not options.dry_run:
        require_hook_connections(run)
        require_tokens(planned.config, invocation.token_values)
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
        invocation=invocation,
        policy_snapshot_id=planned.snapshot.policy_snapshot_id,
        sql_hash=_only_hash(hooks),
        error=error,
    )


def _only_hash(hooks: tuple[HookDefinition, ...]) -> str | None:
    return hooks[0].sql_hash if len(hooks) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOptions:
    """One process whose key ranges are planned, staged and loaded by processes of their own; identity as for a run."""

    selector: str | None = None
    arguments: RunArguments = field(default_factory=RunArguments)
    separate_hooks: str = "inline"
    pack: PackReference | None = None


def plan_transfer(
    path: Path,
    options: TransferOptions,
    *,
    environment: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> TransferExecution:
    """Plans the key ranges of one run id, or finds the plan that stands. Reads no rows, mutates no target.

    Raises ETLConfigurationError for a refusal; what fails after sessions were opened is in the result.
    """
    return _fan_out_process(path, options, environment, project_dir, ports, verifies_hooks=True).plan()


def load_partition(
    path: Path,
    options: TransferOptions,
    *,
    partition: int | None = None,
    environment: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> TransferExecution:
    """Stages one range of a stored plan, unless it is staged or committed already. Mutates no target.

    `partition` and the transfer plan of `options.arguments`, or DPONE_AIRFLOW_MAPPING_ITEM, say which. Raises
    ETLConfigurationError for a refusal; what fails after sessions were opened is in the result.
    """
    process = _fan_out_process(path, options, environment, project_dir, ports, verifies_hooks=False)
    return process.load(range_item(process.invocation, partition))


def _fan_out_process(
    path: Path,
    options: TransferOptions,
    environment: Mapping[str, str] | None,
    project_dir: str | Path | None,
    ports: RunProcessPorts | None,
    *,
    verifies_hooks: bool,
) -> FanOutProcess:
    """Who stages a range leaves the hooks to the plan it works on."""
    variables = environment_snapshot(environment)
    ports = ports or RunProcessPorts()
    invocation = resolve_invocation(options.arguments, variables, f"manual-{uuid.uuid4().hex}")
    root = project_root(project_dir, variables)
    manifest = load_manifest(located(path, root), project_root=root)
    planned = plan_process(only_process(manifest, options.selector))
    fingerprint = None if options.pack is None else agreed_pack(options.pack, manifest).pack_fingerprint
    receipts: Mapping[str, StepReceipt] | None = {}
    if verifies_hooks:
        receipts = _hook_receipts(planned, options.separate_hooks, invocation, fingerprint, variables)
    require_fan_out(planned, options.separate_hooks if verifies_hooks else "receipts")
    resolver = _resolver(manifest, variables, ports.redactor)
    prepared = prepare_process(planned, resolver, receipts, invocation, evidence_root(variables))
    require_shared_sink(prepared)
    return FanOutProcess(prepared=prepared, invocation=invocation, environment=_surroundings(ports, variables))


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
    variables = environment_snapshot(environment)
    ports = ports or RunProcessPorts()
    invocation = resolve_invocation(options.arguments, variables, f"manual-{uuid.uuid4().hex}")
    root = project_root(project_dir, variables)
    manifest = load_manifest(located(path, root), project_root=root)
    return Operation(
        planned=plan_process(only_process(manifest, options.selector)),
        resolver=_resolver(manifest, variables, ports.redactor),
        invocation=invocation,
        environment=_surroundings(ports, variables),
        evidence_root=evidence_root(variables),
    )


def only_process(manifest: Manifest, selector: str | None) -> LoadConfig:
    """Raises ETLConfigurationError DPONE_SELECTOR_REQUIRED when there are several."""
    configs = manifest.select(selector)
    if len(configs) > 1:
        raise ETLConfigurationError(
            "the manifest has several processes", code="DPONE_SELECTOR_REQUIRED", fix="pass --selector"
        )
    return configs[0]


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
    fingerprint = None
    if options.pack is not None:
        fingerprint = agreed_pack(options.pack, manifest).pack_fingerprint
    planned = [plan_process(config) for config in configs]
    resolver = _resolver(manifest, variables, redactor)
    prepared = [
        prepare_process(
            process,
            resolver,
            _hook_receipts(process, options.separate_hooks, invocation, fingerprint, variables),
            invocation,
            evidence_root(variables),
        )
        for process in planned
    ]
    if options.partitions == "inline":
        return prepared
    return [_publishing(process, options, invocation) for process in prepared]


def _publishing(prepared: PreparedProcess, options: RunOptions, invocation: RunInvocation) -> PreparedProcess:
    require_fan_out(prepared.planned, options.separate_hooks)
    require_shared_sink(prepared)
    return replace(prepared, transfer_plan=required_plan(invocation))


def _hook_receipts(
    process: PlannedProcess,
    separate_hooks: str,
    invocation: RunInvocation,
    pack_fingerprint: str | None,
    variables: Mapping[str, str],
) -> Mapping[str, StepReceipt] | None:
    if separate_hooks == "inline":
        return None
    return verified_hook_receipts(process, invocation, pack_fingerprint, variables)


def _resolver(manifest: Manifest, variables: Mapping[str, str], redactor: Redactor) -> ConnectionResolver:
    return ConnectionResolver(
        environment=variables,
        project_root=manifest.project_root,
        manifest_directory=manifest.directory,
        redactor=redactor,
    )


def _surroundings(ports: RunProcessPorts, variables: Mapping[str, str]) -> LoadEnvironment:
    return LoadEnvironment(
        clock=SystemClock(),
        progress=ports.progress,
        cancellation=ports.cancellation,
        evidence=LocalEvidenceFiles(root=evidence_root(variables)),
    )
