"""`run`: the processes of one manifest, one after the other, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from dpone_core.errors import DponeError, ETLConfigurationError
from dpone_core.evidence.outcome import RunFacts, RunReport, RunSetReport, build_refusal_report
from dpone_core.invocation import RunArguments, RunInvocation
from dpone_core.manifest.resolve import Manifest, display_name
from dpone_core.model.vocabulary import StepKind
from dpone_core.use_cases.call import Call, RunProcessPorts, require_one_process
from dpone_core.use_cases.fan_out import require_fan_out, require_plan_fingerprint, require_shared_sink
from dpone_core.use_cases.prepare import PreparedProcess
from dpone_core.use_cases.process_run import ProcessRun, RetryPolicy, RunOutcome
from dpone_core.use_cases.verify import PackReference

__all__ = ["PreparedRun", "RetryPolicy", "RunExecution", "RunOptions", "RunOutcome", "execute_run", "prepare_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Everything a run may be told besides the manifest. None falls back to the environment.

    `partitions`: `inline` reads what it loads; `staged` publishes what other processes staged under the transfer plan
    of `arguments`, and reads no rows. `once`: a process whose run id has succeeded already, under the same plan and
    policy, is not run again; its published report is told.
    """

    selector: str | None = None
    arguments: RunArguments = field(default_factory=RunArguments)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    separate_hooks: str = "inline"
    keep_going: bool = False
    pack: PackReference | None = None
    single_process: bool = False
    partitions: str = "inline"
    once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExecution:
    """What one `run` did. `refusal` is set when nothing executed; `outcomes` stand in authored order.

    `invocation` is None where the refusal is about the identity itself.
    """

    report: RunReport | RunSetReport
    outcomes: tuple[RunOutcome, ...]
    invocation: RunInvocation | None
    refusal: DponeError | None
    kind: Literal[StepKind.LOAD] = StepKind.LOAD

    @property
    def error(self) -> BaseException | None:
        if self.refusal is not None:
            return self.refusal
        return next((outcome.error for outcome in self.outcomes if outcome.error is not None), None)


def execute_run(
    path: Path,
    options: RunOptions,
    *,
    env: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> RunExecution:
    """The one way a manifest runs. Never raises DponeError: a refusal is in the result and created nothing."""
    invocation: RunInvocation | None = None
    try:
        call = Call.of(options.arguments, env, project_dir, ports)
        invocation = call.invocation
        if options.once and invocation.generated_run_id:
            raise ETLConfigurationError(
                "a run is told from others by its run id, and none was given",
                code="DPONE_ONCE_NEEDS_RUN_ID",
                fix="pass --run-id with --once",
            )
        prepared = prepare_run(call, call.read_manifest(path), options)
    except DponeError as error:
        return _refuse(path, options, invocation, error)
    return prepared.run()


def prepare_run(call: Call, manifest: Manifest, options: RunOptions) -> PreparedRun:
    """Refuses whatever can be refused, for all processes, before the first one runs. Raises ETLConfigurationError."""
    configs = manifest.select(options.selector)
    if options.partitions != "inline":
        require_one_process(manifest, options.selector)
    if options.single_process and len(configs) > 1:
        raise ETLConfigurationError(
            f"the manifest has {len(configs)} processes and a receipt is of one",
            code="DPONE_RECEIPT_NEEDS_ONE_PROCESS",
            fix="pass --selector",
        )
    processes = call.prepare(manifest, configs, pack=options.pack, separate_hooks=options.separate_hooks)
    if options.partitions != "inline":
        processes = tuple(_take_staged_ranges(process, options, call.invocation) for process in processes)
    call.require_evidence(process.planned.config for process in processes)
    return PreparedRun(call=call, options=options, processes=processes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """The processes of one run, in authored order; none of them can be refused any more."""

    call: Call
    options: RunOptions
    processes: tuple[PreparedProcess, ...]

    def run(self) -> RunExecution:
        """Runs the processes up to an interruption, or to the first failure unless told to keep going."""
        outcomes: list[RunOutcome] = []
        for process in self.process_runs():
            outcome = process.run()
            outcomes.append(outcome)
            interrupted = outcome.error is not None and not isinstance(outcome.error, Exception)
            if interrupted or (not outcome.report.passed and not self.options.keep_going):
                break
        reports = tuple(outcome.report for outcome in outcomes)
        return RunExecution(
            report=reports[0] if len(self.processes) == 1 else RunSetReport(runs=reports),
            outcomes=tuple(outcomes),
            invocation=self.call.invocation,
            refusal=None,
        )

    def process_runs(self) -> tuple[ProcessRun, ...]:
        runtime = self.call.make_runtime()
        return tuple(
            ProcessRun(
                prepared=process,
                invocation=self.call.invocation,
                runtime=runtime,
                retry=self.options.retry,
                redactor=self.call.ports.redactor,
                selector=self.options.selector,
                once=self.options.once,
            )
            for process in self.processes
        )


def _take_staged_ranges(prepared: PreparedProcess, options: RunOptions, invocation: RunInvocation) -> PreparedProcess:
    """The process publishes what is staged under the plan it was told of, and reads no rows."""
    require_fan_out(prepared.planned, options.separate_hooks)
    require_shared_sink(prepared)
    return replace(prepared, transfer_plan=require_plan_fingerprint(invocation))


def _refuse(path: Path, options: RunOptions, invocation: RunInvocation | None, error: DponeError) -> RunExecution:
    facts = RunFacts(
        manifest=display_name(path),
        process="",
        selector=options.selector,
        run_id=invocation.run_id if invocation is not None else options.arguments.run_id or "",
        max_attempts=options.retry.retry_attempts + 1,
        retry_backoff_seconds=options.retry.backoff_seconds,
    )
    return RunExecution(report=build_refusal_report(facts, error), outcomes=(), invocation=invocation, refusal=error)
