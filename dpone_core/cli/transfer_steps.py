"""`dpone transfer plan|load PATH`: the processes before a load whose key ranges are staged by others."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dpone_core.api import RunProcessPorts, TransferOptions, load_partition, plan_transfer
from dpone_core.cli.console import log_to
from dpone_core.cli.dispatch import CommandContext, UsageError
from dpone_core.cli.output import shown_lines
from dpone_core.cli.progress import progress_on
from dpone_core.cli.run import fingerprint_or_none, pack_reference, run_arguments, step_identity
from dpone_core.contracts.step_receipt import StepCounters
from dpone_core.evidence.outcome import failure_facts
from dpone_core.model.vocabulary import StepKind
from dpone_core.use_cases.fan_out import TransferExecution


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    plans = arguments.operation == "plan"
    kind = StepKind.TRANSFER_PLAN if plans else StepKind.TRANSFER_PARTITION
    context.console.json_only = arguments.format == "json"
    context.facts.identity = replace(
        context.facts.identity, kind=kind, pack_fingerprint=fingerprint_or_none(arguments.pack_fingerprint)
    )
    if not plans and arguments.partition is not None and arguments.partition < 0:
        raise UsageError("--partition cannot be negative")
    with progress_on(sys.stderr, arguments.progress, os.environ) as (progress, log_stream):
        log_to(log_stream, context.redactor, os.environ.get("DPONE_LOG_LEVEL", "INFO").upper())
        ports = RunProcessPorts(progress=progress, cancellation=context.cancellation, redactor=context.redactor)
        execution = _executed(context, ports)
    _learn(context, execution)
    if execution.error is not None:
        context.console.failure(execution.error)
        return failure_facts(execution.error).exit_code
    _render(context, execution.document or {})
    return 0


def _executed(context: CommandContext, ports: RunProcessPorts) -> TransferExecution:
    arguments = context.arguments
    options = TransferOptions(
        selector=arguments.selector,
        arguments=run_arguments(arguments),
        separate_hooks=getattr(arguments, "separate_hooks", "inline"),
        pack=pack_reference(arguments),
    )
    path, project_dir = Path(arguments.manifest), arguments.project_dir
    if arguments.operation == "plan":
        return plan_transfer(path, options, project_dir=project_dir, ports=ports)
    return load_partition(path, options, partition=arguments.partition, project_dir=project_dir, ports=ports)


def _learn(context: CommandContext, execution: TransferExecution) -> None:
    facts = context.facts
    identity = step_identity(
        execution.kind,
        execution.invocation,
        fingerprint_or_none(context.arguments.pack_fingerprint),
        process=execution.process,
        load_id=execution.load_id,
        policy_snapshot_id=execution.policy_snapshot_id,
    )
    facts.identity = replace(identity, transfer_plan=execution.transfer_plan, partitions=execution.partitions)
    facts.counters = StepCounters(extracted_rows=execution.extracted_rows, staged_rows=execution.staged_rows)
    facts.retry = execution.retry
    if execution.error is not None:
        failure = failure_facts(execution.error)
        facts.error_code, facts.error_line = failure.code, failure.line


def _render(context: CommandContext, document: Mapping[str, object]) -> None:
    if context.arguments.format == "json":
        context.console.document(document)
    else:
        context.console.result("\n".join(shown_lines(document)))
