"""`dpone plan PATH`"""

from __future__ import annotations

import os
from pathlib import Path

from dpone_core.cli.dispatch import CommandContext
from dpone_core.planning.presentation import PLAN_SET_KIND, plan_markdown, plan_text
from dpone_core.use_cases import check as checking
from dpone_core.use_cases.project import located, project_root


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    root = project_root(arguments.project_dir, os.environ)
    plans = checking.plan(located(Path(arguments.manifest), root), arguments.selector, root)
    if arguments.format == "json":
        context.console.document(plans[0] if len(plans) == 1 else {"kind": PLAN_SET_KIND, "plans": plans})
        return 0
    render = plan_markdown if arguments.format == "md" else plan_text
    context.console.result("\n".join(render(document) for document in plans))
    return 0
