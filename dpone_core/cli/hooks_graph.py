"""`dpone hooks graph PATH`: the order of hooks and load, for people and tools."""

from __future__ import annotations

import os
from pathlib import Path

from dpone_core.cli.dispatch import CommandContext
from dpone_core.manifest.resolve import load_manifest
from dpone_core.planning.presentation import HOOK_GRAPH_KIND, hook_graph_json, hook_graph_mermaid
from dpone_core.use_cases.planned import plan_process
from dpone_core.use_cases.project import located, project_root


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    root = project_root(arguments.project_dir, os.environ)
    manifest = load_manifest(located(Path(arguments.manifest), root), project_root=root)
    plans = [plan_process(config).plan for config in manifest.select(arguments.selector)]
    if arguments.format == "json":
        context.console.document({"kind": HOOK_GRAPH_KIND, "processes": [hook_graph_json(plan) for plan in plans]})
    else:
        context.console.result("\n".join(hook_graph_mermaid(plan) for plan in plans))
    return 0
