"""`dpone report`: the evidence of a run, as it was published."""

from __future__ import annotations

import os

from dpone_core.api import find_evidence
from dpone_core.cli.dispatch import CommandContext


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    found = find_evidence(process=arguments.process, run_id=arguments.run_id, environment=dict(os.environ))
    context.console.artifact(found.document if arguments.format == "json" else found.markdown)
    return 0
