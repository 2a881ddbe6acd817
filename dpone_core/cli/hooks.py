"""`dpone hooks execute PATH --phase PHASE [--hook-id ID]` and `dpone hooks graph PATH`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpone_core.cli.console import log_level, log_to
from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.output import OutputError, deliver
from dpone_core.cli.step import given_run_id, read_pack_reference, read_run_arguments
from dpone_core.errors import DponeError, ETLExecutionError
from dpone_core.evidence.outcome import failure_facts
from dpone_core.model.vocabulary import AirflowExecution, HookPhase
from dpone_core.use_cases.call import RunProcessPorts
from dpone_core.use_cases.hooks import (
    HOOK_GRAPH_KIND,
    HookOptions,
    HooksReport,
    RefusedStep,
    execute_hooks,
    graph_hooks,
)
from dpone_core.use_cases.project import find_project_root, locate


def execute(context: CommandContext) -> int:
    """Executes the hooks of one phase, or one of them; the exit code says whether all succeeded."""
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    log_to(sys.stderr, context.redactor, log_level(os.environ), given_run_id(arguments))
    execution = context.execution = execute_hooks(
        Path(arguments.manifest),
        HookOptions(
            phase=HookPhase(arguments.phase),
            hook_id=arguments.hook_id,
            dry_run=arguments.dry_run,
            selector=arguments.selector,
            arguments=read_run_arguments(arguments),
            pack=read_pack_reference(arguments),
        ),
        project_dir=arguments.project_dir,
        ports=RunProcessPorts(cancellation=context.cancellation, redactor=context.redactor),
    )
    if isinstance(execution, RefusedStep):
        raise execution.refusal
    undelivered = _write_output(context, execution.report) if arguments.output is not None else None
    _render(context, execution.report)
    if execution.error is not None:
        if arguments.format == "text":
            context.console.failure(execution.error)
        return failure_facts(execution.error).exit_code
    if undelivered is not None:
        raise undelivered
    return 0


def _render(context: CommandContext, report: HooksReport) -> None:
    if context.arguments.format == "json":
        context.console.document(report.as_json())
        return
    for step in report.steps:
        context.console.result(f"{step['status']:17} {step['phase']} {step['id']}")


def _write_output(context: CommandContext, report: HooksReport) -> DponeError | None:
    """After hooks ran, a file that cannot be written is a failed execution, not a refusal."""
    content = (json.dumps(context.redactor.value(report.as_json()), indent=2) + "\n").encode()
    try:
        deliver(content, context.arguments.output)
    except OutputError as error:
        return error if context.arguments.dry_run else ETLExecutionError(error.message, code=error.code)
    return None


def graph(context: CommandContext) -> int:
    """Shows the order of hooks and load, for people and tools."""
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    root = find_project_root(arguments.project_dir, os.environ)
    graphs = graph_hooks(locate(Path(arguments.manifest), root), arguments.selector, root)
    if arguments.format == "json":
        context.console.document({"kind": HOOK_GRAPH_KIND, "processes": graphs})
    else:
        context.console.result("\n".join(_render_mermaid(each) for each in graphs))
    return 0


def _render_mermaid(graph: Mapping[str, Any]) -> str:
    """Renders a flowchart that Markdown renderers show; hooks with a task of their own have a double border."""
    lines = ["flowchart LR", f'    load["load {graph["process"]}"]']
    nodes: Sequence[Mapping[str, Any]] = graph["nodes"]
    for node in nodes:
        left, right = ("[[", "]]") if node["airflow"] == AirflowExecution.SEPARATE_TASK else ("[", "]")
        lines.append(f'    {node["node"]}{left}"{node["id"]}: {node["kind"]}"{right}')
    return "\n".join([*lines, *(f"    {before} --> {after}" for before, after in graph["edges"])]) + "\n"
