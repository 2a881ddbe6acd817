"""The Python API of key ranges in processes of their own: one plans them, one stages each, `run` publishes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dpone_core.invocation import RunArguments
from dpone_core.use_cases.bundles import PackReference
from dpone_core.use_cases.call import Call, RunProcessPorts, only_process, prepared_processes
from dpone_core.use_cases.fan_out import (
    FanOutProcess,
    TransferExecution,
    range_item,
    require_fan_out,
    require_shared_sink,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOptions:
    """One process whose key ranges are planned, staged and loaded by processes of their own; identity as for a run."""

    selector: str | None = None
    arguments: RunArguments = field(default_factory=RunArguments)
    separate_hooks: str = "inline"
    pack: PackReference | None = None


def plan_transfer(
    path: Path,
    options: TransferOptions,
    *,
    environment: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
    ports: RunProcessPorts | None = None,
) -> TransferExecution:
    """Plans the key ranges of one run id, or finds the plan that stands. Reads no rows, mutates no target.

    Raises ETLConfigurationError for a refusal; what fails after sessions were opened is in the result.
    """
    return _process(path, options, environment, project_dir, ports, options.separate_hooks).plan()


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
    process = _process(path, options, environment, project_dir, ports, None)
    return process.load(range_item(process.invocation, partition))


def _process(
    path: Path,
    options: TransferOptions,
    environment: Mapping[str, str] | None,
    project_dir: str | Path | None,
    ports: RunProcessPorts | None,
    separate_hooks: str | None,
) -> FanOutProcess:
    """`separate_hooks` None: who stages a range leaves the hooks to the plan it works on."""
    call = Call.of(options.arguments, environment, project_dir, ports)
    manifest = call.manifest(path)
    (prepared,) = prepared_processes(
        manifest,
        [only_process(manifest, options.selector)],
        options.pack,
        separate_hooks,
        call.invocation,
        call.variables,
        call.ports.redactor,
    )
    require_fan_out(prepared.planned, separate_hooks or "receipts")
    require_shared_sink(prepared)
    return FanOutProcess(prepared=prepared, invocation=call.invocation, runtime=call.runtime())
