"""The command line: every command with its options, and the function that executes it.

`command_function` is `module:function` below `dpone_core.cli`; only the module of the command asked for is imported.
`step_kind` is what the command's receipt calls it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final, NoReturn, TypeAlias

from dpone_core.errors import DponeError, ExitClass
from dpone_core.model.vocabulary import StepKind
from dpone_core.version import __version__

USAGE_CODE: Final = "DPONE_USAGE"

_Commands: TypeAlias = "argparse._SubParsersAction[Any]"


class UsageError(DponeError):
    """The command line cannot be understood; nothing was read and nothing ran."""

    code = USAGE_CODE
    exit_class = ExitClass.REFUSED


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, fix=f"run: {self.prog} --help")


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parses a command line. Raises UsageError.

    Names an unknown option before it misses a command, and points to the help of the command that was meant.
    """
    parser = build_parser()
    first = argv[0] if argv else ""
    if first.startswith("-") and first not in ("-h", "--help", "--version"):
        parser.error(f"unknown option {first}")
    arguments, unknown = parser.parse_known_args(list(argv))
    if unknown:
        words = [word for word in (arguments.command, getattr(arguments, "action", None)) if word]
        raise UsageError(f"unknown argument {unknown[0]}", fix=f"run: dpone {' '.join(words)} --help")
    if getattr(arguments, "project_dir", None) == "":
        raise UsageError("--project-dir is empty", fix="name a directory, or leave the option out")
    return arguments


def find_option(argv: Sequence[str], option: str) -> str | None:
    """Returns the value of an option in an unparsed command line, so that a usage error can still leave its receipt."""
    for index, argument in enumerate(argv):
        if argument == option and index + 1 < len(argv):
            return argv[index + 1]
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None


