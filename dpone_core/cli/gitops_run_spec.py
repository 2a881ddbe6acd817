"""`dpone gitops airflow run-spec PATH`"""

from __future__ import annotations

from pathlib import Path

from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.output import deliver, require_current
from dpone_core.contracts.run_spec import render_run_spec
from dpone_core.use_cases.run_spec import compile_manifest


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    spec = compile_manifest(
        Path(arguments.manifest),
        pack_file=Path(arguments.pack),
        platform_file=Path(arguments.platform),
        selector=arguments.selector,
        project_dir=arguments.project_dir,
    )
    content = render_run_spec(spec)
    if arguments.output is None:
        context.console.artifact(content.decode("utf-8"))
    elif arguments.check:
        require_current(content, arguments.output)
    else:
        deliver(content, arguments.output)
        steps = " -> ".join(step.step_id for step in spec.steps)
        context.console.result(f"{spec.fingerprint}  {arguments.output}\n  {steps} -> outcome_gate")
    return 0
