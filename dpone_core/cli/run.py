"""`dpone run PATH`"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from dpone_core.cli.console import log_level, log_to
from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.parser import UsageError
from dpone_core.cli.progress import progress_on
from dpone_core.cli.run_text import run_text
from dpone_core.cli.step import given_run_id, read_pack_reference, read_run_arguments
from dpone_core.evidence.markdown import run_markdown
from dpone_core.evidence.outcome import RunSetReport
from dpone_core.model.load_plan import LoadPlan
from dpone_core.use_cases.call import RunProcessPorts
from dpone_core.use_cases.project import display_evidence_path
from dpone_core.use_cases.run import RetryPolicy, RunExecution, RunOptions, execute_run


def run(context: CommandContext) -> int:
    """Runs a manifest; the exit code says what became of it."""
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    with progress_on(sys.stderr, arguments.progress, os.environ) as (progress, log_stream):
        log_to(log_stream, context.redactor, log_level(os.environ), given_run_id(arguments))
        execution = context.execution = execute_run(
            Path(arguments.manifest),
            _read_options(arguments),
            project_dir=arguments.project_dir,
            ports=RunProcessPorts(progress=progress, cancellation=context.cancellation, redactor=context.redactor),
        )
    _render(context, execution)
    return execution.report.exit_code


def _read_options(arguments: argparse.Namespace) -> RunOptions:
    if arguments.retry_attempts < 0 or arguments.retry_backoff_seconds < 0:
        raise UsageError("--retry-attempts and --retry-backoff-seconds cannot be negative")
    if arguments.transfer_plan is not None and arguments.partitions == "inline":
        raise UsageError("--transfer-plan belongs to --partitions staged")
    return RunOptions(
        selector=arguments.selector,
        arguments=read_run_arguments(arguments),
        retry=RetryPolicy(retry_attempts=arguments.retry_attempts, backoff_seconds=arguments.retry_backoff_seconds),
        separate_hooks=arguments.separate_hooks,
        keep_going=arguments.keep_going,
        pack=read_pack_reference(arguments),
        single_process=arguments.receipt_path is not None,
        partitions=arguments.partitions,
        once=arguments.once,
    )


def _render(context: CommandContext, execution: RunExecution) -> None:
    report = execution.report
    if context.arguments.format == "json":
        context.console.document(report.as_json())
        return
    reports = report.runs if isinstance(report, RunSetReport) else (report,)
    plans: list[LoadPlan | None] = [outcome.prepared.planned.plan for outcome in execution.outcomes]
    plans = plans or [None] * len(reports)
    if context.arguments.format == "md":
        context.console.result("\n".join(run_markdown(run, plan) for run, plan in zip(reports, plans, strict=True)))
        return
    evidence = [outcome.evidence.path if outcome.evidence else None for outcome in execution.outcomes]
    for index, run in enumerate(reports):
        found = evidence[index] if index < len(evidence) else None
        context.console.result(run_text(run, plans[index], display_evidence_path(os.environ, found) if found else None))
