"""`dpone schema print KIND`"""

from __future__ import annotations

from dpone_core.cli.dispatch import CommandContext
from dpone_core.resources import schemas_directory


def execute(context: CommandContext) -> int:
    path = schemas_directory() / f"{context.arguments.kind}.json"
    context.console.artifact(path.read_text(encoding="utf-8"))
    return 0
