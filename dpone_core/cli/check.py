"""`dpone check PATH...`"""

from __future__ import annotations

from pathlib import Path

from dpone_core.cli.dispatch import CommandContext
from dpone_core.errors import ExitClass


def execute(context: CommandContext) -> int:
    """0 when every manifest passes, else 2."""
    from dpone_core import api
    from dpone_core.manifest import check_formats

    arguments = context.arguments
    reports = [api.check(Path(path), project_dir=arguments.project_dir) for path in arguments.manifests]
    render = {
        "text": check_formats.as_text,
        "json": check_formats.as_json,
        "github": check_formats.as_github,
        "sarif": check_formats.as_sarif,
    }[arguments.format]
    context.console.result(render(reports))
    return 0 if all(report.passed for report in reports) else int(ExitClass.REFUSED)
