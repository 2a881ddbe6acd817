"""`dpone explain CODE` and `dpone schema print KIND`: what the package knows by itself."""

from __future__ import annotations

from dpone_core.cli.dispatch import CommandContext
from dpone_core.evidence.recovery import boundary_advice
from dpone_core.model.vocabulary import Boundary
from dpone_core.resources import schemas_directory
from dpone_core.use_cases import explain as explaining


def explain(context: CommandContext) -> int:
    """Prints what a code means and what to do, at the boundary that a report or receipt names."""
    entry = explaining.explain(context.arguments.code)
    lines = [entry.code, f"  area     {entry.area}", f"  meaning  {entry.meaning}", f"  action   {entry.action}"]
    if context.arguments.boundary is not None:
        boundary = Boundary(context.arguments.boundary)
        lines += [f"  {boundary.value}: {sentence}" for sentence in boundary_advice(boundary)]
    context.console.result("\n".join(lines))
    return 0


def print_schema(context: CommandContext) -> int:
    """Prints the JSON Schema of one kind of document."""
    path = schemas_directory() / f"{context.arguments.kind}.json"
    context.console.artifact(path.read_text(encoding="utf-8"))
    return 0
