"""`dpone gitops verify`: the early, visible instance of the check that every step makes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.run import fingerprint_or_none, step_identity
from dpone_core.invocation import RunArguments
from dpone_core.model.vocabulary import StepKind
from dpone_core.use_cases.bundles import PackReference, verify_bundle


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    fingerprint = arguments.pack_fingerprint
    context.facts.identity = replace(
        context.facts.identity,
        kind=StepKind.BUNDLE_VERIFY,
        pack_fingerprint=fingerprint_or_none(arguments.pack_fingerprint),
    )
    verification = verify_bundle(
        PackReference(path=Path(arguments.pack), fingerprint=fingerprint),
        manifest=Path(arguments.manifest) if arguments.manifest else None,
        arguments=RunArguments(),
        project_dir=arguments.project_dir,
        learned=lambda invocation: setattr(
            context.facts, "identity", step_identity(StepKind.BUNDLE_VERIFY, invocation, fingerprint)
        ),
    )
    if arguments.format == "json":
        context.console.document(verification.as_json())
    else:
        context.console.result(f"verified  {verification.files} files  {fingerprint}")
    return 0
