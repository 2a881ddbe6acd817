"""`dpone transfer show|reconcile`: what a native transfer did, and what an operator found where it cannot be known."""

from __future__ import annotations

from pathlib import Path

from dpone_core.api import OperatorOptions, RunProcessPorts, operation_of
from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.output import shown_lines
from dpone_core.invocation import RunArguments
from dpone_core.native_transfer.reconcile import Finding
from dpone_core.use_cases import transfer as transfers
from dpone_core.use_cases.operations import Operation


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    operation = operation_of(
        Path(arguments.manifest),
        OperatorOptions(selector=arguments.selector, arguments=RunArguments()),
        project_dir=arguments.project_dir,
        ports=RunProcessPorts(cancellation=context.cancellation, redactor=context.redactor),
    )
    document = _document(context, operation)
    if arguments.format == "json":
        context.console.document(document)
    else:
        context.console.result("\n".join(shown_lines(document)))
    return 0


def _document(context: CommandContext, operation: Operation) -> dict[str, object]:
    arguments = context.arguments
    if arguments.operation == "show":
        return transfers.show_transfer(operation, arguments.run_id)
    return transfers.reconcile_transfer(
        operation,
        arguments.run_id,
        Finding(arguments.found),
        arguments.reason,
        override_marker=arguments.override_marker,
    )
