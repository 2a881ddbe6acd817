"""`dpone gitops pack` and `dpone gitops airflow run-spec|dag-factory`: files for review, written or compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.output import deliver, require_current
from dpone_core.cli.parser import UsageError
from dpone_core.contracts.pack import render_pack
from dpone_core.contracts.run_spec import render_run_spec
from dpone_core.model.visible_text import visible
from dpone_core.use_cases.gitops import (
    DagFileRequest,
    Scalar,
    compile_manifest,
    find_platform,
    find_run_specs,
    pack_manifest,
    read_run_spec,
    render_dag_file,
    render_platform,
    run_spec_changes,
)


def pack(context: CommandContext) -> int:
    """Hashes everything a manifest opens into one pack."""
    arguments = context.arguments
    packed = pack_manifest(Path(arguments.manifest), project_dir=arguments.project_dir)
    summary = f"{packed.pack_fingerprint}  {arguments.output}  {len(packed.dependencies)} files"
    return _hand_over(context, render_pack(packed), summary)


def run_spec(context: CommandContext) -> int:
    """Compiles one process into a run-spec."""
    arguments = context.arguments
    spec = compile_manifest(
        Path(arguments.manifest),
        pack_file=Path(arguments.pack),
        platform_file=Path(arguments.platform),
        environment=arguments.environment,
        selector=arguments.selector,
        project_dir=arguments.project_dir,
    )
    if arguments.diff is not None:
        changes = run_spec_changes(read_run_spec(Path(arguments.diff)), spec)
        context.console.artifact("".join(f"{visible(line)}\n" for line in changes) or "nothing changes\n")
        return 0
    for name in spec.platform.second_containers:
        context.console.note(
            f"the pod template has a container '{name}' beside the step: its task waits until that ends as well; make "
            "it a native sidecar, an init container with restartPolicy: Always"
        )
    steps = " -> ".join(step.step_id for step in spec.steps)
    summary = f"{spec.fingerprint}  {arguments.output}\n  {steps} -> outcome_gate"
    return _hand_over(context, render_run_spec(spec), summary)


def platform(context: CommandContext) -> int:
    """Prints the platform file with an environment merged over it, whole or for one process."""
    arguments = context.arguments
    found = find_platform(Path(arguments.platform), arguments.environment)
    context.console.artifact(render_platform(found, arguments.process))
    return 0


def dag_factory(context: CommandContext) -> int:
    """Writes a DAG file that is bound to run-spec files."""
    arguments = context.arguments
    if arguments.dag_id is not None and not arguments.one_dag:
        raise UsageError("--dag-id names the one DAG of --one-dag", fix="add --one-dag, or rename the run-spec file")
    output = Path(arguments.output)
    directory, names = find_run_specs(Path(arguments.run_specs), output)
    request = DagFileRequest(
        directory=directory,
        names=names,
        one_dag_id=(arguments.dag_id or output.stem) if arguments.one_dag else None,
        schedule=arguments.schedule,
        tags=tuple(arguments.tag or ("dpone",)),
        start_date=_parse_start_date(arguments.start_date),
        catchup=arguments.catchup,
        default_args=_parse_default_args(arguments.default_arg or (), arguments.owner),
        outlets=arguments.outlets,
    )
    dags = request.one_dag_id or f"{len(request.names)} DAGs"
    return _hand_over(context, render_dag_file(request), f"{dags}  {arguments.output}\n  {', '.join(request.names)}")


def _hand_over(context: CommandContext, content: bytes, summary: str) -> int:
    """Prints the document, compares it with --output under --check, or writes it there and prints the summary."""
    arguments = context.arguments
    if arguments.output is None:
        context.console.artifact(content.decode("utf-8"))
    elif arguments.check:
        require_current(content, arguments.output)
    else:
        deliver(content, arguments.output)
        context.console.result(summary)
    return 0


def _parse_start_date(text: str | None) -> date:
    if text is None:
        return date(2026, 1, 1)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError("--start-date is no date", fix="write it as 2026-01-31") from None


def _parse_default_args(given: Iterable[str], owner: str | None) -> dict[str, Scalar]:
    """NAME=VALUE pairs; a value that is a JSON number, true, false or null is one, any other is text."""
    arguments: dict[str, Scalar] = {} if owner is None else {"owner": owner}
    for pair in given:
        name, separator, text = pair.partition("=")
        if not separator or name in arguments:
            raise UsageError(
                "--default-arg is no NAME=VALUE, or names an argument twice",
                fix="write for example depends_on_past=true",
            )
        try:
            value = json.loads(text, parse_constant=str)
        except (ValueError, RecursionError):
            value = text
        arguments[name] = text if isinstance(value, (dict, list, str)) else value
    return arguments
