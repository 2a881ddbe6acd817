"""`dpone gitops airflow dag-factory`"""

from __future__ import annotations

from pathlib import Path

from dpone_core.cli.dispatch import CommandContext, UsageError
from dpone_core.cli.output import deliver, require_current
from dpone_core.gitops.dag_factory import render_dag_file
from dpone_core.wiring.bundles import dag_file_request


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    if arguments.dag_id is not None and not arguments.one_dag:
        raise UsageError("--dag-id names the one DAG of --one-dag", fix="add --one-dag, or rename the run-spec file")
    output = Path(arguments.output)
    request = dag_file_request(
        Path(arguments.run_specs),
        output,
        one_dag_id=(arguments.dag_id or output.stem) if arguments.one_dag else None,
        schedule=arguments.schedule,
        tags=tuple(arguments.tag or ("dpone",)),
    )
    content = render_dag_file(request)
    if arguments.check:
        require_current(content, arguments.output)
    else:
        deliver(content, arguments.output)
        dags = request.one_dag_id or f"{len(request.names)} DAGs"
        context.console.result(f"{dags}  {arguments.output}\n  {', '.join(request.names)}")
    return 0
