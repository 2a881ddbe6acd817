"""`dpone report`: the evidence of a run, as it was published; the HTML page is made anew from its run.json."""

from __future__ import annotations

import os

from dpone_core.api import find_evidence
from dpone_core.cli.dispatch import CommandContext, UsageError
from dpone_core.cli.output import deliver
from dpone_core.errors import ETLConfigurationError


class ReportMissingError(ETLConfigurationError):
    code = "DPONE_EVIDENCE_NOT_FOUND"


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    if arguments.run is not None and (arguments.process or arguments.run_id):
        raise UsageError("RUN stands alone", fix="leave out --process and --run-id")
    found = find_evidence(
        process=arguments.process, run_id=arguments.run_id, run=arguments.run, environment=dict(os.environ)
    )
    match arguments.format:
        case "json":
            text = found.document
        case "html":
            text = found.html(context.redactor)
        case _ if found.markdown is None:
            raise ReportMissingError("report.md of that run is gone", fix="use --format html or --format json")
        case _:
            text = found.markdown
    if arguments.output is None:
        context.console.artifact(text)
    else:
        deliver(text.encode(), arguments.output)
        context.console.result(arguments.output)
    return 0
