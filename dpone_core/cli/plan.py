"""`dpone plan PATH`"""

from __future__ import annotations

from dpone_core.cli.dispatch import CommandContext


def execute(context: CommandContext) -> int:
    from dpone_core import api
    from dpone_core.planning.presentation import PLAN_SET_KIND, plan_markdown, plan_text

    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    plans = api.plan(arguments.manifest, selector=arguments.selector, project_dir=arguments.project_dir)
    if arguments.format == "json":
        context.console.document(plans[0] if len(plans) == 1 else {"kind": PLAN_SET_KIND, "plans": plans})
        return 0
    render = plan_markdown if arguments.format == "md" else plan_text
    context.console.result("\n".join(render(document) for document in plans))
    return 0
