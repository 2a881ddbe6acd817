"""`dpone run PATH`"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from dpone_core.api import RunExecution, RunOptions, RunProcessPorts, execute_run
from dpone_core.cli.console import log_to
from dpone_core.cli.dispatch import CommandContext, UsageError
from dpone_core.cli.progress import progress_on
from dpone_core.cli.run_text import run_text
from dpone_core.cli.step import StepFacts
from dpone_core.contracts.step_receipt import EvidenceReference, StepIdentity
from dpone_core.evidence.markdown import run_markdown
from dpone_core.evidence.outcome import RunSetReport, failure_facts
from dpone_core.invocation import RunArguments, RunInvocation
from dpone_core.model.fingerprint import is_fingerprint
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.vocabulary import StepKind
from dpone_core.use_cases.bundles import PackReference
from dpone_core.use_cases.project import shown_evidence
from dpone_core.use_cases.run import RetryPolicy


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    context.console.json_only = arguments.format == "json"
    context.facts.identity = replace(
        context.facts.identity, kind=StepKind.LOAD, pack_fingerprint=fingerprint_or_none(arguments.pack_fingerprint)
    )
    with progress_on(sys.stderr, arguments.progress, os.environ) as (progress, log_stream):
        log_to(log_stream, context.redactor, os.environ.get("DPONE_LOG_LEVEL", "INFO").upper())
        execution = execute_run(
            Path(arguments.manifest),
            options_of(arguments),
            project_dir=arguments.project_dir,
            ports=RunProcessPorts(progress=progress, cancellation=context.cancellation, redactor=context.redactor),
        )
    learn(context.facts, execution, arguments.pack_fingerprint)
    _render(context, execution)
    return execution.report.exit_code


def options_of(arguments: argparse.Namespace) -> RunOptions:
    if arguments.retry_attempts < 0 or arguments.retry_backoff_seconds < 0:
        raise UsageError("--retry-attempts and --retry-backoff-seconds cannot be negative")
    if arguments.transfer_plan is not None and arguments.partitions == "inline":
        raise UsageError("--transfer-plan belongs to --partitions staged")
    return RunOptions(
        selector=arguments.selector,
        arguments=run_arguments(arguments),
        retry=RetryPolicy(retry_attempts=arguments.retry_attempts, backoff_seconds=arguments.retry_backoff_seconds),
        separate_hooks=arguments.separate_hooks,
        keep_going=arguments.keep_going,
        pack=pack_reference(arguments),
        single_process=arguments.receipt_path is not None,
        partitions=arguments.partitions,
    )


def run_arguments(arguments: argparse.Namespace) -> RunArguments:
    return RunArguments(
        run_id=arguments.run_id,
        dag_id=arguments.dag_id,
        execution_date=arguments.execution_date,
        interval_start=arguments.interval_start,
        interval_end=arguments.interval_end,
        repair_authority_ref=arguments.repair_authority_ref,
        transfer_plan=getattr(arguments, "transfer_plan", None),
    )


def pack_reference(arguments: argparse.Namespace) -> PackReference | None:
    if (arguments.pack is None) != (arguments.pack_fingerprint is None):
        raise UsageError("--pack and --pack-fingerprint belong together")
    if arguments.pack is None:
        return None
    return PackReference(path=Path(arguments.pack), fingerprint=arguments.pack_fingerprint)


def step_identity(
    kind: StepKind, invocation: RunInvocation, pack_fingerprint: str | None, **known: str | None
) -> StepIdentity:
    """Ids as the scheduler gave them; outside Airflow most are unknown and stay null."""
    return StepIdentity(
        kind=kind,
        step_id=invocation.step_id,
        process=known.get("process"),
        dag_id=invocation.dag_id,
        dag_run_id=invocation.dag_run_id,
        run_id=invocation.run_id,
        load_id=known.get("load_id"),
        try_number=invocation.try_number,
        map_index=invocation.map_index,
        run_spec_fingerprint=invocation.run_spec_fingerprint,
        pack_fingerprint=pack_fingerprint,
        policy_snapshot_id=known.get("policy_snapshot_id"),
        sql_hash=known.get("sql_hash"),
    )


def fingerprint_or_none(text: str | None) -> str | None:
    """A malformed --pack-fingerprint is refused by the pack check; the receipt must not fail because of it."""
    return text if is_fingerprint(text) else None


def learn(facts: StepFacts, execution: RunExecution, pack_fingerprint: str | None) -> None:
    """What the receipt says of a run: the refusal, or the only process's outcome."""
    error = execution.refusal
    if error is not None:
        failure = failure_facts(error)
        facts.error_code, facts.error_line = failure.code, failure.line
        if execution.invocation is not None:
            facts.identity = step_identity(StepKind.LOAD, execution.invocation, fingerprint_or_none(pack_fingerprint))
        return
    outcome = execution.outcomes[-1]
    load, invocation = outcome.report.outcome, execution.invocation
    assert load is not None and invocation is not None  # an executed run has both
    planned = outcome.prepared.planned
    facts.identity = step_identity(
        StepKind.LOAD,
        invocation,
        pack_fingerprint,
        process=planned.plan.process,
        load_id=load.identity.load_id,
        policy_snapshot_id=planned.snapshot.policy_snapshot_id,
    )
    facts.identity = replace(facts.identity, transfer_plan=load.transfer_plan, partitions=load.partitions)
    facts.outcome = load
    if outcome.evidence is not None:
        facts.evidence = EvidenceReference(path=outcome.evidence.path, sha256=outcome.evidence.sha256)
    if load.failure is not None:
        facts.error_code, facts.error_line = load.failure.code, load.failure.line


def _render(context: CommandContext, execution: RunExecution) -> None:
    report = execution.report
    if context.arguments.format == "json":
        context.console.document(report.as_json())
        return
    reports = report.runs if isinstance(report, RunSetReport) else (report,)
    plans: list[LoadPlan | None] = [outcome.prepared.planned.plan for outcome in execution.outcomes]
    plans = plans or [None] * len(reports)
    if context.arguments.format == "md":
        context.console.result("\n".join(run_markdown(run, plan) for run, plan in zip(reports, plans, strict=True)))
        return
    evidence = [outcome.evidence.path if outcome.evidence else None for outcome in execution.outcomes]
    for index, run in enumerate(reports):
        found = evidence[index] if index < len(evidence) else None
        context.console.result(run_text(run, plans[index], shown_evidence(os.environ, found) if found else None))
