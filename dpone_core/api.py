"""The Python API: thin public functions over `use_cases`, with the signatures that users rely on.

`run` returns the report the CLI prints and raises the load's own error when it did not succeed; exit codes are the
CLI's business. Environment variables are read once per call, from `environment` or os.environ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpone_core.evidence.outcome import RunReport, RunSetReport
from dpone_core.invocation import RunArguments
from dpone_core.use_cases import check as checking
from dpone_core.use_cases import plan as planning
from dpone_core.use_cases import run as running
from dpone_core.use_cases import transfer as transferring
from dpone_core.use_cases.call import RunProcessPorts
from dpone_core.use_cases.check import CheckReport
from dpone_core.use_cases.project import find_project_root, snapshot_env
from dpone_core.use_cases.run import RetryPolicy, RunExecution, RunOptions
from dpone_core.use_cases.transfer import RefusedStep, TransferExecution, TransferOptions

__all__ = [
    "RetryPolicy",
    "RunExecution",
    "RunOptions",
    "RunProcessPorts",
    "TransferOptions",
    "check",
    "execute_run",
    "load_partition",
    "plan",
    "plan_transfer",
    "run",
]


def check(
    path: str | Path, *, project_dir: str | Path | None = None, environment: Mapping[str, str] | None = None
) -> CheckReport:
    """Returns every finding about one manifest, with positions; never raises for what a manifest may hold.

    Includes what planning refuses: a route, an acceptance side or a finaliser that the connectors do not declare.
    """
    return checking.check(Path(path), find_project_root(project_dir, snapshot_env(environment)))


def plan(
    path: str | Path,
    *,
    selector: str | None = None,
    project_dir: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[dict[str, object]]:
    """Returns one plan per process, made without any connection. Raises ETLConfigurationError."""
    return planning.plan(Path(path), selector, find_project_root(project_dir, snapshot_env(environment)))


def run(
    path: str | Path,
    *,
    selector: str | None = None,
    run_id: str | None = None,
    dag_id: str | None = None,
    execution_date: str | None = None,
    interval_start: str | None = None,
    interval_end: str | None = None,
    retry_attempts: int = 0,
    retry_backoff_seconds: float = 0.0,
    separate_hooks: str = "inline",
    keep_going: bool = False,
    once: bool = False,
    partitions: str = "inline",
    transfer_plan: str | None = None,
    project_dir: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> RunReport | RunSetReport:
    """Runs a manifest's processes; returns the CLI's report or raises the first error, whose kind says what happened.

    `retry_attempts` counts attempts beyond the first and applies only where the outcome allows a retry. `once`: a run
    id that has succeeded already, under the same plan and policy, is not run again; its published report is returned.
    """
    options = RunOptions(
        selector=selector,
        arguments=RunArguments(
            run_id=run_id,
            dag_id=dag_id,
            execution_date=execution_date,
            interval_start=interval_start,
            interval_end=interval_end,
            transfer_plan=transfer_plan,
        ),
        retry=RetryPolicy(retry_attempts=retry_attempts, backoff_seconds=retry_backoff_seconds),
        separate_hooks=separate_hooks,
        keep_going=keep_going,
        once=once,
        partitions=partitions,
    )
    execution = execute_run(Path(path), options, environment=environment, project_dir=project_dir)
    if execution.error is not None:
        raise execution.error
    return execution.report


def execute_run(
    path: Path,
    options: RunOptions,
    *,
    environment: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> RunExecution:
    """Runs a manifest's processes. Never raises DponeError: a refusal is in the result and created nothing."""
    return running.execute_run(path, options, env=environment, project_dir=project_dir, ports=ports)


def plan_transfer(
    path: Path,
    options: TransferOptions,
    *,
    environment: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> TransferExecution:
    """Plans the key ranges of one run id, or returns the plan stored before. Reads no rows, mutates no target.

    Raises ETLConfigurationError for a refusal; what fails after sessions were opened is in the result.
    """
    return _raise_refusal(
        transferring.execute_plan(path, options, env=environment, project_dir=project_dir, ports=ports)
    )


def load_partition(
    path: Path,
    options: TransferOptions,
    *,
    partition: int | None = None,
    environment: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> TransferExecution:
    """Stages one range of a stored plan, unless it is staged or committed already. Mutates no target.

    `partition` and the transfer plan of `options.arguments`, or DPONE_AIRFLOW_MAPPING_ITEM, say which. Raises
    ETLConfigurationError for a refusal; what fails after sessions were opened is in the result.
    """
    return _raise_refusal(
        transferring.execute_partition(
            path, options, partition=partition, env=environment, project_dir=project_dir, ports=ports
        )
    )


def _raise_refusal(execution: TransferExecution | RefusedStep) -> TransferExecution:
    if isinstance(execution, RefusedStep):
        raise execution.refusal
    return execution
