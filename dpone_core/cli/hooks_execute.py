"""`dpone hooks execute PATH --phase PHASE [--hook-id ID]`"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from dpone_core.api import HookOptions, RunProcessPorts, execute_hooks
from dpone_core.cli.console import log_to
from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.output import OutputError, deliver
from dpone_core.cli.run import fingerprint_or_none, pack_reference, run_arguments, step_identity
from dpone_core.errors import DponeError, ETLExecutionError
from dpone_core.evidence.outcome import failure_facts
from dpone_core.model.vocabulary import HookPhase, StepKind
from dpone_core.use_cases.hooks import HooksReport


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    log_to(sys.stderr, context.redactor, os.environ.get("DPONE_LOG_LEVEL", "INFO").upper())
    context.facts.identity = replace(
        context.facts.identity, kind=StepKind.HOOK, pack_fingerprint=fingerprint_or_none(arguments.pack_fingerprint)
    )
    execution = execute_hooks(
        Path(arguments.manifest),
        HookOptions(
            phase=HookPhase(arguments.phase),
            hook_id=arguments.hook_id,
            dry_run=arguments.dry_run,
            selector=arguments.selector,
            arguments=run_arguments(arguments),
            pack=pack_reference(arguments),
        ),
        project_dir=arguments.project_dir,
        ports=RunProcessPorts(cancellation=context.cancellation, redactor=context.redactor),
    )
    report = execution.report
    context.facts.identity = step_identity(
        StepKind.HOOK,
        execution.invocation,
        arguments.pack_fingerprint,
        process=report.process,
        policy_snapshot_id=execution.policy_snapshot_id,
        sql_hash=execution.sql_hash,
    )
    context.facts.retry = report.retry
    undelivered = _write_output(context, report) if arguments.output is not None else None
    if arguments.format == "json":
        context.console.document(report.as_json())
    else:
        for step in report.steps:
            context.console.result(f"{step['status']:17} {step['phase']} {step['id']}")
    if execution.error is not None:
        failure = failure_facts(execution.error)
        context.facts.error_code, context.facts.error_line = failure.code, failure.line
        if arguments.format == "text":
            context.console.failure(execution.error)
        return failure.exit_code
    if undelivered is not None:
        raise undelivered
    return 0


def _write_output(context: CommandContext, report: HooksReport) -> DponeError | None:
    """After hooks ran, a file that cannot be written is a failed execution, not a refusal."""
    content = (json.dumps(context.redactor.value(report.as_json()), indent=2) + "\n").encode()
    try:
        deliver(content, context.arguments.output)
    except OutputError as error:
        return error if context.arguments.dry_run else ETLExecutionError(error.message, code=error.code)
    return None
