"""`dpone state show|set` and `dpone cleanup`: what an operator does between runs."""

from __future__ import annotations

from pathlib import Path

from dpone_core.api import OperatorOptions, RunProcessPorts, operation_of
from dpone_core.cli.dispatch import CommandContext
from dpone_core.invocation import RunArguments
from dpone_core.use_cases import operations


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
        context.console.result("\n".join(f"{name:14} {_shown(value)}" for name, value in document.items()))
    return 0


def _document(context: CommandContext, operation: operations.Operation) -> dict[str, object]:
    arguments = context.arguments
    match arguments.operation:
        case "show":
            return operations.show_state(operation)
        case "set":
            return operations.set_state(operation, arguments.value, arguments.reason)
        case _:
            return operations.clean_up(operation, arguments.run_id, dry_run=arguments.dry_run)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "-"
    return "-" if value is None else str(value)