def build_parser() -> argparse.ArgumentParser:
    """Every command and option; the reference page is generated from it."""
    parser = _Parser(prog="dpone", description="Declarative data loading that cannot lie.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"dpone {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    _add_check(commands)
    _add_plan(commands)
    _add_run(commands)
    _add_hooks(commands)
    _add_gitops(commands)
    _add_contract(commands)
    _add_schema(commands)
    _add_report(commands)
    _add_explain(commands)
    _add_operations(commands)
    _add_transfer(commands)
    return parser


def _new(commands: _Commands, name: str, function: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    parser.set_defaults(command_function=function, step_kind=StepKind.LOAD)
    return parser


def _group(commands: _Commands, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    return parser


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project-dir", metavar="DIR", help="root that bounds every file that is read")


def _add_check(commands: _Commands) -> None:
    parser = _new(commands, "check", "check:check", "Validate manifests without any connection.")
    parser.add_argument("manifests", nargs="+", metavar="PATH", help="a manifest, or a directory of manifests")
    parser.add_argument("--format", choices=("text", "json", "github", "sarif"), default="text")
    _add_project(parser)


def _add_plan(commands: _Commands) -> None:
    parser = _new(commands, "plan", "check:plan", "Show what a run would do; needs no connection.")
    parser.add_argument("manifest", metavar="PATH")
    parser.add_argument("--selector", metavar="PROCESS", help="one process of the manifest")
    parser.add_argument("--format", choices=("text", "json", "md"), default="text")
    _add_project(parser)


def _add_identity(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--selector", metavar="PROCESS", help="one process of the manifest")
    parser.add_argument("--run-id", metavar="ID", help="the operation; kept on retry (DPONE_DAG_RUN_ID)")
    parser.add_argument("--dag-id", metavar="ID", help="the scheduler's DAG (DPONE_DAG_ID)")
    parser.add_argument("--execution-date", metavar="TIME", help="ISO 8601 logical date (DPONE_LOGICAL_DATE)")
    parser.add_argument("--interval-start", metavar="TIME", help="ISO 8601, inclusive (DPONE_INTERVAL_START)")
    parser.add_argument("--interval-end", metavar="TIME", help="ISO 8601, exclusive (DPONE_INTERVAL_END)")
    parser.add_argument("--repair-authority-ref", metavar="REF", help="who allowed a repair run")


def _add_pack(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    parser.add_argument("--pack", metavar="FILE", required=required, help="refuse unless the bundle matches this pack")
    parser.add_argument(
        "--pack-fingerprint", metavar="SHA256", required=required, help="the fingerprint the run-spec was compiled with"
    )


def _add_receipt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--receipt-path", metavar="FILE", help="write the step receipt here, whatever happens")


def _add_run(commands: _Commands) -> None:
    parser = _new(commands, "run", "run:run", "Run a manifest: extract, stage, gate, accept, publish, evidence, state.")
    parser.add_argument("manifest", metavar="PATH")
    _add_identity(parser)
    parser.add_argument("--retry-attempts", type=int, default=0, metavar="N", help="repeats where a retry is safe")
    parser.add_argument("--retry-backoff-seconds", type=float, default=0.0, metavar="S")
    _add_separate_hooks(parser)
    parser.add_argument(
        "--once", action="store_true", help="do nothing if this run id has succeeded already, and tell its report again"
    )
    parser.add_argument("--keep-going", action="store_true", help="go on with the next process after a failure")
    parser.add_argument(
        "--partitions",
        choices=("inline", "staged"),
        default="inline",
        help="staged: publish the ranges that `dpone transfer load` staged, and read no rows",
    )
    _add_transfer_plan(parser)
    _add_progress(parser)
    parser.add_argument("--format", choices=("text", "json", "md"), default="text")
    _add_pack(parser)
    _add_receipt(parser)
    _add_project(parser)


def _add_separate_hooks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--separate-hooks",
        choices=("inline", "receipts"),
        default="inline",
        help="receipts: hooks with a task of their own are taken from DPONE_STEP_RECEIPTS, never run",
    )


def _add_transfer_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--transfer-plan", metavar="SHA256", help="the plan whose ranges are meant (DPONE_TRANSFER_PLAN)"
    )


def _add_progress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--progress",
        choices=("auto", "bar", "log", "none"),
        default="auto",
        help="auto: a bar on a terminal, lines elsewhere and where CI is set; all of it on stderr",
    )


def _add_hooks(commands: _Commands) -> None:
    parser = _group(commands, "hooks", "Plan or execute hooks.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    execute = _new(actions, "execute", "hooks:execute", "Execute the hooks of one phase, or one of them.")
    execute.set_defaults(step_kind=StepKind.HOOK)
    execute.add_argument("manifest", metavar="PATH")
    execute.add_argument("--phase", choices=("pre_hook", "post_hook"), required=True)
    execute.add_argument("--hook-id", metavar="ID", help="one hook of the phase")
    execute.add_argument("--dry-run", action="store_true", help="show what would run; needs no connection")
    execute.add_argument("--format", choices=("text", "json"), default="text")
    execute.add_argument("--output", metavar="FILE", help="also write the JSON result here")
    _add_identity(execute)
    _add_pack(execute)
    _add_receipt(execute)
    _add_project(execute)
    graph = _new(actions, "graph", "hooks:graph", "Show the order of hooks and load.")
    graph.add_argument("manifest", metavar="PATH")
    graph.add_argument("--selector", metavar="PROCESS", help="one process of the manifest")
    graph.add_argument("--format", choices=("mermaid", "json"), default="mermaid")
    _add_project(graph)


def _add_gitops(commands: _Commands) -> None:
    parser = _group(commands, "gitops", "Packs, run-specs, verification.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    pack = _new(actions, "pack", "gitops:pack", "Hash everything a manifest opens into one pack.")
    pack.add_argument("manifest", metavar="PATH")
    pack.add_argument("--output", metavar="FILE", help="write the pack here instead of stdout")
    pack.add_argument("--check", action="store_true", help="with --output: fail if the file is not up to date")
    _add_project(pack)
    verify = _new(actions, "verify", "verify:verify", "Refuse unless manifest, SQL files and policy match the pack.")
    verify.set_defaults(step_kind=StepKind.BUNDLE_VERIFY)
    verify.add_argument("manifest", metavar="PATH", nargs="?", help="the pack's own manifest unless given")
    verify.add_argument("--format", choices=("text", "json"), default="text")
    _add_pack(verify, required=True)
    _add_receipt(verify)
    _add_project(verify)
    airflow = _group(actions, "airflow", "Artifacts for Airflow.")
    artifacts = airflow.add_subparsers(dest="artifact", required=True, metavar="ARTIFACT", parser_class=_Parser)
    spec = _new(artifacts, "run-spec", "gitops:run_spec", "Compile one process into a run-spec.")
    spec.add_argument("manifest", metavar="PATH")
    spec.add_argument("--selector", metavar="PROCESS", help="one process of the manifest")
    spec.add_argument("--pack", metavar="FILE", required=True, help="the reviewed pack of this manifest")
    spec.add_argument("--platform", metavar="FILE", required=True, help="image, secrets and limits")
    _add_environment(spec)
    spec.add_argument("--output", metavar="FILE", help="write the run-spec here instead of stdout")
    spec.add_argument("--check", action="store_true", help="with --output: fail if the file is not up to date")
    spec.add_argument(
        "--diff", metavar="FILE", help="print what changes against this run-spec, for a review; nothing is written"
    )
    _add_project(spec)
    _add_platform(artifacts)
    _add_dag_factory(artifacts)


def _add_environment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--environment", metavar="NAME", help="merge platform.NAME.yaml, beside the platform file, over it"
    )


def _add_platform(artifacts: _Commands) -> None:
    parser = _new(artifacts, "platform", "gitops:platform", "Print the platform file as it is merged.")
    parser.add_argument("--platform", metavar="FILE", required=True, help="image, secrets and limits")
    _add_environment(parser)
    parser.add_argument("--process", metavar="NAME", help="what it decides for this process")


def _add_dag_factory(artifacts: _Commands) -> None:
    parser = _new(artifacts, "dag-factory", "gitops:dag_factory", "Write a DAG file that is bound to run-spec files.")
    parser.add_argument("--run-specs", metavar="DIR", required=True, help="where the *.run_spec.json files lie")
    parser.add_argument("--output", metavar="FILE", required=True, help="the DAG file")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--one-dag", action="store_true", help="one DAG with a task group and a gate per process")
    forms.add_argument("--dag-per-process", action="store_true", help="a DAG per run-spec, named as its file (default)")
    parser.add_argument("--dag-id", metavar="ID", help="with --one-dag: its id; the file's name unless given")
    parser.add_argument("--schedule", metavar="CRON", help="cron expression or preset; none unless given")
    parser.add_argument(
        "--tag", metavar="T", action="append", help="a tag of every DAG, repeatable; dpone unless given"
    )
    parser.add_argument(
        "--start-date", metavar="DATE", help="first day of the schedule, in UTC; 2026-01-01 unless given"
    )
    parser.add_argument(
        "--catchup", action="store_true", help="also run the intervals that passed since the start date"
    )
    parser.add_argument("--owner", metavar="NAME", help="owner of every task")
    parser.add_argument(
        "--default-arg", metavar="NAME=VALUE", action="append", help="a default argument of every task, repeatable"
    )
    parser.add_argument("--outlets", action="store_true", help="a gate that passes updates the asset of its run-spec")
    parser.add_argument("--check", action="store_true", help="fail if the file is not up to date")


def _add_contract(commands: _Commands) -> None:
    parser = _group(commands, "contract", "Data contracts of the Open Data Contract Standard.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    show = _new(actions, "show", "contract:show", "Show the gates that the contract of a manifest makes.")
    show.add_argument("--format", choices=("text", "json"), default="text")
    export = _new(actions, "export", "contract:export", "Print the contract that the gates of a process make.")
    for action in (show, export):
        action.add_argument("manifest", metavar="PATH")
        action.add_argument("--selector", metavar="PROCESS", help="one process of the manifest")
        _add_project(action)


def _add_schema(commands: _Commands) -> None:
    parser = _group(commands, "schema", "JSON Schemas of the documents people write.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    show = _new(actions, "print", "explain:print_schema", "Print the JSON Schema of one document kind.")
    show.add_argument("kind", metavar="KIND", choices=("dpone.flow.v1", "dpone.batch.v1", "dpone.platform.v1"))


def _add_report(commands: _Commands) -> None:
    parser = _new(commands, "report", "report:report", "Show the evidence of a run; the newest one unless told which.")
    parser.add_argument("run", metavar="RUN", nargs="?", help="a run.json, or the evidence_path of a receipt")
    parser.add_argument("--process", metavar="NAME", help="the newest run of this process unless --run-id is given")
    parser.add_argument("--run-id", metavar="ID")
    parser.add_argument("--format", choices=("md", "json", "html"), default="md")
    parser.add_argument("--output", metavar="FILE", help="write the report here instead of stdout")


def _add_explain(commands: _Commands) -> None:
    parser = _new(commands, "explain", "explain:explain", "Say what a code means and what to do.")
    parser.add_argument("code", metavar="CODE")
    parser.add_argument(
        "--boundary",
        choices=("pre_commit", "post_commit", "resume_validation"),
        help="the failure_boundary that the report or receipt names",
    )


def _add_operations(commands: _Commands) -> None:
    state = _group(commands, "state", "The saved cursor of a process.")
    actions = state.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    show = _new(actions, "show", "state:show", "Show the saved cursor.")
    change = _new(
        actions, "set", "state:change", "Replace the saved cursor; leaves an evidence record with the reason."
    )
    change.add_argument("--value", required=True, metavar="TEXT", help="the next inclusive lower bound")
    change.add_argument("--reason", required=True, metavar="TEXT", help="why, for the evidence record")
    cleanup = _new(commands, "cleanup", "state:cleanup", "Remove staging objects that a dead run left behind.")
    cleanup.add_argument("--run-id", required=True, metavar="ID")
    cleanup.add_argument("--dry-run", action="store_true", help="name them, remove nothing")
    for parser in (show, change, cleanup):
        parser.add_argument("manifest", metavar="PATH")
        parser.add_argument("--selector", metavar="PROCESS", help="one process of the manifest")
        parser.add_argument("--format", choices=("text", "json"), default="text")
        _add_project(parser)


def _add_transfer(commands: _Commands) -> None:
    transfer = _group(commands, "transfer", "Native transfers: ranges, checkpoints, guards.")
    actions = transfer.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    plan = _new(actions, "plan", "transfer:plan", "Plan the key ranges of a run, for processes that stage them.")
    load = _new(actions, "load", "transfer:load", "Stage one range of a plan; `dpone run` publishes what is staged.")
    load.add_argument("--partition", type=int, metavar="N", help="index in the plan (DPONE_AIRFLOW_MAPPING_ITEM)")
    _add_transfer_plan(load)
    _add_separate_hooks(plan)
    plan.set_defaults(step_kind=StepKind.TRANSFER_PLAN)
    load.set_defaults(step_kind=StepKind.TRANSFER_PARTITION)
    for parser in (plan, load):
        parser.add_argument("manifest", metavar="PATH")
        _add_identity(parser)
        _add_progress(parser)
        parser.add_argument("--format", choices=("text", "json"), default="text")
        _add_pack(parser)
        _add_receipt(parser)
        _add_project(parser)
    show = _new(
        actions, "show", "transfer:show", "Show open runs, their ranges, and what the load marker says of a batch."
    )
    show.add_argument("--run-id", metavar="ID", help="this run only, whatever its state")
    reconcile = _new(
        actions, "reconcile", "transfer:reconcile", "Say what became of a blocked batch; leaves an evidence record."
    )
    reconcile.add_argument("--run-id", required=True, metavar="ID")
    reconcile.add_argument(
        "--found",
        required=True,
        choices=("published", "not_published", "removed"),
        help="published: the target holds the batch; not_published: it does not; removed: you took this run's rows out",
    )
    reconcile.add_argument("--reason", required=True, metavar="TEXT", help="why, for the evidence record")
    reconcile.add_argument("--override-marker", action="store_true", help="although the load marker says otherwise")
    for parser in (show, reconcile):
        parser.add_argument("manifest", metavar="PATH")
        parser.add_argument("--selector", metavar="PROCESS", help="one process of the manifest")
        parser.add_argument("--format", choices=("text", "json"), default="text")
        _add_project(parser)
