"""The operation that `state`, `cleanup` and `transfer show|reconcile` work with, from the command line."""

from __future__ import annotations

from pathlib import Path

from dpone_core.cli.dispatch import CommandContext
from dpone_core.use_cases.call import RunProcessPorts
from dpone_core.use_cases.operation import Operation, OperatorOptions, prepare_operation


def read_operation(context: CommandContext) -> Operation:
    """Raises ETLConfigurationError; opens nothing."""
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    return prepare_operation(
        Path(arguments.manifest),
        OperatorOptions(selector=arguments.selector),
        project_dir=arguments.project_dir,
        ports=RunProcessPorts(cancellation=context.cancellation, redactor=context.redactor),
    )
