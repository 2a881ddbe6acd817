"""`dpone gitops verify`: the early, visible instance of the check that every step makes."""

from __future__ import annotations

from pathlib import Path

from dpone_core.cli.dispatch import CommandContext
from dpone_core.use_cases.step_receipt import RefusedStep
from dpone_core.use_cases.verify import PackReference, verify_bundle


def verify(context: CommandContext) -> int:
    """Refuses unless manifest, SQL files and policy match the pack."""
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    execution = context.execution = verify_bundle(
        PackReference(path=Path(arguments.pack), fingerprint=arguments.pack_fingerprint),
        manifest=Path(arguments.manifest) if arguments.manifest else None,
        project_dir=arguments.project_dir,
    )
    if isinstance(execution, RefusedStep):
        raise execution.refusal
    if arguments.format == "json":
        context.console.document(execution.as_json())
    else:
        context.console.result(f"verified  {execution.files} files  {arguments.pack_fingerprint}")
    return 0
