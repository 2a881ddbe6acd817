"""`dpone check PATH...`"""

from __future__ import annotations

import os
from pathlib import Path

from dpone_core.cli.dispatch import CommandContext
from dpone_core.errors import ExitClass
from dpone_core.manifest import check_formats
from dpone_core.use_cases import check as checking
from dpone_core.use_cases.project import located, project_root


def execute(context: CommandContext) -> int:
    """0 when every manifest passes, else 2."""
    arguments = context.arguments
    root = project_root(arguments.project_dir, os.environ)
    reports = [checking.check(located(Path(path), root), root) for path in arguments.manifests]
    render = {
        "text": check_formats.as_text,
        "json": check_formats.as_json,
        "github": check_formats.as_github,
        "sarif": check_formats.as_sarif,
    }[arguments.format]
    context.console.result(render(reports))
    return 0 if all(report.passed for report in reports) else int(ExitClass.REFUSED)
