"""`dpone state show|set` and `dpone cleanup`: what an operator does between runs."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.operator import read_operation
from dpone_core.use_cases.cleanup import clean_up
from dpone_core.use_cases.state import set_state, show_state


def show(context: CommandContext) -> int:
    """Shows the saved cursor."""
    return _render(context, show_state(read_operation(context)))


def change(context: CommandContext) -> int:
    """Replaces the saved cursor; leaves an evidence record with the reason."""
    arguments = context.arguments
    return _render(context, set_state(read_operation(context), arguments.value, arguments.reason))


def cleanup(context: CommandContext) -> int:
    """Removes staging objects that a dead run left behind."""
    arguments = context.arguments
    return _render(context, clean_up(read_operation(context), arguments.run_id, dry_run=arguments.dry_run))


def _render(context: CommandContext, document: Mapping[str, object]) -> int:
    if context.arguments.format == "json":
        context.console.document(document)
    else:
        context.console.result("\n".join(f"{name:14} {_render_value(value)}" for name, value in document.items()))
    return 0


def _render_value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "-"
    return "-" if value is None else str(value)
