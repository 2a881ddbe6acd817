"""`dpone check PATH...` and `dpone plan PATH`: what can be said about a manifest without any connection."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

from dpone_core.cli.check_formats import RENDERERS
from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.output import render_lines
from dpone_core.errors import ExitClass
from dpone_core.use_cases import check as checking
from dpone_core.use_cases import plan as planning
from dpone_core.use_cases.project import find_project_root, locate


def check(context: CommandContext) -> int:
    """Prints every finding; 0 when every manifest passes, else 2. A directory stands for the manifests below it."""
    arguments = context.arguments
    root = find_project_root(arguments.project_dir, os.environ)
    named = (locate(Path(path), root) for path in arguments.manifests)
    reports = [checking.check(path, root) for path in chain.from_iterable(map(checking.manifests_at, named))]
    output = RENDERERS[arguments.format](reports)
    if arguments.format == "text":
        context.console.result(output)
    else:
        context.console.rendered(output)
    return 0 if all(report.passed for report in reports) else int(ExitClass.REFUSED)


def plan(context: CommandContext) -> int:
    """Prints the plan of every process."""
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    root = find_project_root(arguments.project_dir, os.environ)
    plans = planning.plan(locate(Path(arguments.manifest), root), arguments.selector, root)
    if arguments.format == "json":
        context.console.document(plans[0] if len(plans) == 1 else {"kind": planning.PLAN_SET_KIND, "plans": plans})
        return 0
    render = _render_markdown if arguments.format == "md" else _render_text
    context.console.result("\n".join(render(document) for document in plans))
    return 0


def _render_text(document: dict[str, object]) -> str:
    return "\n".join(render_lines(document)) + "\n"


def _render_markdown(document: dict[str, object]) -> str:
    return f"# Plan of `{document['process']}`\n\n```yaml\n{_render_text(document)}```\n"
