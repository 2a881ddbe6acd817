"""Argument parsing and the frame around every command: signals, redaction, the receipt of every exit."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

from dpone_core.cli.console import Console
from dpone_core.errors import DponeError, ExitClass
from dpone_core.evidence.outcome import failure_facts
from dpone_core.evidence.redaction import Redactor
from dpone_core.version import __version__
from dpone_core.wiring.runtime import SignalCancellation, SystemClock

if TYPE_CHECKING:
    from dpone_core.cli.step import StepFacts

USAGE_CODE: Final = "DPONE_USAGE"


class UsageError(DponeError):
    """The command line cannot be understood; nothing was read and nothing ran."""

    code = USAGE_CODE
    exit_class = ExitClass.REFUSED


@dataclass(slots=True, kw_only=True)
class CommandContext:
    """What a command works with. `facts` is what its receipt must say, filled in as the command learns it."""

    arguments: argparse.Namespace
    console: Console
    redactor: Redactor
    cancellation: SignalCancellation
    clock: SystemClock
    _facts: StepFacts | None = None

    @property
    def facts(self) -> StepFacts:
        """Made on first use: commands without a receipt never load the receipt's contract."""
        if self._facts is None:
            from dpone_core.cli.step import StepFacts

            self._facts = StepFacts()
        return self._facts


Command = Callable[[CommandContext], int]
_Commands: TypeAlias = "argparse._SubParsersAction[Any]"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, fix=f"run: {self.prog} --help")


def dispatch(argv: Sequence[str]) -> int:
    """Runs one command line; every exit but --help leaves the receipt that --receipt-path asks for."""
    clock = SystemClock()
    redactor = Redactor()
    console = Console(redactor=redactor, json_only=option_value(argv, "--format") == "json")
    started_at = clock.utc_now()
    cancellation = SignalCancellation()
    context: CommandContext | None = None
    receipt_path = option_value(argv, "--receipt-path")
    error: BaseException | None = None
    exit_code = int(ExitClass.EXECUTED)
    try:
        with cancellation.installed():
            arguments = _parsed(argv)
            context = CommandContext(
                arguments=arguments,
                console=console,
                redactor=redactor,
                cancellation=cancellation,
                clock=clock,
            )
            exit_code = _command(arguments.command_module)(context)
    except SystemExit as stop:  # --help and --version print and leave
        return int(stop.code or 0)
    except BaseException as caught:  # noqa: BLE001 - the edge: every failure becomes an exit code and a receipt
        error = caught
        exit_code = failure_facts(caught).exit_code
        console.failure(caught)
    if receipt_path is not None:
        times = (started_at, clock.utc_now())
        exit_code = _leave_receipt(receipt_path, context, exit_code, error, times, console)
    return exit_code


def _leave_receipt(
    path: str,
    context: CommandContext | None,
    exit_code: int,
    error: BaseException | None,
    times: tuple[datetime, datetime],
    console: Console,
) -> int:
    """A step whose receipt cannot be written is not successful, whatever it did.

    That is told on stderr: stdout already holds the one result of this command.
    """
    from dpone_core.cli.step import StepFacts, write_receipt

    facts = context.facts if context is not None else StepFacts()
    try:
        write_receipt(path, facts, exit_code, error, times)
    except DponeError as failure:
        console.note(failure_facts(failure).line)
        return exit_code or int(ExitClass.EXECUTED)
    return exit_code


def option_value(argv: Sequence[str], option: str) -> str | None:
    """The value of an option in an unparsed command line, so that a usage error can still leave its receipt."""
    for index, argument in enumerate(argv):
        if argument == option and index + 1 < len(argv):
            return argv[index + 1]
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    """Names an unknown option before it misses a command, and points to the help of the command that was meant."""
    parser = build_parser()
    first = argv[0] if argv else ""
    if first.startswith("-") and first not in ("-h", "--help", "--version"):
        parser.error(f"unknown option {first}")
    arguments, unknown = parser.parse_known_args(list(argv))
    if unknown:
        words = [word for word in (arguments.command, getattr(arguments, "action", None)) if word]
        raise UsageError(f"unknown argument {unknown[0]}", fix=f"run: dpone {' '.join(words)} --help")
    return arguments


