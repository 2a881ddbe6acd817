"""`dpone report`: the evidence of a run, as it was published; the HTML page is rendered anew from its run.json."""

from __future__ import annotations

from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.output import deliver
from dpone_core.cli.parser import UsageError
from dpone_core.use_cases.report import EvidenceNotFoundError, find_evidence


def report(context: CommandContext) -> int:
    """Shows the evidence of a run; the newest one unless told which."""
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    if arguments.run is not None and (arguments.process or arguments.run_id):
        raise UsageError("RUN stands alone", fix="leave out --process and --run-id")
    found = find_evidence(process=arguments.process, run_id=arguments.run_id, run=arguments.run)
    match arguments.format:
        case "json":
            text = found.document
        case "html":
            text = found.html(context.redactor)
        case _ if found.markdown is None:
            raise EvidenceNotFoundError("report.md of that run is gone", fix="use --format html or --format json")
        case _:
            text = found.markdown
    if arguments.output is None:
        context.console.artifact(text)
    else:
        deliver(text.encode(), arguments.output)
        context.console.result(arguments.output)
    return 0
