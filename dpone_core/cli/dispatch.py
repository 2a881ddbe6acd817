"""The frame around every command: signals, redaction, the exit code and the receipt of every exit."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from dpone_core.cli.console import Console
from dpone_core.cli.parser import find_option, parse_arguments
from dpone_core.cli.signals import SignalCancellation
from dpone_core.errors import DponeError, ExitClass
from dpone_core.evidence.outcome import failure_facts
from dpone_core.evidence.redaction import Redactor
from dpone_core.model.vocabulary import StepKind

if TYPE_CHECKING:
    from dpone_core.use_cases.step_receipt import StepExecution, StepExit


@dataclass(slots=True, kw_only=True)
class CommandContext:
    """What a command works with. It sets `execution`, what it did, once: the receipt is made of it."""

    arguments: argparse.Namespace
    console: Console
    redactor: Redactor
    cancellation: SignalCancellation
    execution: StepExecution | None = None


Command = Callable[[CommandContext], int]


def dispatch(argv: Sequence[str], cancellation: SignalCancellation) -> int:
    """Runs one command line; every exit but --help leaves the receipt that --receipt-path asks for.

    The receipt is written before anything is printed. No signal is raised while modules are imported, nor once the
    command has ended.
    """
    started_at = datetime.now(UTC)
    redactor = Redactor()
    console = Console(redactor=redactor, json_only=find_option(argv, "--format") == "json")
    context: CommandContext | None = None
    receipt_path = find_option(argv, "--receipt-path")
    error: BaseException | None = None
    exit_code = int(ExitClass.EXECUTED)
    try:
        arguments = parse_arguments(argv)
        context = CommandContext(arguments=arguments, console=console, redactor=redactor, cancellation=cancellation)
        if receipt_path is not None:
            _require_receipt_path(receipt_path)
        command = _find_command(arguments.command_function)
        cancellation.resume()
        cancellation.checkpoint()
        exit_code = command(context)
        cancellation.settle()
    except SystemExit as stop:  # --help and --version print and leave
        return int(stop.code or 0)
    except BaseException as caught:  # noqa: BLE001 - the edge: every failure becomes an exit code and a receipt
        cancellation.settle()
        error = caught
        exit_code = failure_facts(caught).exit_code
        console.failure(caught)
    if receipt_path is not None:
        exit_code = _leave_receipt(
            receipt_path, context, _describe_exit(context, exit_code, error, started_at), console
        )
    return exit_code if console.deliver() else exit_code or int(ExitClass.EXECUTED)


def _describe_exit(
    context: CommandContext | None, exit_code: int, error: BaseException | None, started_at: datetime
) -> StepExit:
    from dpone_core.use_cases.step_receipt import StepExit

    return StepExit(
        kind=context.arguments.step_kind if context is not None else StepKind.LOAD,
        pack_fingerprint=getattr(context.arguments, "pack_fingerprint", None) if context is not None else None,
        env=dict(os.environ),
        exit_code=exit_code,
        error=error,
        started_at=started_at,
        finished_at=datetime.now(UTC),
    )


def _leave_receipt(path: str, context: CommandContext | None, end: StepExit, console: Console) -> int:
    """Returns the exit code: a step whose receipt cannot be written is not successful, whatever it did.

    The failure goes to stderr: stdout already holds the one result of this command.
    """
    from dpone_core.cli.step import write_receipt

    try:
        write_receipt(path, context.execution if context is not None else None, end, console.redactor)
    except DponeError as failure:
        console.note(failure_facts(failure).line)
        return end.exit_code or int(ExitClass.EXECUTED)
    return end.exit_code


def _require_receipt_path(path: str) -> None:
    from dpone_core.cli.step import require_receipt_path

    require_receipt_path(path)


def _find_command(name: str) -> Command:
    """Imports the module of `module:function` and returns the function."""
    module, _, function = name.partition(":")
    return cast(Command, getattr(importlib.import_module(f"dpone_core.cli.{module}"), function))