def _command(module: str) -> Command:
    return cast(Command, importlib.import_module(f"dpone_core.cli.{module}").execute)


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
    _add_schema(commands)
    _add_report(commands)
    _add_explain(commands)
    _add_operations(commands)
    _add_transfer(commands)
    return parser


def _new(commands: _Commands, name: str, module: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    parser.set_defaults(command_module=module)
    return parser


def _group(commands: _Commands, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    return parser


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project-dir", metavar="DIR", help="root that bounds every file that is read")


def _add_check(commands: _Commands) -> None:
    parser = _new(commands, "check", "check", "Validate manifests without any connection.")
    parser.add_argument("manifests", nargs="+", metavar="PATH")
    parser.add_argument("--format", choices=("text", "json", "github", "sarif"), default="text")
    _add_project(parser)


def _add_plan(commands: _Commands) -> None:
    parser = _new(commands, "plan", "plan", "Show what a run would do; needs no connection.")
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
    parser = _new(commands, "run", "run", "Run a manifest: extract, stage, gate, accept, publish, evidence, state.")
    parser.add_argument("manifest", metavar="PATH")
    _add_identity(parser)
    parser.add_argument("--retry-attempts", type=int, default=0, metavar="N", help="repeats where a retry is safe")
    parser.add_argument("--retry-backoff-seconds", type=float, default=0.0, metavar="S")
    _add_separate_hooks(parser)
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
    execute = _new(actions, "execute", "hooks_execute", "Execute the hooks of one phase, or one of them.")
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
    graph = _new(actions, "graph", "hooks_graph", "Show the order of hooks and load.")
    graph.add_argument("manifest", metavar="PATH")
    graph.add_argument("--selector", metavar="PROCESS", help="one process of the manifest")
    graph.add_argument("--format", choices=("mermaid", "json"), default="mermaid")
    _add_project(graph)


def _add_gitops(commands: _Commands) -> None:
    parser = _group(commands, "gitops", "Packs, run-specs, verification.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    pack = _new(actions, "pack", "gitops_pack", "Hash everything a manifest opens into one pack.")
    pack.add_argument("manifest", metavar="PATH")
    pack.add_argument("--output", metavar="FILE", help="write the pack here instead of stdout")
    pack.add_argument("--check", action="store_true", help="with --output: fail if the file is not up to date")
    _add_project(pack)
    verify = _new(actions, "verify", "gitops_verify", "Refuse unless manifest, SQL files and policy match the pack.")
    verify.add_argument("manifest", metavar="PATH", nargs="?", help="the pack's own manifest unless given")
    verify.add_argument("--format", choices=("text", "json"), default="text")
    _add_pack(verify, required=True)
    _add_receipt(verify)
    _add_project(verify)
    airflow = _group(actions, "airflow", "Artifacts for Airflow.")
    artifacts = airflow.add_subparsers(dest="artifact", required=True, metavar="ARTIFACT", parser_class=_Parser)
    spec = _new(artifacts, "run-spec", "gitops_run_spec", "Compile one process into a run-spec.")
    spec.add_argument("manifest", metavar="PATH")
    spec.add_argument("--selector", metavar="PROCESS", help="one process of the manifest")
    spec.add_argument("--pack", metavar="FILE", required=True, help="the reviewed pack of this manifest")
    spec.add_argument("--platform", metavar="FILE", required=True, help="image, secrets and limits")
    spec.add_argument("--output", metavar="FILE", help="write the run-spec here instead of stdout")
    spec.add_argument("--check", action="store_true", help="with --output: fail if the file is not up to date")
    _add_project(spec)
    _add_dag_factory(artifacts)


def _add_dag_factory(artifacts: _Commands) -> None:
    parser = _new(artifacts, "dag-factory", "gitops_dag_factory", "Write a DAG file that is bound to run-spec files.")
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


def _add_schema(commands: _Commands) -> None:
    parser = _group(commands, "schema", "JSON Schemas of the documents people write.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    show = _new(actions, "print", "schema_print", "Print the JSON Schema of one document kind.")
    show.add_argument("kind", metavar="KIND", choices=("dpone.flow.v1", "dpone.batch.v1", "dpone.platform.v1"))


def _add_report(commands: _Commands) -> None:
    parser = _new(commands, "report", "report", "Show the evidence of a run; the newest one unless told which.")
    parser.add_argument("run", metavar="RUN", nargs="?", help="a run.json, or the evidence_path of a receipt")
    parser.add_argument("--process", metavar="NAME", help="the newest run of this process unless --run-id is given")
    parser.add_argument("--run-id", metavar="ID")
    parser.add_argument("--format", choices=("md", "json", "html"), default="md")
    parser.add_argument("--output", metavar="FILE", help="write the report here instead of stdout")


def _add_explain(commands: _Commands) -> None:
    parser = _new(commands, "explain", "explain", "Say what a code means and what to do.")
    parser.add_argument("code", metavar="CODE")
    parser.add_argument(
        "--boundary",
        choices=("pre_commit", "post_commit", "resume_validation"),
        help="the failure_boundary that the report or receipt names",
    )


def _add_operations(commands: _Commands) -> None:
    state = _group(commands, "state", "The saved cursor of a process.")
    actions = state.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    show = _new(actions, "show", "operations", "Show the saved cursor.")
    change = _new(actions, "set", "operations", "Replace the saved cursor; leaves an evidence record with the reason.")
    change.add_argument("--value", required=True, metavar="TEXT", help="the next inclusive lower bound")
    change.add_argument("--reason", required=True, metavar="TEXT", help="why, for the evidence record")
    cleanup = _new(commands, "cleanup", "operations", "Remove staging objects that a dead run left behind.")
    cleanup.add_argument("--run-id", required=True, metavar="ID")
    cleanup.add_argument("--dry-run", action="store_true", help="name them, remove nothing")
    for parser, operation in ((show, "show"), (change, "set"), (cleanup, "cleanup")):
        parser.set_defaults(operation=operation)
        parser.add_argument("manifest", metavar="PATH")
        parser.add_argument("--selector", metavar="PROCESS", help="one process of the manifest")
        parser.add_argument("--format", choices=("text", "json"), default="text")
        _add_project(parser)


def _add_transfer(commands: _Commands) -> None:
    transfer = _group(commands, "transfer", "Native transfers: ranges, checkpoints, guards.")
    actions = transfer.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    plan = _new(actions, "plan", "transfer_steps", "Plan the key ranges of a run, for processes that stage them.")
    load = _new(actions, "load", "transfer_steps", "Stage one range of a plan; `dpone run` publishes what is staged.")
    load.add_argument("--partition", type=int, metavar="N", help="index in the plan (DPONE_AIRFLOW_MAPPING_ITEM)")
    _add_transfer_plan(load)
    _add_separate_hooks(plan)
    for parser, operation in ((plan, "plan"), (load, "load")):
        parser.set_defaults(operation=operation)
        parser.add_argument("manifest", metavar="PATH")
        _add_identity(parser)
        _add_progress(parser)
        parser.add_argument("--format", choices=("text", "json"), default="text")
        _add_pack(parser)
        _add_receipt(parser)
        _add_project(parser)
    show = _new(actions, "show", "transfer", "Show open runs, their ranges, and what the load marker says of a batch.")
    show.add_argument("--run-id", metavar="ID", help="this run only, whatever its state")
    settle = _new(actions, "reconcile", "transfer", "Say what became of a blocked batch; leaves an evidence record.")
    settle.add_argument("--run-id", required=True, metavar="ID")
    settle.add_argument(
        "--found",
        required=True,
        choices=("published", "not_published", "removed"),
        help="published: the target holds the batch; not_published: it does not; removed: you took this run's rows out",
    )
    settle.add_argument("--reason", required=True, metavar="TEXT", help="why, for the evidence record")
    settle.add_argument("--override-marker", action="store_true", help="although the load marker says otherwise")
    for parser, operation in ((show, "show"), (settle, "reconcile")):
        parser.set_defaults(operation=operation)
        parser.add_argument("manifest", metavar="PATH")
        parser.add_argument("--selector", metavar="PROCESS", help="one process of the manifest")
        parser.add_argument("--format", choices=("text", "json"), default="text")
        _add_project(parser)
