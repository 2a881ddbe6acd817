"""`dpone transfer plan|load|show|reconcile`: key ranges in processes of their own, and their repair."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from dpone_core.cli.console import log_level, log_to
from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.operator import read_operation
from dpone_core.cli.output import render_lines
from dpone_core.cli.parser import UsageError
from dpone_core.cli.progress import progress_on
from dpone_core.cli.step import given_run_id, read_pack_reference, read_run_arguments
from dpone_core.evidence.outcome import failure_facts
from dpone_core.use_cases.call import RunProcessPorts
from dpone_core.use_cases.reconcile import Finding, reconcile_transfer, show_transfer
from dpone_core.use_cases.transfer import (
    RefusedStep,
    TransferExecution,
    TransferOptions,
    execute_partition,
    execute_plan,
)


def plan(context: CommandContext) -> int:
    """Plans the key ranges of a run, for processes that stage them."""
    return _execute(context)


def load(context: CommandContext) -> int:
    """Stages one range of a plan."""
    if context.arguments.partition is not None and context.arguments.partition < 0:
        raise UsageError("--partition cannot be negative")
    return _execute(context)


def show(context: CommandContext) -> int:
    """Shows open runs, their ranges, and what the load marker says of a batch."""
    return _render(context, show_transfer(read_operation(context), context.arguments.run_id))


def reconcile(context: CommandContext) -> int:
    """Says what became of a blocked batch; leaves an evidence record."""
    arguments = context.arguments
    document = reconcile_transfer(
        read_operation(context),
        arguments.run_id,
        Finding(arguments.found),
        arguments.reason,
        override_marker=arguments.override_marker,
    )
    return _render(context, document)


def _execute(context: CommandContext) -> int:
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    with progress_on(sys.stderr, arguments.progress, os.environ) as (progress, log_stream):
        log_to(log_stream, context.redactor, log_level(os.environ), given_run_id(arguments))
        ports = RunProcessPorts(progress=progress, cancellation=context.cancellation, redactor=context.redactor)
        execution = context.execution = _execute_step(context, ports)
    if isinstance(execution, RefusedStep):
        raise execution.refusal
    if execution.error is not None:
        context.console.failure(execution.error)
        return failure_facts(execution.error).exit_code
    return _render(context, execution.document or {})


def _execute_step(context: CommandContext, ports: RunProcessPorts) -> TransferExecution | RefusedStep:
    arguments = context.arguments
    options = TransferOptions(
        selector=arguments.selector,
        arguments=read_run_arguments(arguments),
        separate_hooks=getattr(arguments, "separate_hooks", "inline"),
        pack=read_pack_reference(arguments),
    )
    path, project_dir = Path(arguments.manifest), arguments.project_dir
    if arguments.action == "plan":
        return execute_plan(path, options, project_dir=project_dir, ports=ports)
    return execute_partition(path, options, partition=arguments.partition, project_dir=project_dir, ports=ports)


def _render(context: CommandContext, document: Mapping[str, object]) -> int:
    if context.arguments.format == "json":
        context.console.document(document)
    else:
        context.console.result("\n".join(render_lines(document)))
    return 0
