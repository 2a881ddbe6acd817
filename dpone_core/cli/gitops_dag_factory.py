"""`dpone gitops airflow dag-factory`"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from dpone_core.cli.dispatch import CommandContext, UsageError
from dpone_core.cli.output import deliver, require_current
from dpone_core.gitops.dag_factory import DagFileRequest, Scalar, render_dag_file
from dpone_core.use_cases.run_spec import bound_run_specs


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    if arguments.dag_id is not None and not arguments.one_dag:
        raise UsageError("--dag-id names the one DAG of --one-dag", fix="add --one-dag, or rename the run-spec file")
    output = Path(arguments.output)
    directory, names = bound_run_specs(Path(arguments.run_specs), output)
    request = DagFileRequest(
        directory=directory,
        names=names,
        one_dag_id=(arguments.dag_id or output.stem) if arguments.one_dag else None,
        schedule=arguments.schedule,
        tags=tuple(arguments.tag or ("dpone",)),
        start_date=_start_date(arguments.start_date),
        catchup=arguments.catchup,
        default_args=_default_args(arguments.default_arg or (), arguments.owner),
        outlets=arguments.outlets,
    )
    content = render_dag_file(request)
    if arguments.check:
        require_current(content, arguments.output)
    else:
        deliver(content, arguments.output)
        dags = request.one_dag_id or f"{len(request.names)} DAGs"
        context.console.result(f"{dags}  {arguments.output}\n  {', '.join(request.names)}")
    return 0


def _start_date(text: str | None) -> date:
    if text is None:
        return date(2026, 1, 1)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError("--start-date is no date", fix="write it as 2026-01-31") from None


def _default_args(given: Iterable[str], owner: str | None) -> dict[str, Scalar]:
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
        except ValueError:
            value = text
        arguments[name] = text if isinstance(value, (dict, list, str)) else value
    return arguments
